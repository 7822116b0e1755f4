"""Jobs that change places while a process stands still between two calls: an empty node is promised to one of them.

Single draws hardly ever meet so: the nodes that stay are full, the one pod on a pool's node leaves, another pod gets
its GPUs, whoever is to bind that pod is stopped, and then room is free elsewhere: nobody seems to need the node.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ullage.sim.chaos.story import ChaosFault, ChaosJob, ChaosNode, ChaosPool, FaultKind, JobKind

_SHARE = 0.2
"""Share of the seeds that have such a moment."""
_CALM = 120.0
"""Seconds after the moment in which no other job comes."""


@dataclass(frozen=True, slots=True)
class ChangeOfPlaces:
    """Jobs and the fault of one such moment."""

    at: float
    pool: ChaosPool
    """The only pool: it may be empty."""
    jobs: tuple[ChaosJob, ...]
    stopped: ChaosFault

    def beside(self, others: Sequence[ChaosJob]) -> Iterator[ChaosJob]:
        """Its jobs and others, which come after it: one more pod on the node, and it is not empty."""
        yield from self.jobs
        for job in others:
            late = max(0.0, self.at + _CALM - job.at)
            leaves = None if job.leaves_at is None else round(job.leaves_at + late, 1)
            yield replace(job, at=round(job.at + late, 1), leaves_at=leaves)


def change_of_places(seed: int, nodes: Sequence[ChaosNode]) -> ChangeOfPlaces | None:
    """A moment early in the story of a seed; None for most seeds."""
    chance = random.Random(f"chaos/{seed}/places")
    if chance.random() >= _SHARE:
        return None
    at = round(chance.uniform(200.0, 300.0), 1)
    fillers = (
        _job(f"full{number}", 5.0, node.gpus, leaves_at=round(at + chance.uniform(1.0, 5.0), 1))
        for number, node in enumerate(nodes)
        if not node.mig
    )
    leaver = _job("leaver", 10.0, 1, leaves_at=at)
    heir = _job("heir", round(at + chance.uniform(0.2, 0.5), 2), 1)
    stopped = ChaosFault(
        at=round(at + 0.1, 1),
        kind=FaultKind.FREEZE_AFTER_CALL,
        pick=chance.randrange(1000),
        seconds=round(chance.uniform(75.0, 120.0), 1),
        amount=float(chance.choice((1, 1, 2))),
        only="create",
    )
    pool = ChaosPool(name="emptied", most=chance.randint(1, 3), least=0, drain=False)
    return ChangeOfPlaces(at, pool, (*fillers, leaver, heir), stopped)


def _job(name: str, at: float, gpus: int, *, leaves_at: float | None = None) -> ChaosJob:
    return ChaosJob(name=name, at=at, kind=JobKind.CLAIM, gpus=gpus, leaves_at=leaves_at)
