"""Scheduler reporter: outcomes of decisions as Events on the objects concerned, and as metrics. Never blocks."""

from collections.abc import Sequence

import structlog

from ullage.clock import Clock
from ullage.decide.scheduling.decisions import PodsUnschedulable
from ullage.model.claim_status import ClaimStatus, QuotaStatus
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import BindPod
from ullage.model.outcomes import (
    BindFailure,
    ClaimCreateFailure,
    ClaimNotCreated,
    CopyOutcome,
    EvictGangOutcome,
    EvictionFailure,
    GangBindOutcome,
    PlaceOutcome,
    PodBound,
    PodNotBound,
    PreemptOutcome,
    RecordOutcome,
    StatusNotWritten,
    StatusWriteFailure,
)
from ullage.model.pod import Pod
from ullage.model.refusal import SchedulingFailure
from ullage.model.verdict import Reason
from ullage.observe.events import EventMessage, EventReason, EventRecorder, ObjectReference
from ullage.observe.once import OnceLog
from ullage.observe.scheduler_metrics import AttemptResult, BindResult, SchedulerMetrics
from ullage.observe.scheduler_metrics import GangResult as GangEnd
from ullage.observe.traces import PlacementTracer

_log = structlog.get_logger("scheduler")

_OF_NO_CONCERN = (BindFailure.POD_GONE, BindFailure.POD_CHANGED, BindFailure.GANG_FELL_APART)
"""Not reported: the pod is gone or was changed; and for a gang, the member that could not be placed is reported."""


_ERRORS = (BindFailure.FORBIDDEN, BindFailure.REFUSED, BindFailure.API_FAILED)
"""Counted as errors: the API server failed, or turns the scheduler's writes down. All others are lost races."""


class SchedulerReporter:
    """Reporter of a scheduler: Events, log lines and metrics."""

    def __init__(
        self,
        events: EventRecorder,
        metrics: SchedulerMetrics,
        clock: Clock,
        tracer: PlacementTracer | None = None,
    ) -> None:
        """Placements are traced if there is a `tracer`."""
        self.tracer = tracer
        self._events = events
        self._metrics = metrics
        self._clock = clock
        self._log = OnceLog(_log)

    def decided(self, seconds: float) -> None:
        self._metrics.decision_seconds.observe(seconds)

    def placing_ended(self, outcome: PlaceOutcome, *, took: float, waited: float) -> None:
        """A pod was bound, or not. `waited` since it was first seen."""
        action = outcome.action
        if not isinstance(outcome, PodBound):
            self._metrics.bind_seconds[BindResult.NOT_PLACED].observe(took)
            result = AttemptResult.ERROR if outcome.setback in _ERRORS else AttemptResult.SETBACK
            self._metrics.attempt(result, outcome.setback)
            self._log_failure(outcome)
            return
        self._metrics.bind_seconds[BindResult.PLACED].observe(took)
        self._metrics.attempt(AttemptResult.PLACED, Reason.FITS)
        self._metrics.queue_wait.observe(waited)
        self._record(_pod(action.pod, action.uid), EventReason.SCHEDULED, _placed(action))
        gpus = ",".join(map(str, action.devices))
        _log.info("bound", pod=str(action.pod), node=action.node, gpus=gpus, why=action.why, waited=round(waited, 3))

    def gang_ended(self, outcome: GangBindOutcome, *, waited: float) -> None:
        if all(isinstance(one, PodBound) for one in outcome.outcomes):
            self._metrics.gang_wait[GangEnd.PLACED].observe(waited)

    def refused(self, refused: PodsUnschedulable) -> None:
        """Count an attempt without a place; each pod gets its Event when the refusal is written."""
        for _ in refused.pods:
            self._metrics.attempt(AttemptResult.REFUSED, refused.why.word)

    def refusal_written(self, pod: Pod, why: SchedulingFailure) -> None:
        about = _pod(pod.key, pod.uid)
        _log.info("unschedulable", pod=str(pod.key), reason=why.word, why=why.message)
        self._events.record(EventMessage(about, EventReason.FAILED_SCHEDULING, why.message, topic=why.word))

    def gang_gave_up(self, pods: Sequence[Pod], why: SchedulingFailure, *, waited: float) -> None:
        self._metrics.gang_wait[GangEnd.TIMED_OUT].observe(waited)
        first = str(pods[0].key) if pods else ""
        _log.info("gang timed out", pods=len(pods), first=first, why=why.message, waited=round(waited, 3))
        for pod in pods:
            self._record(_pod(pod.key, pod.uid), EventReason.GANG_TIMED_OUT, why.message)

    def preempted(self, outcome: PreemptOutcome) -> None:
        preemptor = _pod(outcome.action.pod, outcome.action.uid)
        for victim in outcome.evicted:
            self._metrics.preemptions.inc()
            _log.info("evicted for another", pod=str(victim.pod), preemptor=str(outcome.action.pod), node=victim.node)
            note = f"made room for {outcome.action.pod} on {victim.node}: {outcome.action.why}"
            self._events.record(EventMessage(_pod(victim.pod, victim.uid), EventReason.PREEMPTED, note, preemptor))
        for victim, why in outcome.refused:
            if why in (EvictionFailure.FORBIDDEN, EvictionFailure.API_FAILED):
                pods = {"pod": str(victim.pod), "preemptor": str(outcome.action.pod)}
                self._log.warning("pod not evicted", why, now=self._clock.now(), reason=why.value, **pods)

    def gang_evicted(self, outcome: EvictGangOutcome) -> None:
        for victim in outcome.evicted:
            _log.info("evicted with its gang", pod=str(victim.pod), node=victim.node, why=outcome.action.why)
            self._record(_pod(victim.pod, victim.uid), EventReason.GANG_TIMED_OUT, f"evicted: {outcome.action.why}")

    def unwritten(self, about: ObjectKey, detail: str) -> None:
        """Report a status or condition that could not be written."""
        alike = detail.replace(about.name, "*")
        self._log.warning("status not written", alike, now=self._clock.now(), about=str(about), detail=detail)

    def claim_kept(self, outcome: RecordOutcome | CopyOutcome) -> None:
        match outcome:
            case StatusNotWritten(status=ClaimStatus(claim=key), setback=StatusWriteFailure.API_FAILED, detail=detail):
                self.unwritten(key, detail)
            case StatusNotWritten(status=QuotaStatus(quota=key), setback=StatusWriteFailure.API_FAILED, detail=detail):
                self.unwritten(key, detail)
            case ClaimNotCreated(setback=ClaimCreateFailure.API_FAILED, detail=detail):
                self.unwritten(outcome.action.pod, detail)

    def _log_failure(self, outcome: PodNotBound) -> None:
        """Log once for all pods whose binds fail alike: the API server's message names the pod."""
        action = outcome.action
        if outcome.setback in _OF_NO_CONCERN:
            return
        alike = outcome.detail.replace(action.pod.name, "*").replace(action.node, "*")
        self._log.warning(
            "placement failed",
            (outcome.setback, alike),
            now=self._clock.now(),
            pod=str(action.pod),
            node=action.node,
            reason=outcome.setback.value,
            detail=outcome.detail,
        )

    def _record(self, about: ObjectReference, reason: EventReason, note: str) -> None:
        self._events.record(EventMessage(about, reason, note))


def _pod(key: ObjectKey, uid: str) -> ObjectReference:
    return ObjectReference("Pod", key, uid)


def _placed(action: BindPod) -> str:
    gpus = f" with GPU {','.join(map(str, action.devices))}" if action.devices else ""
    return f"Successfully assigned {action.pod} to {action.node}{gpus}: {action.why}"
