"""Progress of a smart pod: its state, deadline and failure, read from the objects."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ullage.decide.karpenter.demand import request_of
from ullage.decide.karpenter.facts import KarpenterFacts
from ullage.decide.karpenter.failures import failure_of, is_final, lost, stuck
from ullage.decide.karpenter.handover import PASSING, UNSUITABLE, DoesNotFit, choose_gpus
from ullage.decide.karpenter.lifecycle import LAUNCHED, RequestView, chooses_devices, derive
from ullage.decide.karpenter.node_pool_mapping import why_unavailable
from ullage.decide.karpenter.policy import TIMEOUTS, KarpenterPolicy
from ullage.decide.provisioning.vm_demand import needs_new_node
from ullage.decide.scheduling.assignment import PodAssigner, waits
from ullage.model.device import Inventory
from ullage.model.intents import GpuLeaseRequest, RecordSmartPodState
from ullage.model.karpenter import CapacityRequest, NodeClaim, OriginalRequest, SmartPod, WaitingPod
from ullage.model.karpenter_failure import FailureReason, RequestFailure
from ullage.model.lifecycles import SmartPodState as S
from ullage.model.pod import Pod
from ullage.model.units import Instant, after

_CONDITIONS = {S.NOMINATED: "Launched", S.LAUNCHED: "Registered", S.REGISTERED: "Initialized"}
"""Condition of a NodeClaim that ends a state."""

_NOTHING_MISSING = DoesNotFit("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of one capacity request."""

    smart_pod: SmartPod
    original: OriginalRequest
    state: S
    since: Instant
    deadline: Instant
    attempts: int
    waiting: tuple[Pod, ...] = ()
    """Pods of the request that exist and have no node."""
    node_claim: str = ""
    leases: tuple[GpuLeaseRequest, ...] = ()
    detail: str = ""
    """Cause of the wait: the node's GPUs, or Karpenter's condition."""
    failure: RequestFailure | None = None
    lost: tuple[NodeClaim, ...] = ()
    """NodeClaims that came and went before the smart pod named them."""

    @property
    def to_record(self) -> RecordSmartPodState | None:
        """Intent that records the state on the smart pod; None if the smart pod has it already."""
        pod = self.smart_pod
        if (pod.state, pod.node_claim, pod.attempts) == (self.state.value, self.node_claim, self.attempts):
            return None
        return RecordSmartPodState(
            key=pod.key,
            uid=pod.uid,
            state=self.state,
            since=self.since,
            attempts=self.attempts,
            node_claim=self.node_claim,
            request=pod.request,
            lost=tuple(one.name for one in self.lost),
            why=f"request {pod.request} is {self.state.value}",
        )


