"""What is told while simulations run."""

import io
import sys
import time

import pytest

from ullage.cli.progress import shown
from ullage.sim.experiment.run import RunProgress


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def far(label: str, share: float) -> RunProgress:
    return RunProgress(label=label, elapsed=7200.0, pods=5, pods_in_all=10, share=share)


def test_lines_where_nobody_watches(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with shown(["a", "b"]) as told:
        told.far(far("a", 0.0))
        now += 5
        told.far(far("a", 0.1))
        now += 15
        told.far(far("a", 0.5))
        told.done("a")
    assert capsys.readouterr().err.splitlines() == [
        "a: 50 %, 2 h, 5 of 10 pods, 360x, ends in 20 s",
        "a: done (1 of 2)",
    ]


def test_bars_where_somebody_does(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    with shown(["a", "b"]) as told:
        told.far(far("a", 0.5))
        told.far(far("b", 0.25))
        told.done("a")
        told.far(far("b", 1.0))
        told.done("b")
    seen = terminal.getvalue()
    assert "2 runs" in seen
    assert "5 of 10 pods" in seen


def test_nothing_where_nobody_wants_to_know(capsys: pytest.CaptureFixture[str]) -> None:
    with shown(["a"], quiet=True) as told:
        told.far(far("a", 0.5))
        told.done("a")
    assert capsys.readouterr().err == ""
