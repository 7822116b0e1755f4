"""Trouble of informers, reported once: in the log, and in the readiness probe."""

from collections.abc import Iterable
from typing import Any, Protocol

import structlog

from ullage.errors import ApiError, Gone, ServerFailure, TooManyRequests, Unreachable

_log = structlog.get_logger("informer")

_PASSING = (Gone, ServerFailure, TooManyRequests, Unreachable)
PATIENCE = 3
"""Failures in a row of a kind that passes by itself, before it is worth a line."""


class TroubleLog:
    """Log of one informer's trouble: a line when it begins and one when it is over, however long it lasts."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._failures = 0
        self._said = ""

    def failed(self, error: ApiError) -> None:
        self._failures += 1
        passing = isinstance(error, _PASSING)
        if passing and (self._failures < PATIENCE or self._said):
            return
        if error.message != self._said:
            self._said = error.message or type(error).__name__
            _log.warning("cannot be heard of", what=self._source, error=self._said)

    def well(self) -> None:
        """The server has answered as it should."""
        self._failures = 0
        if self._said:
            self._said = ""
            _log.info("is heard of again", what=self._source)


class Listening(Protocol):
    """Source and health of an informer."""

    @property
    def source(self) -> str: ...
    @property
    def health(self) -> Any: ...


def unheard(informers: Iterable[Listening]) -> str:
    """Return the first resource that is not read yet or can no longer be read, with the cause; empty if there is none.

    A resource that was read once and is unreachable for a while does not count: most of what is known stays true.
    """
    for informer in informers:
        health = informer.health
        lasting = health.trouble is not None and not isinstance(health.trouble, _PASSING)
        if not health.synced or lasting:
            why = "has not been read yet" if health.trouble is None else f"cannot be read: {health.trouble.message}"
            return f"{informer.source} {why}"
    return ""
