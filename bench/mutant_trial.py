"""Trials of mutants in children of one process that has imported everything, and collected every test, once.

A pytest plugin: its run loop forks a child for each file that is mapped and each mutant that is tried. The child gives
the functions of this process the mutant's code, and runs tests, or plays seeds, that execute it until one fails.
"""

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.mutant_map import Lines, Run, RunMap
from ullage.sim.chaos.generate import generated_story
from ullage.sim.chaos.run import play
from ullage.testing.mutants import Mutant
from ullage.testing.mutated_code import put_in

ROOT = Path(__file__).parent.parent
TEST_SECONDS, SEED_SECONDS = 40, 20
"""CPU seconds for one mutant: two thirds for tests, the rest for seeds."""
MAP_SECONDS = 240
HANGS_SECONDS = 5
"""A test that goes on for so many CPU seconds, and five times what it usually takes, does not end."""
SEEDS = 40
FALSE_ALARMS = 3
"""Tests that fail without the mutant, too, and are left out for it, at most."""
SEED_FILE = "seeds"

_Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a mutant ended."""

    killed_by: str
    """`tests`, `seeds`, or empty for a survivor."""
    detail: str = ""
    seconds: float = 0.0
    """CPU seconds."""


class Trials:
    """Plugin that tries mutants instead of running the tests one after the other."""

    def __init__(
        self, mutants: Sequence[Mutant], files: Mapping[str, Sequence[str]], every: Sequence[Mutant], *, quick: bool
    ) -> None:
        """`every`: mutants that the map is made for; `quick`: no seeds, and files that are not mapped yet run whole."""
        self._quick = quick
        self._mutants = mutants
        self._files = files
        """Files of tests for each mutant by name, the nearest first."""
        self._lines = Lines(every)
        self._map = RunMap(every)
        self._texts = {file: (ROOT / file).read_text() for some in files.values() for file in some}
        self._sources = {one.path: (ROOT / one.path).read_text() for one in mutants}
        """Files of tests and of the product as they are when they are imported."""
        self._items: dict[str, list[pytest.Item]] = {}
        self._failed = ""
        self.verdict: Callable[[Mutant, Verdict], None] = lambda *_: None
        """Called with each result."""

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try each mutant."""
        for item in session.items:
            self._items.setdefault(item.nodeid.split("::")[0], []).append(item)
        for one in self._mutants:
            self.verdict(one, self._tried(one))
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure, of a fixture too."""
        if report.failed:
            self._failed = report.nodeid

    def _tried(self, mutant: Mutant) -> Verdict:
        by_tests = self._by_tests(mutant)
        if by_tests.killed_by or self._quick:
            return by_tests
        by_seeds = self._by_seeds(mutant)
        return Verdict(by_seeds.killed_by, by_seeds.detail, by_tests.seconds + by_seeds.seconds)

    def _by_tests(self, mutant: Mutant) -> Verdict:
        left, spent, alarms = float(TEST_SECONDS), 0.0, set[str]()
        for batch in self._batches(mutant):
            while len(alarms) <= FALSE_ALARMS and left > 0:
                failed, used = self._first_failure(mutant, [one for one in batch if one.name not in alarms], left)
                left, spent = left - used, spent + used
                if not failed:
                    break
                if not self._first_failure(None, [one for one in batch if one.name == failed], TEST_SECONDS)[0]:
                    return Verdict("tests", failed, spent)
                alarms.add(failed)
        return Verdict("", "", spent)

    def _batches(self, mutant: Mutant) -> Iterable[list[Run]]:
        """Runs that execute a mutant: file by file the nearest first, of a file the quick ones first."""
        for file in self._files[mutant.name]:
            runs = [one for one in self._mapped(mutant, file) if one.passed and mutant.name in one.executes]
            if runs:
                yield sorted(runs, key=lambda one: one.seconds)

    def _mapped(self, mutant: Mutant, file: str) -> list[Run]:
        items, text = self._items.get(file, []), self._texts[file]
        found = self._map.get(file, text)
        if found is None and self._quick:
            return [Run(item.nodeid, 0.0, True, frozenset({mutant.name})) for item in items]
        if found is None:
            lines, _ = _in_child(lambda say: self._watch(items, say), MAP_SECONDS)
            self._map.put(file, text, lines)
            found = self._map.get(file, text)
        return found or []

    def _watch(self, items: Sequence[pytest.Item], say: Callable[[_Line], None]) -> None:
        for item, following in zip(items, [*items[1:], None], strict=True):
            self._failed, began = "", time.process_time()
            with self._lines.watched() as seen:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            used = time.process_time() - began
            say({"name": item.nodeid, "seconds": used, "passed": not self._failed, "executes": sorted(seen)})

    def _first_failure(self, mutant: Mutant | None, runs: Sequence[Run], seconds: float) -> tuple[str, float]:
        """First of some tests that fails, and the CPU seconds until then. One that does not end fails, too."""
        every = {item.nodeid: item for run in runs for item in self._items[run.name.split("::")[0]]}
        items = [every[run.name] for run in runs if run.name in every]
        lines, used = _in_child(lambda say: self._run(mutant, items, say), seconds)
        for line in lines:
            if "failed" in line:
                return line["failed"], used
        begun = [(line["begun"], line["at"]) for line in lines if "begun" in line]
        if mutant is None or not begun or {"ended": True} in lines:
            return "", used
        name, at = begun[-1]
        usual = next(run.seconds for run in runs if run.name == name)
        return (name if used - at > HANGS_SECONDS + 5 * usual else ""), used

    def _run(self, mutant: Mutant | None, items: Sequence[pytest.Item], say: Callable[[_Line], None]) -> None:
        if mutant is not None:
            self._put_in(mutant)
        for item, following in zip(items, [*items[1:], None], strict=True):
            say({"begun": item.nodeid, "at": time.process_time()})
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                say({"failed": self._failed})
                return
        say({"ended": True})

    def _by_seeds(self, mutant: Mutant) -> Verdict:
        text = (ROOT / "ullage/sim/chaos/generate.py").read_text()
        runs = self._map.get(SEED_FILE, text)
        if runs is None:
            lines, _ = _in_child(self._watch_seeds, MAP_SECONDS)
            self._map.put(SEED_FILE, text, lines)
            runs = self._map.get(SEED_FILE, text) or []
        seeds = [int(one.name) for one in runs if one.passed and mutant.name in one.executes]
        lines, used = _in_child(lambda say: self._play(mutant, seeds, say), SEED_SECONDS)
        return Verdict("seeds" if lines else "", lines[0]["failed"] if lines else "", used)

    def _play(self, mutant: Mutant, seeds: Sequence[int], say: Callable[[_Line], None]) -> None:
        self._put_in(mutant)
        for seed in seeds:
            failure = play(generated_story(seed)).failure
            if failure is not None:
                say({"failed": f"seed {seed}: {failure.rule}: {failure.sentence}"[:200]})
                return

    def _put_in(self, mutant: Mutant) -> None:
        if not put_in(mutant, self._sources[mutant.path], str(ROOT / mutant.path)):
            raise LookupError(f"no function of this process has the code of {mutant.name}")

    def _watch_seeds(self, say: Callable[[_Line], None]) -> None:
        for seed in range(SEEDS):
            began = time.process_time()
            with self._lines.watched() as seen:
                failure = play(generated_story(seed)).failure
            used = time.process_time() - began
            say({"name": str(seed), "seconds": used, "passed": failure is None, "executes": sorted(seen)})


def _in_child(work: Callable[[Callable[[_Line], None]], None], seconds: float) -> tuple[list[Any], float]:
    """Do some work in a child, for so many CPU seconds at most. Returns what it said and the CPU seconds it used."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _begin_child(reading, seconds)

        def say(line: _Line) -> None:
            os.write(writing, json.dumps(line).encode() + b"\n")

        try:
            work(say)
        except BaseException as error:  # noqa: BLE001 - the child ends here, whatever happened
            say({"error": repr(error)[:200]})
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as said:
        lines = [json.loads(line) for line in said if line.endswith(b"\n")]
    _, _, usage = os.wait4(child, 0)
    if errors := [line["error"] for line in lines if "error" in line]:
        print(f"  a child ended with {errors[0]}", flush=True)
    return [line for line in lines if "error" not in line], usage.ru_utime + usage.ru_stime


def _begin_child(reading: int, seconds: float) -> None:
    os.close(reading)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    whole = max(1, round(seconds))
    resource.setrlimit(resource.RLIMIT_CPU, (whole, whole + 5))
