"""Shrinking of a failing story: parts are left out as long as the same promise breaks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from ullage.sim.chaos.story import ChaosStory

T = TypeVar("T")

Fails = Callable[[ChaosStory], bool]
"""True if the story still breaks the same promise."""


@dataclass(frozen=True, slots=True)
class ShrunkStory:
    """Smallest story found, and the number of runs it took."""

    story: ChaosStory
    runs: int


def shrunk(story: ChaosStory, fails: Fails, *, most_runs: int = 300) -> ShrunkStory:
    """Leave out faults, jobs, pools and nodes until no single one can be left out, or `most_runs` are used up."""
    runs = 0
    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(story):
            if runs >= most_runs:
                return ShrunkStory(story, runs)
            runs += 1
            if fails(candidate):
                story, smaller = candidate, True
                break
    return ShrunkStory(story, runs)


def _smaller(story: ChaosStory) -> Iterator[ChaosStory]:
    """Stories with less in them, the largest cuts first."""
    for faults in _without(story.faults):
        yield replace(story, faults=faults)
    for jobs in _without(story.jobs):
        yield replace(story, jobs=jobs)
    for pools in _without(story.pools):
        yield replace(story, pools=pools)
    for nodes in _without(story.nodes):
        yield replace(story, nodes=nodes)
    if story.replicas > 1:
        yield replace(story, replicas=1)
    if story.karpenter:
        yield replace(story, karpenter=False)
    if story.real_agents:
        yield replace(story, real_agents=False)


def _without(parts: tuple[T, ...]) -> Iterator[tuple[T, ...]]:
    """Halves first, then quarters, down to all but one."""
    size = len(parts)
    chunk = size
    while chunk >= 1:
        for start in range(0, size, chunk):
            yield parts[:start] + parts[start + chunk :]
        chunk //= 2
