"""Report the outcome of capacity requests: Events on waiting pods and NodePools, log lines, metrics."""

from collections.abc import Iterable, Mapping

import structlog

from ullage.control.provisioning.reporter import EventSink
from ullage.decide.karpenter.node_pool_mapping import UNPROTECTED, is_protected, scale_up_note
from ullage.decide.karpenter.transitions import Transition
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import AdmitWaitingPod, ClearHandover, CreateSmartPod, DeleteSmartPod, RecordFailure
from ullage.model.karpenter import (
    HANDOVER_UNPROTECTED,
    POOL_LABEL,
    NodeClaimEvent,
    NodeClaimEventType,
    NodePool,
    WaitingPod,
)
from ullage.model.karpenter_failure import FailureReason
from ullage.model.lifecycles import SmartPodState
from ullage.model.outcomes import IntentDone, IntentFailed, IntentRejected, KarpenterOutcome
from ullage.observe.events import EventMessage, EventReason, ObjectReference
from ullage.observe.karpenter_metrics import KarpenterMetrics

_log = structlog.get_logger("karpenter")

TRIES_BEFORE_REPORT = 3


class KarpenterReporter:
    """Events, logs and metrics of one controller."""

    def __init__(self, events: EventSink, metrics: KarpenterMetrics | None = None, *, started: float = 0.0) -> None:
        """`started`: steps of NodeClaims before this instant were counted by an earlier process."""
        self._events = events
        self._metrics = metrics
        self._started = started
        self._claimed_at: dict[str, float] = {}
        """Creation time of each NodeClaim made for a request that is neither Ready nor gone."""
        self._unprotected: set[str] = set()

    def outcome(self, outcome: KarpenterOutcome, failures: int) -> None:
        """Report the outcome of an intent. `failures`: its failures in a row."""
        intent = outcome.intent
        if isinstance(outcome, IntentDone):
            self._done(outcome)
        elif isinstance(outcome, IntentFailed | IntentRejected):
            kind = type(intent).__name__
            _log.warning("intent not performed", intent=kind, tries=failures, error=outcome.detail)
            if isinstance(intent, DeleteSmartPod) and failures >= TRIES_BEFORE_REPORT and self._metrics is not None:
                self._metrics.cleanup_failed()

    def _done(self, outcome: IntentDone) -> None:
        match outcome.intent:
            case CreateSmartPod() as intent if outcome.written:
                pool = dict(intent.labels)[POOL_LABEL]
                _log.info("smart pod created", smart_pod=str(intent.key), request=intent.request, pool=pool)
                if self._metrics is not None:
                    self._metrics.created(pool)
                for pod in intent.pods:
                    note = f"{scale_up_note(pool, for_vm=intent.for_vm)} (request {intent.request})"
                    self._emit(pod, EventReason.SCALE_UP_TRIGGERED, note)
            case AdmitWaitingPod() as intent if outcome.written:
                self._emit(intent.pod, EventReason.NODE_HANDED_OVER, f"node {intent.node} was bought for this pod")
            case RecordFailure(failure=failure) as intent if failure is not None:
                self._emit(intent.pod, EventReason.SCALE_UP_FAILED, f"{failure.reason.value}: {failure.message}")
                self._ended(SmartPodState.FAILED, failure.reason)
            case DeleteSmartPod() as intent if not intent.again:
                _log.info("smart pod deleted", smart_pod=str(intent.key), state=intent.end.value, why=intent.why)
                if intent.end is SmartPodState.CANCELLED or intent.for_vm:
                    self._ended(intent.end, None)
            case ClearHandover() as intent if outcome.written:
                self._opened(intent)
            case _:
                pass

    def _opened(self, intent: ClearHandover) -> None:
        _log.info("node opened", node=intent.node, why=intent.why)
        if intent.end is SmartPodState.HANDED_OVER:
            self._ended(SmartPodState.HANDED_OVER, None)
        elif intent.end is SmartPodState.CANCELLED and self._metrics is not None:
            self._metrics.orphan_opened()

    def transitions(self, moves: Iterable[Transition]) -> None:
        for move in moves:
            start = "" if move.start is None else move.start.value
            _log.info("request moved", request=move.request, start=start, end=move.end.value, why=move.sentence)
            if self._metrics is None:
                continue
            if move.start is not None:
                self._metrics.state_left(move.start, move.seconds)
            if move.jump:
                self._metrics.jumped()

    def claim_events(self, events: Iterable[NodeClaimEvent], ours: Iterable[str]) -> None:
        """Count events of NodeClaims in `ours`, those made for a request, and time them from creation to Ready.

        A NodeClaim that is gone by now is in `ours` no more: it is known by its creation.
        """
        known = set(ours)
        for event in events:
            name = event.node_claim
            if event.type is NodeClaimEventType.CREATED and name in known:
                self._claimed_at[name] = event.timestamp
            if name not in known and name not in self._claimed_at:
                continue
            over = event.type in (NodeClaimEventType.READY, NodeClaimEventType.FAILED)
            began = self._claimed_at.pop(name, None) if over else None
            if self._metrics is None or event.timestamp < self._started:
                continue
            self._metrics.claim_event(event.type.value)
            if event.type is NodeClaimEventType.READY and began is not None:
                self._metrics.provisioned(max(0.0, event.timestamp - began))

    def node_pools(self, pools: Mapping[str, NodePool], mapped: Iterable[str]) -> None:
        """Report mapped NodePools whose nodes are not tainted before their hand-over, once per generation."""
        found = {name: not is_protected(pools[name]) for name in sorted(set(mapped)) if name in pools}
        if self._metrics is not None:
            self._metrics.unprotected(found)
        for name, is_open in found.items():
            pool, seen = pools[name], f"{pools[name].uid}/{pools[name].generation}"
            if is_open and seen not in self._unprotected:
                self._unprotected.add(seen)
                note = f"{HANDOVER_UNPROTECTED}: {UNPROTECTED}"
                about = ObjectReference("NodePool", ObjectKey("", name), pool.uid, "karpenter.sh/v1")
                self._events.record(EventMessage(about, EventReason.HANDOVER_UNPROTECTED, note))

    def show(self, states: Mapping[SmartPodState, int], oldest_pending: float) -> None:
        if self._metrics is not None:
            self._metrics.show(states, oldest_pending)

    def _ended(self, result: SmartPodState, reason: FailureReason | None) -> None:
        if self._metrics is not None:
            self._metrics.ended(result, reason)

    def _emit(self, pod: WaitingPod, reason: EventReason, note: str) -> None:
        self._events.record(EventMessage(ObjectReference("Pod", pod.key, pod.uid), reason, note))