class ProgressReader:
    """Derives the progress of requests from the objects."""

    def __init__(self, assigner: PodAssigner, facts: KarpenterFacts, policy: KarpenterPolicy) -> None:
        self.facts = facts
        self.policy = policy
        self._assigner = assigner
        self.leased: dict[tuple[str, str], frozenset[int]] = {}
        """By node and pod uid: GPUs whose Leases were written and may not be observed yet."""

    def waiting(self, pods: Sequence[WaitingPod]) -> tuple[Pod, ...]:
        """Those of the pods, by name and uid, that exist and wait for a node; or whose VM does."""
        snapshot = self._assigner.snapshot
        known = ((snapshot.state.pods.get(one.key), one.uid) for one in pods)
        found = [pod for pod, uid in known if pod is not None and pod.uid == uid]
        return tuple(pod for pod in found if waits(pod) or needs_new_node(pod, snapshot))

    def requests_of(self, pods: Iterable[Pod]) -> Iterator[CapacityRequest]:
        """Current requests of these pods, with the failure recorded on each."""
        for pod in pods:
            request = request_of(self._assigner, pod)
            if request is not None:
                yield request

    def has_reported(self, node: str) -> bool:
        """True if the agent of the node has reported its GPUs."""
        return node in self._assigner.snapshot.state.inventories

    def read(self, pod: SmartPod, original: OriginalRequest, *, now: Instant) -> Progress:
        waiting = self.waiting(original.pods)
        claim = self.facts.claim_of(pod.request)
        leases, missing = self._gpus(pod, waiting, now)
        view = RequestView(
            smart_pod=pod,
            claim=claim,
            node=self.facts.nodes.get(pod.node),
            inventory=self._inventory(pod.node),
            fits=bool(leases),
            leased=self._all_leased(pod.node, original, waiting),
            waiting=tuple(WaitingPod(one.key, one.uid) for one in waiting),
        )
        state = derive(view)
        name = "" if claim is None else claim.name
        lost_unnamed = () if pod.node else self.facts.losses(pod.request)
        failure, attempts = self._lost(pod, name, lost_unnamed)
        since = Instant(now) if lost_unnamed else self._since(pod, state, name, now)
        deadline = after(since, self.policy.deadlines[state])
        detail = missing.sentence or stuck(claim, _CONDITIONS.get(state, ""))
        if failure is None:
            failure = self._ended(pod)
        if failure is None and not pod.node:
            failure = self._said(pod, original) or self._unavailable(original) if state is S.PENDING else None
        if failure is None and now >= deadline:
            failure = self._timeout(pod, original, state, DoesNotFit(detail, missing.reason))
        return Progress(
            smart_pod=pod,
            original=original,
            state=state,
            since=since,
            deadline=deadline,
            attempts=attempts,
            waiting=waiting,
            node_claim=name or (pod.node_claim if pod.node else ""),
            leases=leases,
            detail=detail,
            failure=failure,
            lost=lost_unnamed,
        )

    def _inventory(self, node: str) -> Inventory | None:
        return self._assigner.snapshot.state.inventories.get(node)

    def _gpus(
        self, pod: SmartPod, waiting: Sequence[Pod], now: Instant
    ) -> tuple[tuple[GpuLeaseRequest, ...], DoesNotFit]:
        """Choose GPUs of the smart pod's node for the waiting pods; else the reason why there are none."""
        node = self.facts.nodes.get(pod.node)
        if node is None or not node.ready or not waiting:
            return (), _NOTHING_MISSING
        if self._inventory(node.name) is None:
            return (), DoesNotFit(f"the agent of node {node.name} has not reported its GPUs")
        answer = choose_gpus(self._assigner, waiting, node.name, pod.key, now=now)
        return ((), answer) if isinstance(answer, DoesNotFit) else (answer, _NOTHING_MISSING)

    def _all_leased(self, node: str, original: OriginalRequest, waiting: Sequence[Pod]) -> bool:
        if not waiting:
            return False
        if chooses_devices(self._inventory(node)):
            return True
        asks = {one.uid: ask.count for one, ask in zip(original.pods, original.asks, strict=False)}
        return all(len(self._leased(node, pod.uid)) >= asks.get(pod.uid, 1) for pod in waiting)

    def _leased(self, node: str, uid: str) -> frozenset[int]:
        return self.leased.get((node, uid), frozenset()) | frozenset(self.facts.leased(node, uid))

    def _since(self, pod: SmartPod, state: S, claim: str, now: Instant) -> Instant:
        """Instant at which the state began: as recorded, never in the future. Loss of the NodeClaim restarts it."""
        lost_claim = bool(pod.node_claim) and pod.node_claim != claim and not pod.node
        if pod.state != state.value or lost_claim:
            return Instant(now)
        return Instant(min(now, pod.state_since or pod.created))

    def _lost(self, pod: SmartPod, claim: str, unnamed: Sequence[NodeClaim]) -> tuple[RequestFailure | None, int]:
        """Count each NodeClaim that went as a failed attempt, once: the one the smart pod names, and those unnamed.

        Returns a failure only if no attempt is left, and the number of attempts.
        """
        named = bool(pod.node_claim) and pod.node_claim != claim and not pod.node
        if not named and not unnamed:
            return None, pod.attempts
        attempts = pod.attempts + named + len(unnamed)
        if unnamed:
            name, launched = unnamed[-1].name, unnamed[-1].holds(LAUNCHED)
        else:
            name, launched = pod.node_claim, pod.state in (S.LAUNCHED.value, S.REGISTERED.value)
        failure = lost(name, launched=launched, said=self.facts.said_of_claim(name))
        return (failure if attempts >= self.policy.max_retry_attempts else None), attempts

    def _ended(self, pod: SmartPod) -> RequestFailure | None:
        """Failure of a smart pod that ended, or whose node is being removed or gone: pods on it may outlive it."""
        why = ""
        if pod.deleting:
            return None
        if pod.over:
            why = f"smart pod {pod.key} ended before its node was handed over"
        elif pod.node:
            node = self.facts.nodes.get(pod.node)
            claim_is_gone = bool(pod.node_claim) and self.facts.claim_of(pod.request) is None
            if (node is None and claim_is_gone) or (node is not None and node.going):
                gone = "is gone" if node is None else "is being removed"
                why = f"node {pod.node} {gone}, and was not handed over yet"
        return RequestFailure(FailureReason.SMART_POD_EVICTED, why) if why else None

    def _said(self, pod: SmartPod, original: OriginalRequest) -> RequestFailure | None:
        """Final failure that Karpenter reported for this smart pod, if any."""
        event = self.facts.said_of(pod)
        mapping = self.policy.mapping(original.mapping)
        if event is None or event.at < pod.created:
            return None
        failure = failure_of(event, "" if mapping is None else mapping.node_pool)
        return failure if failure is not None and is_final(failure) else None

    def _unavailable(self, original: OriginalRequest) -> RequestFailure | None:
        """Failure if the NodePool was deleted, or serves nobody any more, before it made a NodeClaim."""
        mapping = self.policy.mapping(original.mapping)
        return None if mapping is None else why_unavailable(mapping, self.facts.node_pools.get(mapping.node_pool))

    def _timeout(self, pod: SmartPod, original: OriginalRequest, state: S, missing: DoesNotFit) -> RequestFailure:
        """Failure at the deadline: Karpenter's reason if the request is pending and has one; else the timeout.

        A node that came and does not suit the pod is no matter of time: the next one would be bought in vain.
        """
        event, mapping = self.facts.said_of(pod), self.policy.mapping(original.mapping)
        if state is S.PENDING and event is not None:
            known = failure_of(event, "" if mapping is None else mapping.node_pool)
            if known is not None:
                return known
        seconds = self.policy.deadlines[state]
        words = f"request {pod.request} was {state.value} for {seconds:g} s"
        reason = FailureReason.NODE_UNSUITABLE if self._is_in_vain(pod, missing) else TIMEOUTS[state]
        return RequestFailure(reason, f"{words}: {missing.sentence}" if missing.sentence else words)

    def _is_in_vain(self, pod: SmartPod, missing: DoesNotFit) -> bool:
        """True if the next node would not suit the pod either: by the reason, or because several nodes did not."""
        if missing.reason is None or missing.reason in PASSING:
            return False
        return missing.reason in UNSUITABLE or pod.attempts + 1 >= self.policy.max_retry_attempts
