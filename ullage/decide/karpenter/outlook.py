"""Outlook of capacity requests for people: the NodeClaim that is coming, and when its node is expected.

Expected times come from the NodeClaims of the same NodePool that became Ready. Nothing here is acted upon.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ullage.decide.karpenter.facts import KarpenterFacts
from ullage.decide.karpenter.lifecycle import READY
from ullage.decide.karpenter.retry import read_failure
from ullage.model.fact_event import ObjectKey
from ullage.model.karpenter import (
    HANDOVER_UNPROTECTED,
    UNCLAIMED,
    Handover,
    HandoverNode,
    NodeClaim,
    SmartPod,
    Tristate,
    WaitingPod,
)
from ullage.model.lifecycles import SmartPodState, SmartPodStatus, status_of
from ullage.model.pod import Pod
from ullage.model.units import Instant, Seconds

MOST_REMEMBERED = 200
"""NodeClaims of a NodePool whose times count, the newest."""
_NAMES = frozenset(SmartPodState)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningTimes:
    """Distribution of the seconds from NodeClaim created to Ready, in one NodePool."""

    seconds: tuple[Seconds, ...]
    """Sorted."""

    def expected(self, elapsed: Seconds) -> tuple[Seconds, Seconds] | None:
        """Median and nine-in-ten time of those that took longer than `elapsed`; None if none did."""
        longer = [one for one in self.seconds if one > elapsed]
        if not longer:
            return None
        return longer[(len(longer) - 1) // 2], longer[min(len(longer) - 1, len(longer) * 9 // 10)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOutlook:
    """One capacity request that is being served."""

    request: str
    pods: tuple[WaitingPod, ...]
    smart_pod: ObjectKey | None
    """None once the smart pod is gone and the node is handed over."""
    state: SmartPodState
    since: Instant
    status: SmartPodStatus
    attempts: int = 0
    node_pool: str = ""
    node_claim: str = ""
    claimed_at: Instant = Instant(0.0)
    node: str = ""
    times: ProvisioningTimes
    expected: Instant | None = None
    """Instant at which half of the earlier NodeClaims that took as long as this one had become Ready."""
    latest: Instant | None = None
    """The same for nine of ten."""


def provisioning_times(claims: Iterable[NodeClaim], node_pool: str) -> ProvisioningTimes:
    """Times of the NodeClaims of a NodePool that are there and became Ready."""
    mine = sorted(
        (one for one in claims if one.node_pool == node_pool and one.holds(READY)),
        key=lambda one: (-one.created, one.name),
    )[:MOST_REMEMBERED]
    took = (one.condition(READY).since - one.created for one in mine if one.condition(READY).since and one.created)
    return ProvisioningTimes(seconds=tuple(sorted(Seconds(max(0.0, one)) for one in took)))


def request_outlooks(facts: KarpenterFacts, *, now: Instant) -> list[RequestOutlook]:
    """Outlook of every request with a smart pod, by its name, then of every hand-over, by node."""
    found = [_of_smart_pod(facts, pod, now) for _, pod in sorted(facts.smart_pods.items())]
    served = {one.request for one in found}
    for _, node in sorted(facts.nodes.items()):
        handover = node.handover
        if handover is not None and handover.request not in served and node.closed_for not in (None, UNCLAIMED):
            found.append(_of_handover(facts, node, handover))
    return found


def explain_capacity(facts: KarpenterFacts, pod: Pod, *, now: Instant) -> tuple[str, ...]:
    """Sentences on what Karpenter does for a pod without a node. Empty where nothing was asked of it."""
    mine = [one for one in request_outlooks(facts, now=now) if any(_is(waiting, pod) for waiting in one.pods)]
    said = [sentence for one in mine for sentence in _sentences(one, now)]
    said += [sentence for one in mine for sentence in _unprotected(facts, one.node_pool)]
    failure = read_failure(pod.capacity_failure)
    if failure is not None and not mine:
        tries = f", attempt {failure.attempts}" if failure.attempts else ""
        said.append(
            f"Karpenter bought no node ({failure.reason.value}{tries}): {failure.message}; "
            f"tried again {_again(failure.retry_at, now)}"
        )
    return tuple(said)


def _unprotected(facts: KarpenterFacts, node_pool: str) -> Iterator[str]:
    pool = facts.node_pools.get(node_pool)
    if pool is not None and pool.unprotected.status is Tristate.TRUE:
        yield f"NodePool {node_pool} is {HANDOVER_UNPROTECTED}: {pool.unprotected.message}"


def _again(retry_at: Instant, now: Instant) -> str:
    if not retry_at:
        return "when the pod, the mapping or the NodePool changes"
    return f"at {spoken_time(retry_at)}" if retry_at > now else "now"


def spoken_time(at: Instant) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%SZ")


def _is(waiting: WaitingPod, pod: Pod) -> bool:
    return (waiting.key, waiting.uid) == (pod.key, pod.uid)


def _of_smart_pod(facts: KarpenterFacts, pod: SmartPod, now: Instant) -> RequestOutlook:
    claim = facts.claim_of(pod.request)
    state = SmartPodState(pod.state) if pod.state in _NAMES else SmartPodState.PENDING
    node_pool = "" if claim is None else claim.node_pool
    times = provisioning_times(facts.node_claims.values(), node_pool)
    known = None if claim is None or claim.holds(READY) else times.expected(Seconds(now - claim.created))
    began = 0.0 if claim is None else claim.created
    return RequestOutlook(
        request=pod.request,
        pods=() if pod.original is None else pod.original.pods,
        smart_pod=pod.key,
        state=state,
        since=min(now, pod.state_since or pod.created),
        status=status_of(state, bound=bool(pod.node)),
        attempts=pod.attempts,
        node_pool=node_pool,
        node_claim=pod.node_claim if claim is None else claim.name,
        claimed_at=Instant(began),
        node=pod.node or ("" if claim is None else claim.node),
        times=times,
        expected=None if known is None else Instant(began + known[0]),
        latest=None if known is None else Instant(began + known[1]),
    )


def _of_handover(facts: KarpenterFacts, node: HandoverNode, handover: Handover) -> RequestOutlook:
    claim = facts.claim_of(node.request)
    return RequestOutlook(
        request=handover.request,
        pods=handover.pods,
        smart_pod=None,
        state=SmartPodState.HANDED_OVER,
        since=handover.since,
        status=SmartPodStatus.COMPLETED,
        node_pool=node.node_pool,
        node_claim="" if claim is None else claim.name,
        claimed_at=Instant(0.0) if claim is None else claim.created,
        node=node.name,
        times=provisioning_times(facts.node_claims.values(), node.node_pool),
    )


def _sentences(one: RequestOutlook, now: Instant) -> Iterator[str]:
    lasted = f"for {max(0.0, now - one.since):.0f} s"
    if one.smart_pod is None:
        yield f"wait: node {one.node} is handed over to it (request {one.request}, {lasted})"
        return
    if not one.node_claim:
        yield f"wait: Karpenter was asked for a node by smart pod {one.smart_pod} ({one.state.value} {lasted})"
        return
    where = f" as node {one.node}" if one.node else ""
    what = f"NodeClaim {one.node_claim} of NodePool {one.node_pool} is coming for it{where}"
    yield f"wait: {what} (smart pod {one.smart_pod}, {one.state.value} {lasted})"
    yield _expected(one, one.times.seconds, now)


def _expected(one: RequestOutlook, seconds: Sequence[Seconds], now: Instant) -> str:
    if not seconds:
        return f"when it comes is not known: no NodeClaim of NodePool {one.node_pool} has become Ready yet"
    count = f"{len(seconds)} earlier NodeClaim{'s' if len(seconds) > 1 else ''}"
    if one.expected is None or one.latest is None:
        taken = now - one.claimed_at
        longest = f"{count} of NodePool {one.node_pool} took {seconds[-1]:.0f} s or less"
        return f"it is late: {taken:.0f} s so far, and {longest}"
    left = max(0.0, one.expected - now)
    return (
        f"expected at {spoken_time(one.expected)}, in {left:.0f} s, nine of ten by {spoken_time(one.latest)}: "
        f"{count} of NodePool {one.node_pool} took {seconds[0]:.0f} to {seconds[-1]:.0f} s"
    )
