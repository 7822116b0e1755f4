"""KarpenterCore: capacity requests, and the next intents for each. Synchronous; `now` is an argument.

Every state is rebuilt from smart pods, NodeClaims, Nodes, Leases and waiting pods. What is kept beside them (the batch
window, pauses between writes) may be lost without harm.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from ullage.decide.karpenter.batching import need_of
from ullage.decide.karpenter.closed_nodes import ClosedNodes
from ullage.decide.karpenter.demand import request_of
from ullage.decide.karpenter.facts import KarpenterFacts
from ullage.decide.karpenter.handover import open_node, release, reserve
from ullage.decide.karpenter.intent_backoff import NODE, NODE_POOL, POD, SMART_POD, IntentBackoff, subject_of
from ullage.decide.karpenter.lifecycle import node_claim_events
from ullage.decide.karpenter.node_pool_mapping import Chosen, mark_node_pools
from ullage.decide.karpenter.pod_failures import PodFailures
from ullage.decide.karpenter.policy import KarpenterPolicy
from ullage.decide.karpenter.progress import Progress, ProgressReader
from ullage.decide.karpenter.requesting import RequestPlanner, gang_failure
from ullage.decide.karpenter.retry import SmartPodRetries, Tried
from ullage.decide.karpenter.terminating import TerminatingSmartPods
from ullage.decide.karpenter.transitions import TransitionLog
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.device import Inventory
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Updated
from ullage.model.intents import (
    ClearHandover,
    CreateSmartPod,
    DeleteSmartPod,
    KarpenterIntent,
    RecordSmartPodState,
    ReserveNode,
)
from ullage.model.karpenter import (
    CapacityRequest,
    HandoverNode,
    KarpenterEvent,
    NodeClaim,
    NodeClaimEvent,
    NodePool,
    SmartPod,
    WaitingPod,
)
from ullage.model.karpenter_failure import RequestFailure
from ullage.model.lease import GpuLease
from ullage.model.lifecycles import SmartPodState as S
from ullage.model.outcomes import IntentDone, IntentRejected, IntentStale, KarpenterOutcome
from ullage.model.pod import Pod
from ullage.model.units import Instant, Seconds, after

LONGEST_UNOBSERVED = 10.0
"""Seconds for which a smart pod that was created or deleted counts as such without having been observed."""


class KarpenterCore:
    """All requests served by Karpenter. The loop calls `apply`, `request`, `next_intents` and `settle`."""

    def __init__(self, assigner: PodAssigner, policy: KarpenterPolicy) -> None:
        self.facts = KarpenterFacts()
        self.policy = policy
        self.assigner = assigner
        self._reader = ProgressReader(assigner, self.facts, policy)
        self._planner = RequestPlanner(self.facts, policy, self._reader.has_reported)
        self._retry = SmartPodRetries(self.facts, policy)
        self._failures = PodFailures(self._reader, self._retry)
        self._backoff = IntentBackoff()
        self._terminating = TerminatingSmartPods(policy)
        self._wanted: tuple[CapacityRequest, ...] = ()
        self._wake_at: list[Instant] = []
        self._creating: dict[str, tuple[Instant, tuple[WaitingPod, ...]]] = {}
        """By request: pods whose smart pod is being created and was not observed yet, and since when."""
        self._deleted: dict[str, Instant] = {}
        """By uid: smart pods that were deleted and were not observed so yet, and when."""
        self.transitions = TransitionLog()
        self._closed = ClosedNodes(assigner, self._reader, self._retry, self.transitions)
        self.claim_events: list[NodeClaimEvent] = []
        """Events of NodeClaims since the loop last reported them."""
        self.waiting_for: dict[ObjectKey, str] = {}
        """NodeClaim of a request that is over, by the waiting pod that will take its node."""

    def apply(self, event: FactEvent[Any], *, now: Instant) -> bool:
        """Apply a change of one fact, after the snapshot has been updated. Returns True if a decision could change."""
        if not isinstance(event, Added | Updated | Deleted):
            return False
        new = None if isinstance(event, Deleted) else event.new
        old = None if isinstance(event, Added) else event.old
        fact = old if new is None else new
        match fact:
            case SmartPod():
                self._backoff.observed((SMART_POD, event.key))
                self._creating.pop(fact.request, None)
                self._terminating.observe(fact, gone=new is None, now=now)
            case HandoverNode():
                self._backoff.observed((NODE, ObjectKey("", fact.name)))
                self._closed.observe(fact, gone=new is None)
            case Pod():
                self._backoff.observed((POD, event.key))
                self._failures.observe(fact, gone=new is None)
                return True
            case NodeClaim():
                before = old if isinstance(old, NodeClaim) else None
                self.claim_events += node_claim_events(before, fact if new is not None else None, now=now)
            case NodePool():
                self._backoff.observed((NODE_POOL, ObjectKey("", fact.name)))
            case GpuLease() | KarpenterEvent():
                pass
            case Inventory(node=name):
                return name in self.facts.nodes
            case _:
                return False
        self.facts.apply(event)
        return True

    def request(self, wanted: Sequence[CapacityRequest], *, now: Instant) -> None:
        """Set all current requests, in the order of the queue. Idempotent by request id."""
        del now
        self._wanted = tuple(wanted)

    def is_serving(self, pod: WaitingPod) -> bool:
        """True if a smart pod, or a node closed for a hand-over, is there for the pod or is being created."""
        return pod in self._served(self.facts.smart_pods.values())

    def could_serve(self, pod: Pod, *, now: Instant) -> tuple[CapacityRequest, Chosen] | None:
        """Request of a pod and the mapping that would serve it now; None if no mapping could."""
        request = request_of(self.assigner, pod)
        if request is None or not self.facts.served:
            return None
        failure = self._retry.recorded(request)
        if failure is not None and (not failure.retry_at or failure.retry_at > now):
            return None
        left_out = () if failure is None else failure.exhausted
        chosen = self._retry.choose(request, left_out)
        return (request, chosen) if isinstance(chosen, Chosen) else None

    def next_deadline(self) -> Instant | None:
        """Instant at which to ask again even if nothing is observed; None if no deadline is set."""
        return min(self._wake_at, default=None)

    def next_intents(self, *, now: Instant, most: int | None = None) -> tuple[KarpenterIntent, ...]:
        """Return the intents that are due, at most one per object and `most` in all. All may be performed at once.

        An object whose intent is not settled yet gets no other.
        """
        self._wake_at = []
        found: dict[tuple[str, ObjectKey], KarpenterIntent] = {}
        for intent in self._wanted_intents(now):
            if self._backoff.is_in_flight(intent):
                continue
            until = self._backoff.until(intent, now=now)
            if until is not None:
                self._wake_at.append(until)
            else:
                found.setdefault(subject_of(intent), intent)
        due = tuple(found.values())[:most]
        for intent in due:
            self._backoff.issue(intent)
            if isinstance(intent, CreateSmartPod):
                self._creating[intent.request] = (Instant(now), intent.pods)
        return due

    def _wanted_intents(self, now: Instant) -> Iterator[KarpenterIntent]:
        """All intents, due or not. Without Karpenter there is nothing to do but to tell those who wait for it."""
        yield from self._failures.out_of_date()
        if not self.facts.served:
            yield from self._new((), now)
            return
        readings = list(self._readings(now))
        yield from self._in_flight(readings, now)
        yield from self._closed.next_intents(self._wake_at, now=now)
        yield from self._failures.rejections(now)
        yield from mark_node_pools(self.policy.mappings, self.facts.node_pools)
        yield from self._new(readings, now)

    def settle(self, outcome: KarpenterOutcome, *, now: Instant) -> int:
        """Take the outcome of an intent. Returns its number of failures in a row."""
        intent = outcome.intent
        if isinstance(intent, ClearHandover) and isinstance(outcome, IntentDone | IntentStale):
            self._closed.settle(intent.node)
        if isinstance(intent, CreateSmartPod) and not isinstance(outcome, IntentDone):
            self._creating.pop(intent.request, None)
        if isinstance(outcome, IntentDone):
            if isinstance(intent, ReserveNode):
                self._reader.leased |= {(intent.node, one.pod.uid): frozenset(one.devices) for one in intent.leases}
            elif isinstance(intent, RecordSmartPodState):
                self.facts.count_losses(intent.request, intent.lost)
            elif isinstance(intent, DeleteSmartPod) and not intent.again:
                self._deleted[intent.uid] = Instant(now)
                self._ended(intent, now)
            elif isinstance(intent, ClearHandover):
                node = self.facts.nodes.get(intent.node)
                request = "" if node is None else node.request
                if self.facts.smart_pod_of(request) is None:  # a node for a VM is opened before its smart pod goes
                    self.transitions.complete(request)
        elif isinstance(outcome, IntentRejected) and isinstance(intent, CreateSmartPod):
            self._failures.reject(intent, outcome.detail)
        return self._backoff.settle(outcome, now=now)

    # Smart pods that exist.

    def _readings(self, now: Instant) -> Iterator[Progress | SmartPod]:
        """Progress of each smart pod by name; the bare fact of one whose request cannot be read."""
        self._deleted = {uid: at for uid, at in self._deleted.items() if now < after(at, Seconds(LONGEST_UNOBSERVED))}
        for _, known in sorted(self.facts.smart_pods.items()):
            pod = known
            if known.uid in self._deleted:
                pod = msgspec.structs.replace(known, deleting=True)
            if pod.original is None or pod.original.id != pod.request:
                yield pod
            else:
                progress = self._reader.read(pod, pod.original, now=now)
                if not pod.deleting:
                    self.transitions.observe(pod.request, progress.state, now=now)
                yield progress

    def _in_flight(self, readings: Sequence[Progress | SmartPod], now: Instant) -> Iterator[KarpenterIntent]:
        known = [one for one in readings if isinstance(one, Progress)]
        failed_gangs = self._failed_gangs(known, now)
        for one in readings:
            if isinstance(one, SmartPod):
                if one.deleting:
                    yield from self._terminating.next_intents(one, self._wake_at, now=now)
                else:
                    yield release(one, S.CANCELLED, f"the request of smart pod {one.key} cannot be read")
            elif one.smart_pod.deleting:
                yield from self._terminating.next_intents(one.smart_pod, self._wake_at, now=now)
            else:
                yield from self._next_steps(one, known, failed_gangs, now)

    def _next_steps(
        self, one: Progress, all_of_them: Sequence[Progress], failed: dict[ObjectKey, RequestFailure], now: Instant
    ) -> Iterator[KarpenterIntent]:
        pod, gang = one.smart_pod, one.original.gang
        if not one.waiting or self._has_changed(one):
            why = f"no pod of request {pod.request} waits for a node as it was asked for"
            yield release(pod, S.CANCELLED, why, node_is_there=pod.node in self.facts.nodes)
            return
        failure = one.failure
        if failure is None and gang in failed:
            failure = failed[gang]
        if failure is not None:
            yield from self._fail(one, failure, now)
            return
        self._wake_at.append(one.deadline)
        if one.original.for_vm:
            yield from self._open_for_vm(one)
        elif one.state is S.RESERVED:
            yield release(pod, S.HANDED_OVER, f"the GPUs of node {pod.node} are leased to the waiting pods")
        elif one.state is S.INVENTORY_READY and self._gang_is_ready(one, all_of_them):
            node = self.facts.nodes[pod.node]
            yield reserve(node, pod.request, one.original.pods, one.leases, now=now)
        record = one.to_record
        if record is not None:
            yield record

    def _open_for_vm(self, one: Progress) -> Iterator[KarpenterIntent]:
        """Open a node that is ready, then let the smart pod go: the scheduler migrates the VM, or binds its pod."""
        node = self.facts.nodes.get(one.smart_pod.node)
        if node is None or not node.ready:
            return
        why = f"node {node.name} is ready for the VM of {one.original.pods[0].key}"
        if node.closed_for is not None or node.handover is not None:
            yield open_node(node, None, why)
        else:
            yield replace(release(one.smart_pod, S.HANDED_OVER, why), for_vm=True)

    def _fail(self, one: Progress, failure: RequestFailure, now: Instant) -> Iterator[KarpenterIntent]:
        """Record the failure on the waiting pods and delete the smart pod. NodeClaim and Node stay."""
        attempts = max(one.attempts, one.smart_pod.attempts + 1)
        tried = Tried(one.original.mapping, one.original.exhausted)
        for request in self._reader.requests_of(one.waiting):
            written = self._retry.record(request, failure, attempts, now=now, tried=tried)
            if written is not None:
                yield written
        end = S.EXPIRED if failure.reason.value.endswith("Timeout") else S.FAILED
        there = one.smart_pod.node in self.facts.nodes
        yield release(one.smart_pod, end, f"{failure.reason.value}: {failure.message}", node_is_there=there)

    def _failed_gangs(self, known: Iterable[Progress], now: Instant) -> dict[ObjectKey, RequestFailure]:
        """Failures by gang. One failed member fails the gang; one for which no mapping is left ends it."""
        found: dict[ObjectKey, RequestFailure] = {}
        for one in known:
            gang = one.original.gang
            if gang is None or one.failure is None or not one.waiting:
                continue
            tried, failure = Tried(one.original.mapping, one.original.exhausted), one.failure
            requests = self._reader.requests_of(one.waiting)
            goes_on = all(self._retry.goes_on(request, failure, tried, now=now) for request in requests)
            if gang not in found or not goes_on:
                told = gang_failure(one.waiting[0].key, failure)
                found[gang] = msgspec.structs.replace(told, goes_on=goes_on)
        return found

    def _gang_is_ready(self, one: Progress, all_of_them: Sequence[Progress]) -> bool:
        """True without a gang, or if every member's node is ready and every member has a smart pod or a closed node."""
        gang = one.original.gang
        if gang is None:
            return True
        ready = (S.INVENTORY_READY, S.RESERVED)
        others = [other for other in all_of_them if other.original.gang == gang]
        unasked = [request for request in self._unserved(all_of_them) if request.gang == gang]
        return not unasked and all(other.state in ready for other in others)

    def _has_changed(self, one: Progress) -> bool:
        """True if the waiting pods' requests differ from those the smart pod was created for. VMs are resized often."""
        if one.original.for_vm:
            return False
        now_asked = list(self._reader.requests_of(one.waiting))
        if len(now_asked) < len(one.original.pods):
            return False  # a pod of the group is gone, or a new node would not help it now: nothing can be compared
        return need_of(now_asked) != one.original.fingerprint

    # Requests without a smart pod.

    def _new(self, readings: Sequence[Progress | SmartPod], now: Instant) -> Iterator[KarpenterIntent]:
        known = [one for one in readings if isinstance(one, Progress)]
        # A smart pod that was created and deleted between two observations is never observed.
        self._creating = {
            key: one for key, one in self._creating.items() if now < after(one[0], Seconds(LONGEST_UNOBSERVED))
        }
        self._wake_at += [after(since, Seconds(LONGEST_UNOBSERVED)) for since, _ in self._creating.values()]
        in_flight = len(readings) + len(self._creating)
        plan = self._planner.plan(self._unserved(known), in_flight=in_flight, now=now)
        self._wake_at += plan.wake_at
        self.waiting_for = plan.waiting_for
        yield from plan.failures
        for intent in plan.create:
            self.transitions.observe(intent.request, S.REQUESTED, now=now)
            yield intent

    def _unserved(self, known: Iterable[Progress]) -> list[CapacityRequest]:
        """Wanted requests of pods that still wait, without smart pod and without a node closed for them."""
        served = self._served(one.smart_pod for one in known)
        return [one for one in self._wanted if one.pod not in served and self._reader.waiting((one.pod,))]

    def _served(self, smart_pods: Iterable[SmartPod]) -> set[WaitingPod]:
        """Pods of these smart pods' requests, of smart pods being created, and of nodes closed for a hand-over."""
        served = {pod for one in smart_pods if one.original is not None for pod in one.original.pods}
        served |= {pod for _, pods in self._creating.values() for pod in pods}
        return served | {
            pod
            for node in self.facts.nodes.values()
            if node.handover is not None and not node.going
            for pod in node.handover.pods
        }

    def _ended(self, intent: DeleteSmartPod, now: Instant) -> None:
        pod = self.facts.smart_pods.get(intent.key)
        if pod is None:
            return
        for one in () if pod.original is None else pod.original.pods:
            self._reader.leased.pop((pod.node, one.uid), None)
        if intent.end is not S.HANDED_OVER:
            self.transitions.observe(pod.request, intent.end, now=now)
