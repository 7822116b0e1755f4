"""Fidelity: 20 stories on the real control plane with KWOK and in the simulator, and how far they agree.

Each story is kept when it has been played, so a run that is cut off goes on with the next one. `python -m
bench.fidelity --for 4m` plays in pieces; the figures are kept with the last piece.
"""

import argparse
import asyncio
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from bench import pages
from bench.chaos import ROOT, product_tree
from bench.record import RESULTS, Figure, keep
from ullage.model.duration import parse_duration
from ullage.sim.fidelity.compare import LEAST_SAME, FidelityReport, compare
from ullage.sim.fidelity.outcome import StoryOutcome
from ullage.testing.controlplane import ControlPlane
from ullage.testing.fidelity.calibration import MeasuredLatency
from ullage.testing.fidelity.real import StoodStill, fidelity_plane, measure, play_real
from ullage.testing.fidelity.simulated import play_simulated
from ullage.testing.fidelity.stories import STORIES, FidelityStory, story

KEPT = RESULTS / "fidelity-stories.json"
MOST_HELD_SECONDS = 0.5
TRIES = 4
"""Times a story is played, where the machine stands still."""


class PlayedStory(msgspec.Struct, frozen=True, kw_only=True):
    """One story, as it was played."""

    number: int
    report: FidelityReport
    latency: MeasuredLatency
    """Latency of the control plane just before, with which the simulator played."""
    load: float
    """Load of the machine at that time: processes that want to run, over a minute."""


class FidelityRun(msgspec.Struct, kw_only=True):
    """Stories of one run, which may be cut off and go on."""

    tree: str = ""
    """Digest of the product's source."""
    stories: list[PlayedStory] = []

    @property
    def missing(self) -> list[int]:
        there = {one.number for one in self.stories}
        return [number for number in range(STORIES) if number not in there]


def run(scale: float = 1.0) -> list[Figure]:
    """Play them all, print a line for each, and return the figures."""
    if scale < 1:
        some = FidelityRun()
        _play(some, range(max(1, round(STORIES * scale))), lambda: True)
        return figures(some.stories)
    found = begun(product_tree(ROOT), KEPT)
    _play(found, found.missing, lambda: True, KEPT)
    return figures(found.stories)


def main(arguments: Sequence[str]) -> int:
    """Play what is missing, for as long as told; returns 1 if all are played and a promise is broken."""
    parser = argparse.ArgumentParser(prog="python -m bench.fidelity", description=__doc__)
    parser.add_argument("--for", dest="lasts", metavar="TIME", default="1h", help="begin no story after so long: 4m")
    options = parser.parse_args(arguments)
    ends = time.monotonic() + parse_duration(options.lasts)
    found = begun(product_tree(ROOT), KEPT)
    _play(found, found.missing, lambda: time.monotonic() < ends, KEPT)
    if found.missing:
        print(f"{len(found.missing)} stories are missing: run this again")
        return 0
    result = figures(found.stories)
    print("\n".join(one.line() for one in result))
    keep("fidelity", result)
    pages.main()
    return 0 if all(one.holds for one in result) else 1


def begun(tree: str, path: Path) -> FidelityRun:
    """The run that was cut off on this tree; a new one if there is none, or only one that another tree wrote."""
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=FidelityRun)
    except (FileNotFoundError, msgspec.ValidationError):
        kept = FidelityRun()
    return kept if kept.tree == tree and kept.missing else FidelityRun(tree=tree)


def write(found: FidelityRun, path: Path) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")


def _play(found: FidelityRun, numbers: Sequence[int], goes_on: Callable[[], bool], kept: Path | None = None) -> None:
    """Play these, and keep the run after each."""
    with fidelity_plane() as plane:
        for number in numbers:
            if not goes_on():
                return
            found.stories.append(played(plane, number))
            if kept is not None:
                write(found, kept)


def played(plane: ControlPlane, number: int) -> PlayedStory:
    """One story on both sides, with the latency measured just before."""
    one = story(number)
    latency, load, real = _played_for_real(plane, one)
    report = compare(one.name, one.arrivals, real, play_simulated(one, latency))
    print(report.line(), flush=True)
    for difference in report.differences:
        print(f"    {difference}", flush=True)
    return PlayedStory(number=number, report=report, latency=latency, load=round(load, 1))


def _played_for_real(plane: ControlPlane, one: FidelityStory) -> tuple[MeasuredLatency, float, StoryOutcome]:
    """Latency, load and outcome. A story during which this process stood still is played again, a few times."""
    tries = 1
    while True:
        load, latency = os.getloadavg()[0], asyncio.run(measure(plane))
        try:
            return latency, load, asyncio.run(play_real(plane, one, most_held=MOST_HELD_SECONDS))
        except StoodStill as error:
            print(error, flush=True)
            tries += 1
            if tries > TRIES:
                raise


def figures(stories: Sequence[PlayedStory]) -> list[Figure]:
    """Figures of the certificate. The peer of each is what is promised."""
    reports = [one.report for one in stories]
    single = sum(one.single for one in reports)
    same = 100.0 * sum(one.single_same for one in reports) / max(1, single)
    bursts = sum(one.bursts for one in reports)
    return [
        Figure("placements with the same node and GPUs", "%", same, 100 * LEAST_SAME, "promised", 1.0, True),
        _of_all("bursts with the same counts by node shape", sum(one.bursts_same for one in reports), bursts),
        _of_all(
            "stories with as many purchases", sum(a == b for a, b in (one.bought for one in reports)), len(reports)
        ),
        _of_all(
            "stories with as many removals", sum(a == b for a, b in (one.removed for one in reports)), len(reports)
        ),
        _of_all("stories whose median wait agrees", sum(one.waits_agree for one in reports), len(reports)),
        Figure(
            "pods that came apart, same node and GPUs", "pods", sum(one.single_same for one in reports), single, "of"
        ),
        Figure("stories", "", len(reports)),
        Figure("nodes bought on the real control plane", "nodes", sum(one.bought[0] for one in reports)),
        Figure("nodes removed on the real control plane", "nodes", sum(one.removed[0] for one in reports)),
        *_measured([one.latency for one in stories]),
        Figure("load of the machine, largest", "", max(one.load for one in stories)),
    ]


def _measured(latencies: Sequence[MeasuredLatency]) -> list[Figure]:
    """Medians over the stories of what the simulator was told."""
    what = {
        "a write": [one.calls["POST"] for one in latencies],
        "each further call at once": [one.each for one in latencies],
        "a watch": [one.watch for one in latencies],
        "a pod's start": [one.start for one in latencies],
        "a pod's end": [one.end for one in latencies],
    }
    return [Figure(f"measured latency of {name}", "ms", 1000 * statistics.median(of)) for name, of in what.items()]


def _of_all(name: str, found: int, all_of_them: int) -> Figure:
    """All of them have to."""
    return Figure(name, "", found, all_of_them, "of", 1.0 if all_of_them else None, True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
