"""One run: its scores, its decisions, and the first broken invariant, if any."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ullage.sim.experiment.descriptions import changed_settings, fleet_summary, workload_summary
from ullage.sim.experiment.run_spec import RunSpec, world_arrivals, world_spec
from ullage.sim.report.comparison import ComparedDecision
from ullage.sim.report.run_sheet import RunSheet
from ullage.sim.world.decisions import Decision
from ullage.sim.world.run import SimulationResult, simulate
from ullage.sim.world.spec import Arrival, WorldSpec
from ullage.sim.world.violation import violation_file
from ullage.sim.world.workload_player import PlayProgress as WorldProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """Progress of a run."""

    label: str
    elapsed: float
    """Simulated seconds."""
    pods: int
    """Pods placed so far."""
    pods_in_all: int
    share: float
    """Estimated completed share of the run, from 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenInvariant:
    """An invariant that was broken, with the history of its objects and a replay file."""

    at: float
    sentence: str
    story: tuple[str, ...]
    replay: bytes
    """File that replays the run up to the breach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """Result of a run. Equal RunSpecs have equal outcomes."""

    sheet: RunSheet
    steps: tuple[ComparedDecision, ...] = ()
    """All decisions, if they were to be kept."""
    violation: BrokenInvariant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """A world, its arrivals, and their descriptions for reports."""

    label: str
    group: str = ""
    spec: WorldSpec
    arrivals: tuple[Arrival, ...]
    duration: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    workload: Mapping[str, Any] = field(default_factory=dict)
    fleet: Mapping[str, Any] = field(default_factory=dict)

    @property
    def pods(self) -> int:
        return sum(one.get("kind") == "Pod" for arrival in self.arrivals for one in arrival.objects)


OnProgress = Callable[[RunProgress], None]


def perform(recipe: RunSpec, *, keep_steps: bool = False, on_progress: OnProgress = lambda _: None) -> RunOutcome:
    """Run a RunSpec to its end. Blocks. Raises UserError."""
    return play(prepared(recipe), keep_steps=keep_steps, on_progress=on_progress)


def prepared(recipe: RunSpec) -> PreparedRun:
    """World, arrivals and report fields of a RunSpec."""
    return PreparedRun(
        label=recipe.label,
        group=recipe.group,
        spec=world_spec(recipe),
        arrivals=tuple(world_arrivals(recipe)),
        duration=recipe.duration,
        settings=changed_settings(recipe.settings),
        workload=workload_summary(recipe.workload),
        fleet=fleet_summary(recipe),
    )


def play(run: PreparedRun, *, keep_steps: bool = False, on_progress: OnProgress = lambda _: None) -> RunOutcome:
    """Run a PreparedRun to its end. Blocks."""
    tape = _Tape(keep_steps, run.spec.epoch)
    result = simulate(
        run.spec,
        run.arrivals,
        until=run.duration,
        on_progress=_progress_reporter(run, on_progress),
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
        group=run.group,
    )
    return RunOutcome(sheet=sheet, steps=tuple(tape.steps), violation=_broken(run, result))


def _broken(run: PreparedRun, result: SimulationResult) -> BrokenInvariant | None:
    found = result.violation
    if found is None:
        return None
    replay = violation_file(run.spec, run.arrivals, found)
    return BrokenInvariant(at=found.at, sentence=found.breach, story=found.story, replay=replay)


class _Tape:
    """Records decisions: a digest of all of them, and each one in full if they are to be kept."""

    def __init__(self, keep: bool, epoch: float) -> None:
        self.count = 0
        self.steps: list[ComparedDecision] = []
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
        step = ComparedDecision(after, decision.loop, decision.reason, f"{about.kind} {where}", decision.note)
        self.count += 1
        self._digest.update("\x1f".join(map(str, step)).encode() + b"\x1e")
        if self._keep:
            self.steps.append(step)


def _progress_reporter(run: PreparedRun, on_progress: OnProgress) -> Callable[[WorldProgress], None]:
    """Report progress: by time if the run has a duration, else by arrivals that have arrived and ended."""
    duration, pods = run.duration, run.pods

    def report_progress(far: WorldProgress) -> None:
        if duration:
            share = far.elapsed / duration
        else:
            share = (far.arrived + far.over) / (2 * far.expected) if far.expected else 1.0
        on_progress(
            RunProgress(label=run.label, elapsed=far.elapsed, pods=far.placed, pods_in_all=pods, share=min(share, 1.0))
        )

    return report_progress
