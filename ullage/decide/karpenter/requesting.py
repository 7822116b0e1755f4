"""Plan new smart pods: select due requests, choose their NodePools, group them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from ullage.decide.karpenter.batching import RequestGroup, grouped
from ullage.decide.karpenter.facts import KarpenterFacts
from ullage.decide.karpenter.lifecycle import READY, REGISTERED
from ullage.decide.karpenter.node_pool_mapping import Chosen, choose
from ullage.decide.karpenter.policy import KarpenterPolicy
from ullage.decide.karpenter.retry import SmartPodRetries
from ullage.decide.karpenter.smart_pod import create_smart_pod
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import CreateSmartPod, RecordFailure
from ullage.model.karpenter import UNCLAIMED, CapacityRequest, NodeClaim
from ullage.model.karpenter_failure import FailureReason, RequestFailure
from ullage.model.lifecycles import SmartPodState
from ullage.model.resources import GPU, MILLI
from ullage.model.units import Instant, after

NOT_INSTALLED = RequestFailure(
    FailureReason.NOT_INSTALLED,
    "karpenter.enabled is true, and the cluster serves no nodepools.karpenter.sh and nodeclaims.karpenter.sh",
)


@dataclass(slots=True)
class Requesting:
    """Plan for the requests that are due."""

    create: list[CreateSmartPod] = field(default_factory=list)
    failures: list[RecordFailure] = field(default_factory=list)
    wake_at: list[Instant] = field(default_factory=list)
    waiting_for: dict[ObjectKey, str] = field(default_factory=dict)
    """NodeClaim of a request that is over, by the pod whose request waits for it instead of buying."""


class RequestPlanner:
    """Turns wanted requests into smart pods."""

    def __init__(self, facts: KarpenterFacts, policy: KarpenterPolicy, has_reported: Callable[[str], bool]) -> None:
        """`has_reported`: True if the agent of a node has reported its GPUs."""
        self._facts = facts
        self._policy = policy
        self._has_reported = has_reported
        self._retry = SmartPodRetries(facts, policy)
        self._since: dict[str, Instant] = {}
        """Instant at which a request was first seen due without a smart pod, by pod uid."""

    def plan(self, wanted: Sequence[CapacityRequest], *, in_flight: int, now: Instant) -> Requesting:
        """`wanted` have no smart pod and no node closed for them; `in_flight` smart pods exist."""
        found = Requesting()
        due = [one for one in wanted if self._is_due(one, found, now)]
        self._since = {one.pod.uid: self._since.get(one.pod.uid, Instant(now)) for one in due}
        if not due:
            return found
        window_ends = after(min(self._since.values()), self._policy.batch_window)
        if now < window_ends:
            found.wake_at.append(window_ends)
            return found
        orphans, room = self._orphans(now), self._policy.max_in_flight - in_flight
        coming = self._coming()
        for batch in _batches(due):
            groups = self._groups(batch, orphans, coming, found, now=now)
            if batch[0].gang is None:
                groups = groups[: max(0, room)]
            elif len(groups) > room and (found.create or in_flight):
                continue  # a gang larger than the limit goes alone
            room -= len(groups)
            found.create += [create_smart_pod(one, self._policy, why=_why(one)) for one in groups]
        return found

    def _is_due(self, request: CapacityRequest, found: Requesting, now: Instant) -> bool:
        failure = self._retry.recorded(request)
        if failure is None or (failure.retry_at and failure.retry_at <= now):
            return True
        if failure.retry_at:
            found.wake_at.append(Instant(failure.retry_at))
        return False

    def _groups(
        self,
        batch: Sequence[CapacityRequest],
        orphans: list[NodeClaim],
        coming: dict[str, int],
        found: Requesting,
        *,
        now: Instant,
    ) -> list[RequestGroup]:
        """Groups of one gang, or of single pods; none where one member of a gang cannot be served."""
        chosen: list[tuple[CapacityRequest, Chosen]] = []
        for request in batch:
            recorded = self._retry.recorded(request)
            left_out = recorded.exhausted if recorded is not None else ()
            answer = self._choose(request, left_out, coming)
            if isinstance(answer, RequestFailure):
                self._refuse(batch, request, answer, found, now)
                if request.gang is not None:
                    return []
                continue
            pool = answer.mapping.node_pool
            coming[pool] = coming.get(pool, 0) + answer.gpus
            orphan = next((claim for claim in orphans if _serves(claim, answer)), None)
            if orphan is not None and request.gang is None:
                orphans.remove(orphan)
                found.waiting_for[request.pod.key] = orphan.name
            else:
                chosen.append((msgspec.structs.replace(request, failure=recorded), answer))
        return grouped(chosen)

    def _choose(
        self, request: CapacityRequest, passed_over: Sequence[str], coming: dict[str, int]
    ) -> Chosen | RequestFailure:
        if not self._facts.served:
            return NOT_INSTALLED
        pools = self._facts.node_pools
        return choose(request, self._policy.mappings, pools, passed_over=passed_over, in_flight=coming)

    def _refuse(
        self,
        batch: Sequence[CapacityRequest],
        request: CapacityRequest,
        failure: RequestFailure,
        found: Requesting,
        now: Instant,
    ) -> None:
        """Record the failure on the waiting pod; for a gang, on every member."""
        for one in batch if request.gang is not None else (request,):
            own = failure
            if one.pod != request.pod:
                own = gang_failure(request.pod.key, failure)
            known = self._retry.recorded(one)
            written = self._retry.record(one, own, 0 if known is None else known.attempts, now=now)
            if written is not None:
                found.failures.append(written)

    def _coming(self) -> dict[str, int]:
        """GPUs requested per NodePool by smart pods without a NodeClaim yet: the usage does not count them."""
        found: dict[str, int] = {}
        for pod in self._facts.smart_pods.values():
            mapping = None if pod.original is None else self._policy.mapping(pod.original.mapping)
            if mapping is None or pod.original is None or pod.node or self._facts.claim_of(pod.request) is not None:
                continue
            found[mapping.node_pool] = found.get(mapping.node_pool, 0) + pod.original.gpu_count
        return found

    def _orphans(self, now: Instant) -> list[NodeClaim]:
        """Upcoming NodeClaims of requests that are over, oldest first: the next request takes them.

        A NodeClaim older than the registration deadline is left out.
        """
        served = {pod.request for pod in self._facts.smart_pods.values()}
        longest = self._policy.deadlines[SmartPodState.LAUNCHED]
        found: list[NodeClaim] = []
        for claim in sorted(self._facts.node_claims.values(), key=lambda one: (one.created, one.name)):
            over = claim.request and claim.request not in served
            if over and not claim.deleting and now < claim.created + longest and self._is_coming(claim):
                found.append(claim)
        return found

    def _is_coming(self, claim: NodeClaim) -> bool:
        """True until the scheduler can place pods on the node: it is ready, open, and its GPUs are reported.

        Karpenter shows Ready a moment after the node was opened: by then the snapshot has observed it as well.
        """
        node = self._facts.nodes.get(claim.node)
        if node is None:
            return not claim.holds(REGISTERED)
        opened = node.ready and node.closed_for != UNCLAIMED and claim.holds(READY)
        return not node.going and not (opened and self._has_reported(node.name))


def gang_failure(member: ObjectKey, failure: RequestFailure) -> RequestFailure:
    """Failure of a gang's other members."""
    return RequestFailure(FailureReason.GANG_MEMBER_FAILED, f"gang member {member}: {failure.message}")


def _serves(claim: NodeClaim, choice: Chosen) -> bool:
    return claim.node_pool == choice.mapping.node_pool and claim.requests.get(GPU, 0) >= choice.gpus * MILLI


def _batches(due: Iterable[CapacityRequest]) -> list[list[CapacityRequest]]:
    """Batches: all single pods together, then complete gangs in the order of their first members. Others wait."""
    found: dict[ObjectKey | None, list[CapacityRequest]] = {}
    for request in due:
        found.setdefault(request.gang, []).append(request)
    singles = found.pop(None, [])
    batches = [singles] if singles else []
    return batches + [members for members in found.values() if len(members) >= members[0].gang_size]


def _why(group: RequestGroup) -> str:
    pods = ", ".join(str(one.pod.key) for one in group.requests[:3])
    more = f" and {len(group.requests) - 3} more" if len(group.requests) > 3 else ""
    return f"insufficient GPU resources in pool {group.mapping.name}, auto-scaling triggered for {pods}{more}"
