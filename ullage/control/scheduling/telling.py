"""Says what came of each decision: Events on the objects concerned, and metrics. Never holds anybody up."""

from collections.abc import Sequence

from ullage.control.scheduling.decisions import Refused
from ullage.model.action import Place
from ullage.model.event import ObjectKey
from ullage.model.outcome import EvictGangOutcome, GangOutcome, Placed, PlaceOutcome, PreemptOutcome
from ullage.model.pod import Pod
from ullage.model.refusal import Refusal
from ullage.model.verdict import Reason
from ullage.observe.events import Announcement, EventReason, EventRecorder, Subject
from ullage.observe.metrics import AttemptResult, BindOutcome, SchedulerMetrics
from ullage.observe.metrics import GangOutcome as GangEnd


class Teller:
    """The voice of a scheduler."""

    def __init__(self, events: EventRecorder, metrics: SchedulerMetrics) -> None:
        self._events = events
        self._metrics = metrics

    def decided(self, seconds: float) -> None:
        self._metrics.decision_seconds.observe(seconds)

    def placing_ended(self, outcome: PlaceOutcome, *, took: float, waited: float) -> None:
        """A pod was bound, or not. `waited` since it was first seen."""
        action = outcome.action
        if not isinstance(outcome, Placed):
            self._metrics.bind_seconds[BindOutcome.NOT_PLACED].observe(took)
            self._metrics.attempt(AttemptResult.SETBACK, outcome.setback)
            return
        self._metrics.bind_seconds[BindOutcome.PLACED].observe(took)
        self._metrics.attempt(AttemptResult.PLACED, Reason.FITS)
        self._metrics.queue_wait.observe(waited)
        self._tell(_pod(action.pod, action.uid), EventReason.SCHEDULED, _placed(action))

    def gang_ended(self, outcome: GangOutcome, *, waited: float) -> None:
        if all(isinstance(one, Placed) for one in outcome.outcomes):
            self._metrics.gang_wait[GangEnd.PLACED].observe(waited)

    def refused(self, refused: Refused) -> None:
        """An attempt came to nothing; the pods are told one by one, when that is written."""
        for _ in refused.pods:
            self._metrics.attempt(AttemptResult.REFUSED, refused.why.word)

    def refusal_written(self, pod: Pod, why: Refusal) -> None:
        self._tell(_pod(pod.key, pod.uid), EventReason.FAILED_SCHEDULING, why.message)

    def gang_gave_up(self, pods: Sequence[Pod], why: Refusal, *, waited: float) -> None:
        self._metrics.gang_wait[GangEnd.TIMED_OUT].observe(waited)
        for pod in pods:
            self._tell(_pod(pod.key, pod.uid), EventReason.GANG_TIMED_OUT, why.message)

    def preempted(self, outcome: PreemptOutcome) -> None:
        preemptor = _pod(outcome.action.pod, outcome.action.uid)
        for victim in outcome.evicted:
            self._metrics.preemptions.inc()
            note = f"made room for {outcome.action.pod} on {victim.node}: {outcome.action.why}"
            self._events.tell(Announcement(_pod(victim.pod, victim.uid), EventReason.PREEMPTED, note, preemptor))

    def gang_evicted(self, outcome: EvictGangOutcome) -> None:
        for victim in outcome.evicted:
            self._tell(_pod(victim.pod, victim.uid), EventReason.GANG_TIMED_OUT, f"evicted: {outcome.action.why}")

    def _tell(self, about: Subject, reason: EventReason, note: str) -> None:
        self._events.tell(Announcement(about, reason, note))


def _pod(key: ObjectKey, uid: str) -> Subject:
    return Subject("Pod", key, uid)


def _placed(action: Place) -> str:
    gpus = f" with GPU {','.join(map(str, action.devices))}" if action.devices else ""
    return f"Successfully assigned {action.pod} to {action.node}{gpus}: {action.why}"
