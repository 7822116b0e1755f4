"""Fills in the score sheet from the object mirror, the cloud and the loops' decisions."""

from collections import Counter
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from ullage.cloud.api import CreateRequest
from ullage.model.device import MILLI_GPU
from ullage.model.instance import Instance
from ullage.observe.scheduler_metrics import AttemptResult, SchedulerMetrics
from ullage.sim.world.decisions import Decision, DecisionLog
from ullage.sim.world.object_mirror import ObjectChange, ObjectMirror
from ullage.sim.world.scores import SHARED, ScoreSheet
from ullage.sim.world.stored_objects import StoredNode, StoredPod


class CountingMetrics(SchedulerMetrics):
    """Scheduler metrics that also count attempts by result and reason."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry)
        self.attempts: dict[str, Counter[str]] = {}

    def attempt(self, result: AttemptResult, reason: str) -> None:
        super().attempt(result, reason)
        self.attempts.setdefault(str(result), Counter())[str(reason)] += 1


@dataclass(slots=True)
class _Waiting:
    since: float
    size: str
    milli: int


class Scorer:
    """Listens from the start. Levels count from there, everything else from `begin`."""

    def __init__(self, mirror: ObjectMirror, decisions: DecisionLog) -> None:
        self.sheet = ScoreSheet()
        self._mirror = mirror
        self._clock = mirror.clock
        self._began: float = mirror.clock.now()
        self._waiting: dict[str, _Waiting] = {}
        self._machines: dict[str, tuple[int, int]] = {}
        """GPUs and price of each paid instance."""
        self._from_cloud: set[str] = set()
        """Nodes that are or were instances of the cloud."""
        mirror.pod_listeners.append(self._pod)
        mirror.node_listeners.append(self._node)
        decisions.listen(self._decided)

    def begin(self, now: float) -> None:
        """Start the sheet now."""
        self._began = now
        self.sheet.begin()

    def advance(self) -> None:
        """Bring the sheet to the present."""
        self.sheet.at(self._clock.now() - self._began)

    def _decided(self, decision: Decision) -> None:
        self.sheet.decisions[decision.reason] += 1

    def made(self, instance: Instance, request: CreateRequest) -> None:
        self.advance()
        template = request.template
        paid = self._machines[instance.id] = (template.gpus.count, template.price)
        self._from_cloud.add(instance.id)
        self.sheet.machine(*paid)
        if not instance.node:
            self.sheet.churn["bought"] += 1

    def gone(self, machine: str) -> None:
        self.advance()
        self.sheet.machine(*self._machines.pop(machine), gone=True)
        self.sheet.churn["givenBack"] += 1

    def _node(self, step: ObjectChange[StoredNode]) -> None:
        """Count a node. One that is no instance of the cloud is paid for while it exists."""
        before, after, sheet = step.before, step.after, self.sheet
        self.advance()
        if before is None or after is None:
            fact = step.fact
            if fact.name not in self._from_cloud:
                sheet.machine(fact.gpus, fact.price, gone=after is None)
            sheet.node(gone=after is None)
            sheet.churn["joined" if before is None else "removed"] += 1
        elif before.gpus != after.gpus and after.name not in self._from_cloud:
            sheet.machine(before.gpus, 0, gone=True)
            sheet.machine(after.gpus, 0)
        if before is not None and after is not None and before.marked_for_deletion != after.marked_for_deletion:
            sheet.churn["tainted" if after.marked_for_deletion else "spared"] += 1

    def _pod(self, step: ObjectChange[StoredPod]) -> None:
        before, after = step.before, step.after
        held = before.gpu_milli if before is not None and before.holds else 0
        holds = after.gpu_milli if after is not None and after.holds else 0
        waited = before is not None and _waits(before)
        waits = after is not None and _waits(after)
        if held == holds and waited == waits and before is not None and after is not None:
            self._ended(before, after)
            return
        self.advance()
        if before is None:
            self.sheet.pods["submitted"] += 1
        if holds != held:
            self.sheet.allocated(holds - held)
        if waits and not waited:
            self._begins(step.fact, step.at)
        elif waited and not waits:
            self._ceases(step)
        if before is not None:
            self._ended(before, after)

    def _begins(self, pod: StoredPod, at: float) -> None:
        count, part = self._mirror.asked_gpus(pod)
        size, milli = (SHARED, 0) if part else (str(count), count * MILLI_GPU)
        waiting = self._waiting[pod.uid] = _Waiting(at, size, milli)
        self.sheet.begins_to_wait(waiting.size, waiting.milli)

    def _ceases(self, step: ObjectChange[StoredPod]) -> None:
        waiting = self._waiting.pop(step.fact.uid)
        self.sheet.ceases_to_wait(waiting.size, waiting.milli)
        if step.after is not None and step.after.node:
            self.sheet.waits.add(waiting.size, step.at - waiting.since)
            self.sheet.pods["placed"] += 1

    def _ended(self, before: StoredPod, after: StoredPod | None) -> None:
        if after is None:
            self.sheet.pods["deleted"] += 1
            return
        if after.over and not before.over and after.leaves_by is None:  # a pod that is being deleted is no failure
            self.sheet.pods["finished" if after.phase == "Succeeded" else "failed"] += 1
        if after.disrupted != before.disrupted:
            # The reason of an eviction may be written a moment later and replaces the first one.
            self.sheet.evicted[after.disrupted] += 1
            if before.disrupted:
                self.sheet.evicted[before.disrupted] -= 1


def _waits(pod: StoredPod) -> bool:
    return not pod.node and not pod.over
