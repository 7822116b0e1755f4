"""Nodes that a hand-over taint closes: end hand-overs whose smart pod is gone, open nodes that nobody waits for."""

from collections.abc import Iterator

from ullage.decide.karpenter.handover import admit, is_admitted, open_node, reserve
from ullage.decide.karpenter.lifecycle import REGISTERED
from ullage.decide.karpenter.progress import ProgressReader
from ullage.decide.karpenter.retry import SmartPodRetries
from ullage.decide.karpenter.transitions import TransitionLog
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.intents import KarpenterIntent
from ullage.model.karpenter import Handover, HandoverNode
from ullage.model.karpenter_failure import FailureReason, RequestFailure
from ullage.model.lifecycles import SmartPodState as S
from ullage.model.units import Instant, Seconds, after


class ClosedNodes:
    """Second half of every hand-over: from the deletion of the smart pod to the open node."""

    def __init__(
        self, assigner: PodAssigner, reader: ProgressReader, retry: SmartPodRetries, transitions: TransitionLog
    ) -> None:
        self._assigner = assigner
        self._reader = reader
        self._facts, self._policy = reader.facts, reader.policy
        self._retry = retry
        self._transitions = transitions
        self._gone: dict[str, Handover] = {}
        """By name: nodes that were deleted in the middle of a hand-over, until its pods were told."""
        self._unlabelled: dict[str, HandoverNode] = {}
        """By name: closed nodes that were deleted, or lost the label by which nodes are observed, until it is known."""

    def observe(self, node: HandoverNode, *, gone: bool) -> None:
        """Note a node that was deleted, or lost the label of its request."""
        self.settle(node.name)
        if not gone:
            return
        if node.handover is not None:
            self._gone[node.name] = node.handover
        if node.handover is not None or node.closed_for is not None:
            self._unlabelled[node.name] = node

    def settle(self, node: str) -> None:
        """Note that a node was opened, or is not there any more."""
        self._unlabelled.pop(node, None)

    def next_intents(self, wake_at: list[Instant], *, now: Instant) -> Iterator[KarpenterIntent]:
        """Continue hand-overs, and open nodes bought for requests that are over. Adds the deadlines to `wake_at`."""
        served = {pod.request for pod in self._facts.smart_pods.values()}
        for _, node in sorted(self._facts.nodes.items()):
            if (
                (node.closed_for is None and node.handover is None)
                or node.request in served
                or node.closed_for in served
            ):
                continue
            if node.handover is not None:
                yield from self._handed_over(node, node.handover, wake_at, now)
            elif node.ready and not node.going and self._is_usable(node, wake_at, now):
                why = f"request {node.request} is over: the node is for whoever comes next"
                yield open_node(node, S.CANCELLED, why)
        yield from self._losses(now)
        for name, node in self._unlabelled.items():
            if name not in self._facts.nodes:
                yield open_node(node, S.CANCELLED, f"node {name} is gone, or lost the label of its request")

    def _is_usable(self, node: HandoverNode, wake_at: list[Instant], now: Instant) -> bool:
        """True if the scheduler can place pods on the node: its agent has reported, or has been silent for too long.

        A node that is opened earlier could be taken by pods that need no report, while the next request waits for it.
        """
        if self._reader.has_reported(node.name):
            return True
        claim = self._facts.claim_of(node.request)
        if claim is None:
            return True
        usable_by = after(claim.condition(REGISTERED).since or claim.created, self._policy.deadlines[S.INITIALIZED])
        if now < usable_by:
            wake_at.append(usable_by)
        return now >= usable_by

    def _handed_over(
        self, node: HandoverNode, handover: Handover, wake_at: list[Instant], now: Instant
    ) -> Iterator[KarpenterIntent]:
        waiting = self._reader.waiting(handover.pods)
        deadlines = self._policy.deadlines
        ends = after(min(handover.since, now), Seconds(deadlines[S.RESERVED] + deadlines[S.HANDED_OVER]))
        if waiting and (node.going or now >= ends):
            cause = "is being removed" if node.going else "was not bound to in time"
            yield from self._lost(node.name, handover, cause, now)
            yield open_node(node, S.FAILED, f"HandoverLost: node {node.name} {cause}")
            return
        if waiting or handover.request in self._transitions.states():
            self._transitions.observe(handover.request, S.HANDED_OVER, now=now)
        if not waiting:
            end = S.HANDED_OVER if self._any_bound(handover) else S.CANCELLED
            yield open_node(node, end, f"every pod of request {handover.request} is bound or gone")
            return
        wake_at.append(ends)
        if node.closed_for != handover.request:  # a user removed the taint, or changed its value
            yield reserve(node, handover.request, handover.pods, (), now=now)
        for pod in waiting:
            if not is_admitted(pod, handover.request):
                yield admit(pod, node, handover.request)

    def _any_bound(self, handover: Handover) -> bool:
        known = self._assigner.snapshot.state.pods
        return any(one.key in known and known[one.key].uid == one.uid for one in handover.pods)

    def _losses(self, now: Instant) -> Iterator[KarpenterIntent]:
        """Tell of nodes that were deleted in the middle of a hand-over."""
        for name, handover in tuple(self._gone.items()):
            lost = list(self._lost(name, handover, "is gone", now))
            yield from lost
            if not lost:
                del self._gone[name]

    def _lost(self, node: str, handover: Handover, cause: str, now: Instant) -> Iterator[KarpenterIntent]:
        """Record on the waiting pods that their node was lost, once for each hand-over."""
        failure = RequestFailure(FailureReason.HANDOVER_LOST, f"node {node} {cause}")
        for request in self._reader.requests_of(self._reader.waiting(handover.pods)):
            known = self._retry.recorded(request)
            if known is not None and known.at >= handover.since:
                continue  # told already, or the smart pod was evicted in the middle of it
            written = self._retry.record(request, failure, 1 if known is None else known.attempts + 1, now=now)
            if written is not None:
                yield written
                self._transitions.observe(handover.request, S.FAILED, now=now)
