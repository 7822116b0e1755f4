"""Order of test files: long ones early, and files that wait beside files that compute.

A pytest plugin for runs in several processes (`--dist loadfile --no-loadscope-reorder`, or xdist sorts by the number
of tests, and the longest files, which have few, come last and run alone). Kept seconds are those of an earlier run,
written by `--keep-seconds`; they decide only the order, never what runs.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

KEPT = "seconds.json"
"""File in the folder of tests with the seconds of each file that took long."""
LONG_SECONDS = 3.0
_REAL_SECONDS, _SECONDS = 10.0, 0.1
_OPTION = "--keep-seconds"


@dataclass(frozen=True, slots=True)
class FileCost:
    """Expected seconds of a file of tests."""

    path: str
    seconds: float
    waits: bool
    """True on the real control plane: it waits for most of its seconds."""


def ordered(files: Iterable[FileCost]) -> list[str]:
    """Longest first; files that wait and files that compute are mixed so that both kinds last until the end."""
    longest_first = sorted(files, key=lambda one: (-one.seconds, one.path))
    queues = [[one for one in longest_first if one.waits is waits] for waits in (True, False)]
    totals = [sum(one.seconds for one in queue) or 1.0 for queue in queues]
    given = [0.0, 0.0]
    found = []
    while any(queues):
        kind = min((kind for kind in (0, 1) if queues[kind]), key=lambda kind: given[kind] / totals[kind])
        one = queues[kind].pop(0)
        given[kind] += one.seconds
        found.append(one.path)
    return found


def cost(path: str, real: Sequence[bool], kept: Mapping[str, float]) -> FileCost:
    """Cost of a file: the kept seconds, or a guess from how many of its tests run on the real control plane."""
    guess = sum(_REAL_SECONDS if one else _SECONDS for one in real)
    return FileCost(path, kept.get(path, guess), any(real))


class SecondsByFile:
    """Sum of what was measured of each file, kept at the end of the run."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._seconds: dict[str, float] = defaultdict(float)

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.split("::")[0]] += report.duration

    @pytest.hookimpl
    def pytest_sessionfinish(self) -> None:
        long = {path: round(taken) for path, taken in sorted(self._seconds.items()) if taken >= LONG_SECONDS}
        self._target.write_text(json.dumps(long, indent=1) + "\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--keep-seconds` after a whole run on a quiet machine."""
    parser.addoption(_OPTION, action="store_true", help=f"keep what each file of tests took, in tests/{KEPT}")


def pytest_configure(config: pytest.Config) -> None:
    """Keep seconds in the process that hears all reports, if asked to."""
    if config.getoption(_OPTION) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SecondsByFile(_kept(config)), "ullage-seconds-by-file")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order of files; tests of one file stay as they are."""
    target = _kept(config)
    kept = json.loads(target.read_text()) if target.exists() else {}
    real: dict[str, list[bool]] = defaultdict(list)
    for item in items:
        real[_file(item)].append(item.get_closest_marker("real") is not None)
    place = {path: at for at, path in enumerate(ordered(cost(path, flags, kept) for path, flags in real.items()))}
    items.sort(key=lambda item: place[_file(item)])


def _file(item: pytest.Item) -> str:
    return item.nodeid.split("::")[0]


def _kept(config: pytest.Config) -> Path:
    return config.rootpath / "tests" / KEPT
