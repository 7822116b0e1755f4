"""Scheduler loop: observe, decide, assume, write, report."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, assert_never

from ullage.act.bind import PodBinder
from ullage.act.gang_bind import GangBinder
from ullage.act.pod_status import PodConditionWriter
from ullage.act.preemption import PreemptionActuator
from ullage.clock import Clock
from ullage.config.settings import Settings
from ullage.control.scheduling.bind_failures import BindFailures
from ullage.control.scheduling.pod_conditions import UnschedulableWriter
from ullage.control.scheduling.reporter import SchedulerReporter
from ullage.decide.scheduling.core import SchedulerCore
from ullage.decide.scheduling.decisions import Decision, PodsUnschedulable, PreemptionSearch, SearchDeferred
from ullage.model.allocation import Allocation
from ullage.model.fact_event import Deleted, FactEvent, ObjectKey, Updated
from ullage.model.intents import BindGang, BindPod, EvictGang, Preempt
from ullage.model.outcomes import PlaceOutcome, PodNotBound
from ullage.model.pod import Pod
from ullage.model.refusal import SchedulingFailure
from ullage.model.units import Seconds
from ullage.observe.traces import PlacementSpan, placement
from ullage.runtime import LoopTasks, Pacing, Wakeup, drive, let_others_run, run_reconciler, seconds_until

DECISIONS_AT_A_TIME = 16
"""Decisions per turn; then other tasks of the event loop run: responses to read, events to take in."""

SEARCH_BUDGET = Seconds(30.0)
"""Seconds after which a search for victims ends with the best it has found."""

DECISION_SLICE = Seconds(0.010)
"""Seconds of decisions after which other tasks run: twice as long as those of a search beside them."""

SEARCH_SLICE = Seconds(0.005)
"""Seconds of a search after which other pods are decided on."""

MODELLED_DECISION = Seconds(0.000_15)
"""CPU seconds a decision costs in simulated time."""


@dataclass(frozen=True, slots=True)
class SchedulerActuator:
    """Actuators of the scheduling loop."""

    placer: PodBinder
    gang_placer: GangBinder
    preempter: PreemptionActuator
    refuser: PodConditionWriter


class FeedbackSink(Protocol):
    """Receiver of what the scheduler knows of pending pods before any API object does: the ClaimController."""

    def reserved(self, pod: ObjectKey, allocation: Allocation | None) -> None:
        """Leases are held for a bind of this pod that is under way, or no longer are."""
        ...

    def refused(self, pod: ObjectKey, uid: str, why: SchedulingFailure) -> None:
        """The pod gets no place now."""
        ...


class SchedulerLoop:
    """Runs a SchedulerCore. Every event goes to `observe`; `run` goes on until cancelled."""

    pacing = Pacing()

    def __init__(
        self,
        core: SchedulerCore,
        actuator: SchedulerActuator,
        reporter: SchedulerReporter,
        clock: Clock,
        settings: Settings = Settings(),  # noqa: B008 - frozen
        *,
        feedback: FeedbackSink | None = None,
    ) -> None:
        """`feedback` is told of reservations and failures that no API object has yet."""
        self.core = core
        self._actuator = actuator
        self._reporter = reporter
        self._clock = clock
        self._settings = settings.scheduling
        self._tasks = LoopTasks()
        self._wakeup = Wakeup()
        self._placing = 0
        self._feedback = feedback
        self._refusals = UnschedulableWriter(
            actuator.refuser, reporter, clock, self._tasks, settings, written=self._pass_on
        )
        self._failures = BindFailures()

    def configure(self, settings: Settings) -> None:
        """Take over changed settings."""
        self._settings = settings.scheduling
        self._refusals.at_once = settings.scheduling.max_condition_parallelism
        self.core.configure(settings.scheduling)
        self._wakeup.set()

    @property
    def is_busy(self) -> bool:
        """True if at least half of the bind pipeline is in use, so that binds wait for one another."""
        return 2 * self._placing >= self._settings.max_bind_parallelism

    def observe(self, event: FactEvent[Any]) -> None:
        """Take in one event."""
        self.core.apply(event, now=self._clock.now())
        match event:
            case Deleted(key=pod, old=Pod()) | Updated(key=pod, new=Pod(holds_room=True)):
                self._refusals.drop(pod)
                self._failures.forget(pod)
        self._wakeup.set()

    async def run(self) -> None:
        """Run until cancelled."""
        async with self._tasks:
            await run_reconciler(self, self._wakeup, self._clock)

    def longest_wait(self) -> float | None:
        """Seconds until the next deadline, unless all slots are taken; the end of a bind is a change."""
        full = self._placing >= self._settings.max_bind_parallelism
        return None if full else seconds_until(self.core.next_deadline(), self._clock.now())

    async def reconcile(self) -> bool:
        """Make some decisions. True if any was made."""
        decided = self._decide_some()
        if not decided:
            return False
        await self._clock.charge(decided * MODELLED_DECISION)
        await let_others_run()
        return True

    def _decide_some(self) -> int:
        """Decide until the pipeline is full, no pod is left, or other tasks should have a turn."""
        decided = 0
        began = self._clock.steady()
        until = began + DECISION_SLICE
        while decided < DECISIONS_AT_A_TIME and began < until and self._placing < self._settings.max_bind_parallelism:
            decision = self.core.next_decision(now=self._clock.now())
            if decision is None:
                break
            decided += 1
            self._begin(decision, self._clock.steady() - began)
            ended = self._clock.steady()
            self._reporter.decided(ended - began)
            began = ended
        return decided

    def _begin(self, decision: Decision, took: float) -> None:
        """Set going what was decided in `took` seconds; nothing is waited for."""
        match decision:
            case BindPod():
                self._refusals.forget(decision.pod)
                self._placing += _slots((decision,))
                self._tasks.start(self._place(decision, took))
            case BindGang():
                for place in decision.places:
                    self._refusals.forget(place.pod)
                self._placing += _slots(decision.places)
                self._tasks.start(self._place_gang(decision, took))
            case EvictGang():
                self._tasks.start(self._evict_gang(decision))
            case PodsUnschedulable():
                self._refuse(decision)
            case PreemptionSearch():
                self._tasks.start(self._search(decision))
            case SearchDeferred():
                pass
            case _:
                assert_never(decision)

    async def _search(self, search: PreemptionSearch) -> None:
        """Search victims in slices, beside other decisions."""
        began = self._clock.steady()
        found = await drive(search.steps, self._clock, budget=SEARCH_BUDGET, slice_time=SEARCH_SLICE)
        decision = self.core.conclude(search, found, now=self._clock.now())
        if decision is not None:
            self._begin(decision, self._clock.steady() - began)
        self._wakeup.set()

    async def _place(self, action: BindPod, decided_in: float) -> None:
        with self._slots_taken((action,)), placement(self._reporter.tracer, _attributes(action), decided_in) as span:
            began, waited = self._clock.steady(), self._waited(action)
            outcome = await self._actuator.placer.perform(action)
            _trace_failure(span, (outcome,))
        self._settle(outcome, waited, took=self._clock.steady() - began)
        self._report_failure(outcome)

    async def _place_gang(self, action: BindGang, decided_in: float) -> None:
        named: dict[str, str | int] = {"ullage.gang": str(action.gang), "ullage.members": len(action.places)}
        with self._slots_taken(action.places), placement(self._reporter.tracer, named, decided_in) as span:
            began, waited = self._clock.steady(), [self._waited(place) for place in action.places]
            outcome = await self._actuator.gang_placer.perform(action)
            _trace_failure(span, outcome.outcomes)
        self._reporter.gang_ended(outcome, waited=self.core.gang_waited(action.gang, now=self._clock.now()))
        for one, so_far in zip(outcome.outcomes, waited, strict=True):
            self._settle(one, so_far, took=self._clock.steady() - began)
        for one in outcome.outcomes:
            self._report_failure(one)

    def _waited(self, action: BindPod) -> float:
        """Seconds until now. To be asked before the write: a watch may be faster than the answer, and end the wait."""
        return self.core.waited(action.pod, now=self._clock.now()) or 0.0

    def _settle(self, outcome: PlaceOutcome, waited: float, *, took: float) -> None:
        self._reporter.placing_ended(outcome, took=took, waited=waited + took)
        self.core.settle(outcome, now=self._clock.now())
        self._wakeup.set()

    def _report_failure(self, outcome: PlaceOutcome) -> None:
        """Report on the pod and its claim that it was not bound, and why, in the API server's words."""
        if not isinstance(outcome, PodNotBound) or (why := self._failures.refusal(outcome)) is None:
            return
        pod = self.core.snapshot.state.pods.get(outcome.action.pod)
        if pod is None or pod.uid != outcome.action.uid or pod.node:
            return
        self._pass_on(pod, why)
        self._refusals.note((pod,), why)

    async def _evict_gang(self, action: EvictGang) -> None:
        self._reporter.gang_evicted(await self._actuator.preempter.evict_gang(action))

    def _refuse(self, refused: PodsUnschedulable) -> None:
        self._reporter.refused(refused)
        for pod in refused.pods:
            # A claim says what its pod's condition says: what is told later there is told later here.
            self._pass_on(pod, self._refusals.last_written(pod) or refused.why)
        if refused.gave_up is not None:
            waited = self.core.gang_waited(refused.gave_up, now=self._clock.now())
            self._reporter.gang_gave_up(refused.pods, refused.why, waited=waited)
        self._refusals.note(refused.pods, refused.why, unnominate=refused.unnominate, passing=refused.passing)
        for action in refused.preempts:
            self._tasks.start(self._preempt(action))

    def _pass_on(self, pod: Pod, why: SchedulingFailure) -> None:
        if self._feedback is not None:
            self._feedback.refused(pod.key, pod.uid, why)

    async def _preempt(self, action: Preempt) -> None:
        outcome = await self._actuator.preempter.perform(action)
        self._reporter.preempted(outcome)
        self.core.settle_preemption(outcome, now=self._clock.now())
        self._wakeup.set()

    def _reserve(self, pod: ObjectKey, allocation: Allocation | None) -> None:
        if self._feedback is not None:
            self._feedback.reserved(pod, allocation)

    @contextmanager
    def _slots_taken(self, places: Sequence[BindPod]) -> Iterator[None]:
        """Release the binds' pipeline slots at the end. GPUs are being leased meanwhile, unless volumes come first."""
        leasing = [place for place in places if place.devices and not place.volumes]
        for place in leasing:
            self._reserve(place.pod, place.allocation)
        try:
            yield
        finally:
            self._placing -= _slots(places)
            self._wakeup.set()
            for place in leasing:
                self._reserve(place.pod, None)


def _attributes(action: BindPod) -> dict[str, str | int]:
    """Attributes of a pod's placement, by the names OpenTelemetry has for them."""
    return {
        "k8s.namespace.name": action.pod.namespace,
        "k8s.pod.name": action.pod.name,
        "k8s.pod.uid": action.uid,
        "k8s.node.name": action.node,
        "ullage.gpus": ",".join(map(str, action.devices)),
        "ullage.why": action.why,
    }


def _trace_failure(span: PlacementSpan, outcomes: Sequence[PlaceOutcome]) -> None:
    """Mark the span with the first failure."""
    for outcome in outcomes:
        if isinstance(outcome, PodNotBound):
            span.failed(outcome.setback.value, f"{outcome.action.pod}: {outcome.detail}")
            return


def _slots(places: Sequence[BindPod]) -> int:
    """Slots of the pipeline these binds take. Binds that wait for volumes take none: that may take minutes."""
    return sum(not place.volumes for place in places)
