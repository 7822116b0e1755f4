"""Test tiers: every test belongs to one tier, and some of any tier run on the real control plane.

A pytest plugin. It registers our markers, leaves the long sizes to `--full`, and ends the run with a table of what ran
in which tier, so that nobody mistakes a green run without a control plane for a green run.
"""

from collections import Counter
from pathlib import Path

import pytest

TIERS = ("unit", "property", "story", "contract", "end-to-end", "fault")
_REAL = "real"
_TIER = "tier"

_MARKERS = {
    _REAL: "runs on the real control plane (etcd, kube-apiserver, ...)",
    "story": "several steps on the simulator in virtual time",
    "fault": "crashes, conflicts, lost watches and other misfortune",
    "full": "a size that only `make test-full` runs",
}


def tier_of(item: pytest.Item) -> str:
    """The tier a test counts in, by marker first and by folder otherwise."""
    if item.get_closest_marker("fault"):
        return "fault"
    if "contract" in Path(str(item.path)).parts:
        return "contract"
    if item.get_closest_marker(_REAL):
        return "end-to-end"
    if item.get_closest_marker("story"):
        return "story"
    return "property" if getattr(getattr(item, "obj", None), "is_hypothesis_test", False) else "unit"


class TierCount:
    """Counts what really ran; a skipped test is counted as skipped, with its reason."""

    def __init__(self) -> None:
        self.ran: Counter[str] = Counter()
        self.ran_real = 0
        self.skipped: Counter[tuple[str, str]] = Counter()

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        noted = dict(report.user_properties)
        tier = str(noted.get(_TIER, "unit"))
        if report.when == "call" and not report.skipped:
            self.ran[tier] += 1
            self.ran_real += bool(noted.get(_REAL))
        if report.skipped:
            self.skipped[(tier, _reason(report))] += 1

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        write = terminalreporter.write_line
        terminalreporter.section("tests by tier")
        for tier in TIERS:
            write(f"{tier:<12} {self.ran[tier]:>6} ran")
        for (tier, reason), count in sorted(self.skipped.items()):
            write(f"{tier:<12} {count:>6} skipped: {reason}")
        write(f"{'on the real control plane:':<26} {self.ran_real} of them")


def _reason(report: pytest.TestReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--full` as in `make test-full`."""
    parser.addoption("--full", action="store_true", help="also run the sizes marked `full` (minutes each)")


def pytest_configure(config: pytest.Config) -> None:
    """Markers, and the counter."""
    for name, meaning in _MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    config.pluginmanager.register(TierCount(), "ullage-tier-count")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long sizes wait for `--full`; everything else is noted with its tier."""
    if not config.getoption("--full"):
        long = [item for item in items if item.get_closest_marker("full")]
        if long:
            config.hook.pytest_deselected(items=long)
            items[:] = [item for item in items if not item.get_closest_marker("full")]
    for item in items:
        # Noted on the test, so that it travels with the report where tests run in several processes.
        item.user_properties += [(_TIER, tier_of(item)), (_REAL, item.get_closest_marker(_REAL) is not None)]
