"""Write on pods why they are refused. Only the latest refusal of each pod is written, and writes never pile up.

A verdict that was written already is not written again: a pod that waits for the same reason causes no request. The
same verdict in other words (other counts, another member of its gang) is written again while it is new, at growing
intervals.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ullage.act.pod_status import PodConditionWriter
from ullage.clock import Clock
from ullage.config.settings import Settings
from ullage.control.scheduling.reporter import SchedulerReporter
from ullage.decide.claims.status import A_WHILE
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import MarkUnschedulable
from ullage.model.outcomes import MarkFailure, PodMarked, PodNotMarked
from ullage.model.pod import Pod
from ullage.model.refusal import SETTLED_AFTER, PodScheduledReason, SchedulingFailure
from ullage.model.resources import GPU
from ullage.model.units import Seconds
from ullage.runtime import LoopTasks

AT_ONCE = 3
"""Number of changes of a pod's verdict that are written at once."""
FIRST_PAUSE, LONGEST_PAUSE = 10.0, 300.0
"""Seconds between later ones, doubled each time."""
BATCH_SECONDS = Seconds(1.0)
"""Seconds: refusals due within this time are handled together."""
CALM = Seconds(600.0)
"""Seconds without a write after which the pace begins anew."""
REWORDED_FOR = SETTLED_AFTER - A_WHILE
"""Seconds for which the same verdict in other words is written: its claim follows a while later, within the first two
minutes of the pod."""
RETOLD_PER_SECOND, RETOLD_AT_ONCE = 2.0, 2.0
"""Pods whose condition is written anew, per second and in a burst: a change of the cluster may concern thousands of
pods at once, and each write is up to five requests: the pod is read and written, so is its claim, and there is an
Event. So all together are at most 20 a second. The first refusal of a pod is not held up."""


@dataclass(slots=True)
class _Said:
    """Last refusal written for a pod."""

    uid: str
    why: SchedulingFailure
    since: float
    """Time this verdict was first written."""
    at: float
    times: int = 1
    """Writes in a row without a pause of CALM seconds between them."""


class RefusalPace:
    """Pace of refusal writes: the instant at which a refusal is worth one. Pure: time is an argument."""

    def __init__(self) -> None:
        self._said: dict[ObjectKey, _Said] = {}

    def due(self, action: MarkUnschedulable, *, now: float) -> float | None:
        """Return the instant to write the refusal; None if there is nothing to write."""
        said = self._said.get(action.pod)
        if said is None or said.uid != action.uid or action.nominated is not None:
            return now
        if said.why == action.why:
            return None
        if said.why.verdict == action.why.verdict:
            return None if now - said.since > REWORDED_FOR else max(now, said.at + self._pause(said, now, free=0))
        return max(now, said.at + self._pause(said, now, free=AT_ONCE))

    def is_new(self, pod: ObjectKey, uid: str, why: SchedulingFailure) -> bool:
        """True if this verdict has not been written for the pod, in whatever words."""
        said = self._said.get(pod)
        return said is None or said.uid != uid or said.why.verdict != why.verdict

    def is_written(self, pod: ObjectKey, uid: str) -> bool:
        """True if a refusal of the pod has been written, whatever its reason."""
        said = self._said.get(pod)
        return said is not None and said.uid == uid

    def last_written(self, pod: ObjectKey, uid: str) -> SchedulingFailure | None:
        """Refusal that was written last for the pod."""
        said = self._said.get(pod)
        return said.why if said is not None and said.uid == uid else None

    def written(self, action: MarkUnschedulable, *, now: float) -> None:
        """Note that the refusal was written."""
        said = self._said.get(action.pod)
        if said is None or said.uid != action.uid:
            self._said[action.pod] = _Said(action.uid, action.why, now, now)
            return
        if said.why.verdict != action.why.verdict:
            said.since = now
        said.times = 1 if now - said.at > CALM else said.times + 1
        said.why, said.at = action.why, now

    def forget(self, pod: ObjectKey) -> None:
        """Forget a pod that has a place or is gone."""
        self._said.pop(pod, None)

    @staticmethod
    def _pause(said: _Said, now: float, *, free: int) -> float:
        times = 0 if now - said.at > CALM else said.times
        return 0.0 if times < free else min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(max(times - max(free, 1), 0), 16))


class RetellingBudget:
    """Budget of writes for pods that say already why they wait. Pure: time is an argument."""

    def __init__(self) -> None:
        self._left = RETOLD_AT_ONCE
        self._at = 0.0

    def take(self, *, now: float) -> bool:
        """Take one write; False if none is left now."""
        self._left = min(RETOLD_AT_ONCE, self._left + max(0.0, now - self._at) * RETOLD_PER_SECOND)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


