"""Log lines that would repeat themselves."""

import structlog
from structlog.testing import capture_logs

from ullage.observe.once import MOST, OnceLog


def test_a_line_is_written_once_and_again_after_a_while_with_how_often() -> None:
    with capture_logs() as lines:
        log = OnceLog(structlog.get_logger(), again_after=600)
        for now in (0.0, 1.0, 2.0, 599.0, 601.0, 602.0):
            log.warning("failed", "key", now=now, pod="p")
        log.warning("failed", "another", now=602.0, pod="q")
    assert [(one["pod"], one.get("repeated")) for one in lines] == [("p", None), ("p", 3), ("q", None)]


def test_what_is_over_is_news_when_it_comes_again() -> None:
    with capture_logs() as lines:
        log = OnceLog(structlog.get_logger())
        log.warning("failed", "key", now=0.0)
        assert log.forget("key")
        assert not log.forget("key")
        log.warning("failed", "key", now=1.0)
    assert len(lines) == 2


def test_what_is_remembered_is_bounded() -> None:
    with capture_logs() as lines:
        log = OnceLog(structlog.get_logger())
        for number in range(MOST + 10):
            log.warning("failed", number, now=0.0)
        log.warning("failed", 0, now=0.0)
        log.warning("failed", MOST, now=0.0)
    assert len(lines) == MOST + 11
