"""A whole run in virtual time: a world, its arrivals, and the result."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import structlog

from ullage.clock import Instant
from ullage.sim.virtual_time import run_virtual
from ullage.sim.world.decisions import Decision
from ullage.sim.world.spec import Arrival, WorldSpec
from ullage.sim.world.step_player import play_steps
from ullage.sim.world.violation import InvariantViolation
from ullage.sim.world.workload_player import PlayProgress, WorkloadPlayer
from ullage.sim.world.world import World, started_world

SETTLING_SECONDS = 600.0
"""Seconds after the scored part of a run, in which Leases of gone pods have to be released."""


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """Result of a run."""

    report: dict[str, Any]
    """Score sheet, as plain JSON."""
    ended_at: float
    """Simulated seconds."""
    violation: InvariantViolation | None = None


def simulate(
    spec: WorldSpec,
    arrivals: Sequence[Arrival],
    *,
    until: float | None = None,
    on_progress: Callable[[PlayProgress], None] = lambda _: None,
    on_decision: Callable[[Decision], None] | None = None,
) -> SimulationResult:
    """Run a world to its end.

    Blocks; needs no loop. Raises UserError for objects that the simulated cluster rejects.
    """

    async def live() -> SimulationResult:
        async with started_world(spec) as world:
            if on_decision is not None:
                for decision in world.decisions.recent:  # of what was waiting already when loops began
                    on_decision(decision)
                world.decisions.listen(on_decision)
            return await _played(world, WorkloadPlayer(world, arrivals, on_progress), until)

    with unlogged():
        return run_virtual(live(), epoch=Instant(spec.epoch))


@contextmanager
def unlogged() -> Iterator[None]:
    """Silence the loops' logs, which are for operators of live processes. Decisions are still read from Events."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


async def _play(world: World, player: WorkloadPlayer, until: float | None) -> bool:
    """Recorded steps and the workload side by side; True if nothing happened any more."""
    stepping = asyncio.create_task(play_steps(world, world.spec.steps), name="steps")
    try:
        if until is None:
            await stepping
        at_rest = await player.play(until)
        if stepping.done():
            stepping.result()
        return at_rest
    finally:
        stepping.cancel()
        await asyncio.gather(stepping, return_exceptions=True)


async def _played(world: World, player: WorkloadPlayer, until: float | None) -> SimulationResult:
    playing = asyncio.create_task(_play(world, player, until), name="workload")
    broken = asyncio.create_task(world.broken(), name="invariants")
    try:
        await asyncio.wait((playing, broken), return_when=asyncio.FIRST_COMPLETED)
        at_rest = playing.result() if playing.done() else False
        report = world.report(at_rest=at_rest)
        ended_at = report["seconds"] if at_rest else world.elapsed
        if not broken.done():
            await asyncio.wait((broken,), timeout=SETTLING_SECONDS)
            world.check_the_end()
    finally:
        for task in (playing, broken):
            task.cancel()
        await asyncio.gather(playing, broken, return_exceptions=True)
    return SimulationResult(report, ended_at, world.violation)
