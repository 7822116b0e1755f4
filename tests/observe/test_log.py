"""Where log lines go."""

import contextlib
import io
import json
from collections.abc import Iterator

import pytest
import structlog

from ullage.observe.log import configure


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """Logging is one for the process."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def test_lines_go_to_standard_error_as_it_is_when_they_are_written() -> None:
    """Whoever stood in for it when logging was set up may be closed by now."""
    gone, here = io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(gone):
        configure(form="json")
    gone.close()
    with contextlib.redirect_stderr(here):
        structlog.get_logger("x").warning("it happened", node="a")
    line = json.loads(here.getvalue())
    assert (line["event"], line["node"], line["level"]) == ("it happened", "a", "warning")


def test_lines_go_where_they_were_told_to() -> None:
    paper = io.StringIO()
    configure(level="warning", form="json", stream=paper)
    log = structlog.get_logger("x")
    log.info("not this")
    log.error("but this")
    assert [json.loads(line)["event"] for line in paper.getvalue().splitlines()] == ["but this"]
