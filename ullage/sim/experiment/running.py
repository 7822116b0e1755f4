"""One run: what was scored, what was decided, and what broke, if anything did."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ullage.sim.experiment.recipe import Recipe, told_settings, world_arrivals, world_spec
from ullage.sim.report.comparison import Step
from ullage.sim.report.sheet import RunSheet
from ullage.sim.world.decisions import Decision
from ullage.sim.world.playing import Progress as WorldProgress
from ullage.sim.world.run import Simulated, simulate
from ullage.sim.world.spec import Arrival, WorldSpec
from ullage.sim.world.violation import violation_file


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is."""

    label: str
    elapsed: float
    """Simulated seconds."""
    pods: int
    """That have been placed."""
    pods_in_all: int
    share: float
    """Of the run that is behind us, from 0 to 1, as far as can be told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """Something that must always hold did not."""

    at: float
    sentence: str
    story: tuple[str, ...]
    replay: bytes
    """A file to see it again with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a run. Equal recipes have equal outcomes."""

    sheet: RunSheet
    steps: tuple[Step, ...] = ()
    """All decisions, where they were to be kept."""
    violation: Broken | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A world, what arrives in it, and what reports say of both."""

    label: str
    spec: WorldSpec
    arrivals: tuple[Arrival, ...]
    duration: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    workload: Mapping[str, Any] = field(default_factory=dict)
    fleet: Mapping[str, Any] = field(default_factory=dict)

    @property
    def pods(self) -> int:
        return sum(one.get("kind") == "Pod" for arrival in self.arrivals for one in arrival.objects)


OnProgress = Callable[[Progress], None]


def perform(recipe: Recipe, *, keep_steps: bool = False, on_progress: OnProgress = lambda _: None) -> Outcome:
    """Run it to its end. Blocks. Raises UserError."""
    return play(prepared(recipe), keep_steps=keep_steps, on_progress=on_progress)


def prepared(recipe: Recipe) -> Prepared:
    """What a recipe comes to."""
    workload, fleet = recipe.workload, recipe.fleet
    objects = [*fleet.objects, *recipe.restored]
    return Prepared(
        label=recipe.label,
        spec=world_spec(recipe),
        arrivals=tuple(world_arrivals(recipe)),
        duration=recipe.duration,
        settings=told_settings(recipe.settings),
        workload={"jobs": len(workload.jobs), "pods": workload.pods, "rows left out": len(workload.skipped)},
        fleet={
            "nodes": len(fleet.nodes) + sum(one.get("kind") == "Node" for one in objects),
            "pools": sum(one.get("kind") == "NodeProvisioner" for one in objects),
        },
    )


def play(run: Prepared, *, keep_steps: bool = False, on_progress: OnProgress = lambda _: None) -> Outcome:
    """The same of what has been prepared."""
    tape = _Tape(keep_steps, run.spec.epoch)
    result = simulate(
        run.spec,
        run.arrivals,
        until=run.duration,
        on_progress=_told(run, on_progress),
        on_decision=tape.take,
    )
    sheet = RunSheet(
        label=run.label,
        seed=run.spec.seed,
        settings=run.settings,
        workload=run.workload,
        fleet=run.fleet,
        scores=result.report,
        decisions={"count": tape.count, "digest": tape.digest},
    )
    return Outcome(sheet=sheet, steps=tuple(tape.steps), violation=_broken(run, result))


def _broken(run: Prepared, result: Simulated) -> Broken | None:
    found = result.violation
    if found is None:
        return None
    replay = violation_file(run.spec, run.arrivals, found)
    return Broken(at=found.at, sentence=found.breach, story=found.story, replay=replay)


class _Tape:
    """Takes down decisions: each in the digest, and whole where they are wanted."""

    def __init__(self, keep: bool, epoch: float) -> None:
        self.count = 0
        self.steps: list[Step] = []
        self._keep = keep
        self._epoch = epoch
        self._digest = hashlib.sha256()

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def take(self, decision: Decision) -> None:
        about = decision.about
        where = f"{about.namespace}/{about.name}" if about.namespace else about.name
        after = round(decision.at - self._epoch, 3)
        step = Step(after, decision.loop, decision.reason, f"{about.kind} {where}", decision.note)
        self.count += 1
        self._digest.update("\x1f".join(map(str, step)).encode() + b"\x1e")
        if self._keep:
            self.steps.append(step)


def _told(run: Prepared, on_progress: OnProgress) -> Callable[[WorldProgress], None]:
    """By the time, where that is when it ends; else by what has arrived and what is over."""
    duration, pods = run.duration, run.pods

    def told(far: WorldProgress) -> None:
        if duration:
            share = far.elapsed / duration
        else:
            share = (far.arrived + far.over) / (2 * far.expected) if far.expected else 1.0
        on_progress(
            Progress(label=run.label, elapsed=far.elapsed, pods=far.placed, pods_in_all=pods, share=min(share, 1.0))
        )

    return told
