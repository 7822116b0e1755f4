"""Fidelity: 20 stories on the real control plane with KWOK and in the simulator, and how far they agree."""

import asyncio
from collections.abc import Sequence

from bench.record import Figure
from ullage.sim.fidelity.compare import LEAST_SAME, FidelityReport, compare
from ullage.testing.fidelity.real import fidelity_plane, play_real
from ullage.testing.fidelity.simulated import play_simulated
from ullage.testing.fidelity.stories import STORIES, story


def run(scale: float = 1.0) -> list[Figure]:
    """Play them all, print a line for each, and return the figures."""
    return figures(played(range(max(1, round(STORIES * scale)))))


def played(numbers: Sequence[int]) -> list[FidelityReport]:
    """Reports of these stories."""
    reports = []
    with fidelity_plane() as plane:
        for number in numbers:
            one = story(number)
            real, simulated = asyncio.run(play_real(plane, one)), play_simulated(one)
            reports.append(compare(one.name, one.arrivals, real, simulated))
            print(reports[-1].line(), flush=True)
            for difference in reports[-1].differences:
                print(f"    {difference}", flush=True)
    return reports


def figures(reports: Sequence[FidelityReport]) -> list[Figure]:
    """Figures of the certificate. The peer of each is what is promised."""
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
    ]


def _of_all(name: str, found: int, all_of_them: int) -> Figure:
    """All of them have to."""
    return Figure(name, "", found, all_of_them, "of", 1.0 if all_of_them else None, True)
