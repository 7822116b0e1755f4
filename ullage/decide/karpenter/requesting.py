"""Plan new smart pods: select due requests, choose their NodePools, group them."""

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from ullage.decide.karpenter.batching import RequestGroup, grouped
from ullage.decide.karpenter.facts import KarpenterFacts
from ullage.decide.karpenter.lifecycle import READY, REGISTERED
from ullage.decide.karpenter.node_pool_mapping import Chosen, scale_up_note
from ullage.decide.karpenter.orphans import will_serve
from ullage.decide.karpenter.policy import KarpenterPolicy
from ullage.decide.karpenter.retry import SmartPodRetries
from ullage.decide.karpenter.smart_pod import create_smart_pod
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import CreateSmartPod, RecordFailure
from ullage.model.karpenter import UNCLAIMED, CapacityRequest, NodeClaim
from ullage.model.karpenter_failure import FailureReason, RequestFailure
from ullage.model.lifecycles import SmartPodState
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
        failed = self._gangs_that_failed(wanted)
        due = [one for one in wanted if self._is_due(one, failed, found, now)]
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

    def _gangs_that_failed(self, wanted: Sequence[CapacityRequest]) -> set[ObjectKey]:
        """Gangs of which a member has a failure of its own: the member may be another pod by now."""
        return {one.gang for one in wanted if one.gang is not None and self._has_own_failure(one)}

    def _has_own_failure(self, request: CapacityRequest) -> bool:
        failure = self._retry.recorded(request)
        return failure is not None and failure.reason is not FailureReason.GANG_MEMBER_FAILED

    def _is_due(self, request: CapacityRequest, failed: Container[ObjectKey], found: Requesting, now: Instant) -> bool:
        failure = self._retry.recorded(request)
        if failure is None or (failure.retry_at and failure.retry_at <= now):
            return True
        if failure.reason is FailureReason.GANG_MEMBER_FAILED and request.gang not in failed:
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
            orphan = self._orphan(request, answer, orphans)
            if orphan is not None and request.gang is None:
                orphans.remove(orphan)
                found.waiting_for[request.pod.key] = orphan.name
            else:
                chosen.append((msgspec.structs.replace(request, failure=recorded), answer))
        return grouped(chosen)

    def _orphan(self, request: CapacityRequest, answer: Chosen, orphans: list[NodeClaim]) -> NodeClaim | None:
        """Oldest NodeClaim of a request that is over whose node would serve this one."""
        if not orphans:
            return None
        (group,) = grouped([(request, answer)])
        smart_pod = create_smart_pod(group, self._policy, why="")
        return next((claim for claim in orphans if will_serve(claim, smart_pod)), None)

    def _choose(
        self, request: CapacityRequest, passed_over: Sequence[str], coming: dict[str, int]
    ) -> Chosen | RequestFailure:
        if not self._facts.served:
            return NOT_INSTALLED
        return self._retry.choose(request, passed_over, coming)

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
    cause = failure.cause or failure.reason
    return RequestFailure(FailureReason.GANG_MEMBER_FAILED, f"gang member {member}: {failure.message}", cause)


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
    missing = scale_up_note(group.mapping.name, for_vm=group.requests[0].vm_nodes is not None)
    return f"{missing} for {pods}{more}"
