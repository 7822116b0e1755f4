"""Structured logs: one event name and its fields a line, for people on a terminal and as JSON elsewhere."""

import sys
from typing import Any, Literal, TextIO

LogFormat = Literal["auto", "console", "json"]
LEVELS = ("debug", "info", "warning", "error")


def configure(*, level: str = "info", form: LogFormat = "auto", stream: TextIO | None = None) -> None:
    """Set up logging for this process. Called once, by the command line."""
    import logging

    import structlog

    out = stream if stream is not None else sys.stderr
    as_json = form == "json" or (form == "auto" and not out.isatty())
    render: Any = structlog.processors.JSONRenderer(sort_keys=True) if as_json else structlog.dev.ConsoleRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        # Looked up for each line: a caller that replaces standard error for a while restores it later.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr if stream is None else stream),
        cache_logger_on_first_use=False,
    )
