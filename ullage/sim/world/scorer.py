"""Fills in the score sheet from the object mirror, the cloud and the loops' decisions."""

from collections import Counter

from prometheus_client import CollectorRegistry

from ullage.cloud.api import CreateRequest
from ullage.model.device import MILLI_GPU
from ullage.model.instance import Instance
from ullage.observe.scheduler_metrics import AttemptResult, SchedulerMetrics
from ullage.sim.fleet.prices import PriceList
from ullage.sim.world.decisions import Decision, DecisionLog
from ullage.sim.world.object_mirror import ObjectChange, ObjectMirror
from ullage.sim.world.scores import ScoreSheet
from ullage.sim.world.stored_objects import StoredNode, StoredPod
from ullage.sim.world.waits import SHARED


class CountingMetrics(SchedulerMetrics):
    """Scheduler metrics that also count attempts by result and reason."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry)
        self.attempts: dict[str, Counter[str]] = {}

    def attempt(self, result: AttemptResult, reason: str) -> None:
        super().attempt(result, reason)
        self.attempts.setdefault(str(result), Counter())[str(reason)] += 1


class Scorer:
    """Listens from the start. Levels count from there, everything else from `begin`."""

    def __init__(self, mirror: ObjectMirror, decisions: DecisionLog, prices: PriceList) -> None:
        self.sheet = ScoreSheet(prices.currency)
        self._prices = prices
        self._mirror = mirror
        self._clock = mirror.clock
        self._began: float = mirror.clock.now()
        self._asked: dict[str, int] = {}
        """GPUs that each pending pod asks for, in thousandths."""
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
        gpus = template.gpus
        price = self._prices.of_node(gpus.model, gpus.count, template.price)
        paid = self._machines[instance.id] = (gpus.count, price)
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
                sheet.machine(fact.gpus, self._price(fact), gone=after is None)
            sheet.node(gone=after is None)
            sheet.churn["joined" if before is None else "removed"] += 1
        elif before.gpus != after.gpus and after.name not in self._from_cloud:
            sheet.machine(before.gpus, self._price(before), gone=True)
            sheet.machine(after.gpus, self._price(after))
        if before is not None and after is not None and before.marked_for_deletion != after.marked_for_deletion:
            sheet.churn["tainted" if after.marked_for_deletion else "spared"] += 1

    def _price(self, node: StoredNode) -> int:
        return self._prices.of_node(node.model, node.gpus, node.price)

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
            self._begins(step.fact)
        elif waited and not waits:
            self._ceases(step)
        if before is not None:
            self._ended(before, after)

    def _begins(self, pod: StoredPod) -> None:
        count, part = self._mirror.asked_gpus(pod)
        size, milli = (SHARED, 0) if part else (str(count), count * MILLI_GPU)
        self._asked[pod.uid] = milli
        self.sheet.begins_to_wait(pod.uid, size, milli)

    def _ceases(self, step: ObjectChange[StoredPod]) -> None:
        placed = step.after is not None and bool(step.after.node)
        self.sheet.ceases_to_wait(step.fact.uid, self._asked.pop(step.fact.uid), placed=placed)
        if placed:
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