class UnschedulableWriter:
    """Writes refusals, a few at a time."""

    def __init__(
        self,
        refuser: PodConditionWriter,
        reporter: SchedulerReporter,
        clock: Clock,
        tasks: LoopTasks,
        settings: Settings,
        *,
        written: Callable[[Pod, SchedulingFailure], None],
    ) -> None:
        """`written` is called for each refusal that a pod's condition shows from now on."""
        self._refuser = refuser
        self._reporter = reporter
        self._clock = clock
        self._tasks = tasks
        self.at_once = settings.scheduling.max_condition_parallelism
        """Conditions being written at the same time; may be changed."""
        self._hide_gpu_pods = settings.karpenter.enabled
        self._written = written
        self._pace = RefusalPace()
        self._retelling = RetellingBudget()
        self._noted: dict[ObjectKey, tuple[Pod, MarkUnschedulable]] = {}
        self._later: dict[ObjectKey, tuple[float, Pod, MarkUnschedulable]] = {}
        self._under_way = 0
        self._is_waiting = False

    def last_written(self, pod: Pod) -> SchedulingFailure | None:
        """Refusal that the pod's condition shows, if this scheduler wrote it."""
        return self._pace.last_written(pod.key, pod.uid)

    def is_written(self, pod: Pod) -> bool:
        """True if the pod's condition says that it is refused, whatever the reason."""
        return self._pace.is_written(pod.key, pod.uid)

    def note(
        self, pods: Sequence[Pod], why: SchedulingFailure, *, unnominate: bool = False, passing: bool = False
    ) -> None:
        """Note that these pods are refused for this reason. A `passing` one is not written over one that stands."""
        now = self._clock.now()
        for pod in pods:
            nominated = "" if unnominate or self._unnominates(pod) else None
            if passing and nominated is None and self.is_written(pod):
                continue
            self.forget(pod.key)
            action = MarkUnschedulable(pod=pod.key, uid=pod.uid, why=self._shown(pod, why), nominated=nominated)
            due = self._pace.due(action, now=now)
            if due is None:
                continue
            urgent = nominated is not None or not self.is_written(pod)
            if due <= now and (urgent or self._retelling.take(now=now)):
                self._noted[pod.key] = pod, action
            else:
                self._later[pod.key] = due, pod, action
        self._begin()

    def forget(self, pod: ObjectKey) -> None:
        """Drop the pod's unwritten refusals: it is about to have a place."""
        self._noted.pop(pod, None)
        self._later.pop(pod, None)

    def drop(self, pod: ObjectKey) -> None:
        """Forget a pod that has a place or is gone."""
        self.forget(pod)
        self._pace.forget(pod)

    def _shown(self, pod: Pod, why: SchedulingFailure) -> SchedulingFailure:
        """Replace the reason Unschedulable, on which Karpenter acts, for a pod that a smart pod stands for."""
        asks = pod.claim or pod.claim_template or GPU in dict(pod.shape.requests)
        if not self._hide_gpu_pods or not asks or why.waiting is not PodScheduledReason.UNSCHEDULABLE:
            return why
        return replace(why, waiting=PodScheduledReason.FOR_GPUS)

    def _unnominates(self, pod: Pod) -> bool:
        """True if a write that is superseded now was to clear the pod's nomination."""
        _, noted = self._noted.get(pod.key, (pod, None))
        _, _, later = self._later.get(pod.key, (0.0, pod, None))
        return any(one is not None and one.uid == pod.uid and one.nominated is not None for one in (noted, later))

    def _begin(self) -> None:
        while self._under_way < min(self.at_once, len(self._noted)):
            self._under_way += 1
            self._tasks.start(self._write())
        if self._later and not self._is_waiting:
            self._is_waiting = True
            self._tasks.start(self._wait())

    async def _wait(self) -> None:
        """Wait for the instant of each postponed refusal."""
        try:
            while self._later:
                first = min(due for due, _, _ in self._later.values())
                await asyncio.sleep(max(BATCH_SECONDS, first - self._clock.now()))
                now = self._clock.now()
                self._retell(now)
                self._begin()
        finally:
            self._is_waiting = False

    def _retell(self, now: float) -> None:
        """Take up postponed refusals that are due and still worth a write, as many as may be written now."""
        for due, key in sorted((due, key) for key, (due, _, _) in self._later.items() if due <= now):
            _, pod, action = self._later[key]
            again = self._pace.due(action, now=now)
            if again is None:
                del self._later[key]
            elif again > due and again > now:
                self._later[key] = again, pod, action
            elif self._retelling.take(now=now):
                del self._later[key]
                self._noted[key] = pod, action
            else:
                return

    async def _write(self) -> None:
        try:
            while self._noted:
                pod, action = self._noted.pop(next(iter(self._noted)))
                await self._say(pod, action)
        finally:
            self._under_way -= 1

    async def _say(self, pod: Pod, action: MarkUnschedulable) -> None:
        new = self._pace.is_new(action.pod, action.uid, action.why)
        outcome = await self._refuser.perform(action)
        if isinstance(outcome, PodNotMarked) and outcome.setback is MarkFailure.API_FAILED:
            self._reporter.unwritten(action.pod, outcome.detail)
        if isinstance(outcome, PodNotMarked) and outcome.setback is not MarkFailure.API_FAILED:
            return  # it is gone, or has a place
        if isinstance(outcome, PodMarked):
            self._pace.written(action, now=self._clock.now())
            self._written(pod, action.why)
            new = new and outcome.written  # else it said so already: before this scheduler began
        if new:
            self._reporter.refusal_written(pod, action.why)
