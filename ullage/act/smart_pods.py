"""Perform the intents of the Karpenter system: smart pods, hand-over marks of Nodes, tolerations and notes of pods.

Every write names the object it was decided on by uid, and every intent may be performed again. Nothing is decided here.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import assert_never

import msgspec
from msgspec.structs import replace

from ullage import errors
from ullage.act.leases import DeviceTaken, LeaseClient, LeaseHolder, LeaseRequest
from ullage.act.pod_status import write_status
from ullage.clock import Clock, Instant
from ullage.kube.client.api import Deletion, JsonPatch, KubeApi, MergePatch
from ullage.kube.client.edit import edit
from ullage.kube.client.resources import NAMESPACES, NODE_POOLS, NODES, PODS
from ullage.kube.objects.meta import Condition
from ullage.kube.objects.node import KubeNode, KubeTaint
from ullage.kube.objects.pod import KubePod, KubeToleration
from ullage.kube.read.karpenter import read_handover_node
from ullage.kube.timestamps import write_micro_time, write_time
from ullage.kube.write import conditions
from ullage.kube.write.node_pool import conditions_patch, unprotected
from ullage.kube.write.smart_pod import smart_pod
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import (
    AdmitWaitingPod,
    ClearHandover,
    CreateSmartPod,
    DeleteSmartPod,
    KarpenterIntent,
    MarkNodePool,
    RecordFailure,
    RecordSmartPodState,
    ReserveNode,
)
from ullage.model.karpenter import (
    ATTEMPTS,
    CAPACITY_CONDITION,
    CAPACITY_FAILURE,
    COMPONENT_LABEL,
    DO_NOT_DISRUPT,
    HANDOVER,
    NODE_CLAIM,
    REQUEST_LABEL,
    SMART_SCHEDULER,
    STATE_LABEL,
    STATE_SINCE,
    UNCLAIMED,
)
from ullage.model.karpenter_failure import RecordedFailure
from ullage.model.outcomes import IntentDone, IntentFailed, IntentRejected, IntentStale, KarpenterOutcome

NO_SCHEDULE = "NoSchedule"
_STALE = (errors.NotFound, errors.Conflict, errors.Gone)
_REJECTED = (errors.Invalid, errors.BadRequest, errors.Forbidden)


class SmartPodActuator:
    """Actuator of Karpenter intents, through one API. Safe to run for many at once."""

    def __init__(self, api: KubeApi, leases: LeaseClient, clock: Clock) -> None:
        self._api = api
        self._leases = leases
        self._clock = clock

    async def perform(self, intent: KarpenterIntent) -> KarpenterOutcome:
        """Perform one intent. Every end is an outcome."""
        try:
            return await self._perform(intent)
        except _STALE as error:
            return IntentStale(intent, error.message)
        except _REJECTED as error:
            return _refused(intent, error)
        except errors.ApiError as error:
            return IntentFailed(intent, error.message)

    def _perform(self, intent: KarpenterIntent) -> Awaitable[KarpenterOutcome]:
        match intent:
            case CreateSmartPod():
                return self._create(intent)
            case RecordSmartPodState():
                return self._record_state(intent)
            case ReserveNode():
                return self._reserve(intent)
            case DeleteSmartPod():
                return self._delete(intent)
            case AdmitWaitingPod():
                return self._admit(intent)
            case ClearHandover():
                return self._clear(intent)
            case RecordFailure():
                return self._record_failure(intent)
            case MarkNodePool():
                return self._mark(intent)
            case _:
                assert_never(intent)

    async def _create(self, intent: CreateSmartPod) -> KarpenterOutcome:
        """Create the smart pod. A smart pod of this name and request that exists already counts as created."""
        try:
            await self._api.create(PODS, smart_pod(intent), intent.key.namespace)
            return IntentDone(intent)
        except errors.AlreadyExists:
            there = await self._api.get(PODS, intent.key.name, intent.key.namespace)
            ours = (there.metadata.labels.get(COMPONENT_LABEL), there.metadata.labels.get(REQUEST_LABEL))
            if ours != (SMART_SCHEDULER, intent.request):
                return IntentRejected(intent, f"pod {intent.key} is there and is no smart pod of this request")
            if there.metadata.deletion_timestamp is not None:
                return IntentStale(intent, f"pod {intent.key} of an earlier attempt is terminating")
            return IntentDone(intent, written=False)
        except errors.NotFound as error:
            if error.kind != NAMESPACES.plural:
                raise
            await make_namespace(self._api, intent.key.namespace)
            return IntentStale(intent, f"namespace {intent.key.namespace} was gone, and is made again")

    async def _record_state(self, intent: RecordSmartPodState) -> KarpenterOutcome:
        notes = {
            STATE_SINCE: write_micro_time(Instant(intent.since)),
            ATTEMPTS: str(intent.attempts),
            NODE_CLAIM: intent.node_claim or None,
        }
        body = {"metadata": {"uid": intent.uid, "labels": {STATE_LABEL: intent.state.value}, "annotations": notes}}
        await self._api.patch(PODS, intent.key.name, MergePatch(body), intent.key.namespace)
        return IntentDone(intent)

    async def _reserve(self, intent: ReserveNode) -> KarpenterOutcome:
        """Taint the node, then take the Leases: another scheduler does not see Leases on an untainted node."""
        note = msgspec.json.encode(intent.handover).decode()
        written = await self._edit_node(intent.node, intent.uid, lambda node: _closed(node, intent, note))
        if written is None:
            return IntentStale(intent, f"node {intent.node} is gone, or closed for another request")
        for one in intent.leases:
            if not one.devices:
                continue
            holder, want = LeaseHolder(one.pod.key, one.pod.uid), LeaseRequest(intent.node, one.devices, one.milli)
            answer = await self._leases.reserve(holder, want)
            if isinstance(answer, DeviceTaken):
                return IntentStale(intent, f"GPU {answer.device} of node {intent.node} is leased to {answer.by}")
        return IntentDone(intent)

    async def _delete(self, intent: DeleteSmartPod) -> KarpenterOutcome:
        how = Deletion(uid=intent.uid, grace_seconds=intent.grace_seconds)
        try:
            await self._api.delete(PODS, intent.key.name, intent.key.namespace, how=how)
            left = await self._api.get(PODS, intent.key.name, intent.key.namespace) if intent.again else None
        except (errors.NotFound, errors.Conflict):
            return IntentDone(intent, written=False)  # the pod is gone, or another one has its name
        if left is not None and left.metadata.uid == intent.uid:
            held = ", ".join(left.metadata.finalizers)
            return IntentFailed(intent, f"pod {intent.key} does not go: its finalizers are {held}")
        return IntentDone(intent)

    async def _admit(self, intent: AdmitWaitingPod) -> KarpenterOutcome:
        """Add the hand-over toleration to the pending pod. Kubernetes allows adding tolerations, not changing them."""
        ours = KubeToleration(key=HANDOVER, operator="Equal", value=intent.request, effect=NO_SCHEDULE)
        there = await self._waiting(intent.pod.key, intent.pod.uid)
        if there is None:
            return IntentStale(intent, f"pod {intent.pod.key} does not wait any more")
        if ours in there.spec.tolerations:
            return IntentDone(intent, written=False)
        added = {"key": HANDOVER, "operator": "Equal", "value": intent.request, "effect": NO_SCHEDULE}
        where = "/spec/tolerations/-" if there.spec.tolerations else "/spec/tolerations"
        value: object = added if there.spec.tolerations else [added]
        operations = (
            {"op": "test", "path": "/metadata/uid", "value": intent.pod.uid},
            {"op": "test", "path": "/metadata/resourceVersion", "value": there.metadata.resource_version},
            {"op": "add", "path": where, "value": value},
        )
        try:
            await self._api.patch(PODS, intent.pod.key.name, JsonPatch(operations), intent.pod.key.namespace)
        except errors.Invalid as error:  # a failed `test` operation: the pod was written meanwhile
            return IntentStale(intent, error.message)
        return IntentDone(intent)

    async def _clear(self, intent: ClearHandover) -> KarpenterOutcome:
        was_closed = False

        def opened(node: KubeNode) -> KubeNode:
            nonlocal was_closed
            was_closed = any(one.key == HANDOVER for one in node.spec.taints)
            return _opened(node, intent)

        if await self._edit_node(intent.node, intent.uid, opened) is None:
            return IntentStale(intent, f"node {intent.node} is gone, or another one")
        return IntentDone(intent, written=was_closed)

    async def _record_failure(self, intent: RecordFailure) -> KarpenterOutcome:
        text = None if intent.failure is None else msgspec.json.encode(intent.failure).decode()
        body = {"metadata": {"uid": intent.pod.uid, "annotations": {CAPACITY_FAILURE: text}}}
        await self._api.patch(PODS, intent.pod.key.name, MergePatch(body), intent.pod.key.namespace)
        now = write_time(self._clock.now())
        # For people alone: what is decided on is the annotation, so that a pod bound meanwhile needs no condition.
        await write_status(
            self._api,
            intent.pod.key,
            intent.pod.uid,
            lambda pod: _with_capacity_condition(pod, intent.failure, now),
            bound_too=intent.failure is None,
        )
        return IntentDone(intent)

    async def _mark(self, intent: MarkNodePool) -> KarpenterOutcome:
        """Set or remove our condition. Karpenter's own stay as they are."""
        there = await self._api.get(NODE_POOLS.whole(), intent.node_pool)
        if there["metadata"]["uid"] != intent.uid:
            return IntentStale(intent, f"NodePool {intent.node_pool} is another one")
        ours = [unprotected(intent.why, intent.generation, self._clock.now())] if intent.unprotected else []
        patch = conditions_patch(there, ours)
        if patch is None:
            return IntentDone(intent, written=False)
        await self._api.patch(NODE_POOLS, intent.node_pool, patch, subresource="status")
        return IntentDone(intent)

    async def _waiting(self, key: ObjectKey, uid: str) -> KubePod | None:
        there = await self._api.get(PODS, key.name, key.namespace)
        return there if there.metadata.uid == uid and not there.spec.node_name else None

    async def _edit_node(self, name: str, uid: str, change: Callable[[KubeNode], KubeNode | None]) -> KubeNode | None:
        """Edit the node of this uid. Returns it as written; None if the uid differs or `change` does not apply."""
        applies = True

        def changed(node: KubeNode) -> KubeNode:
            nonlocal applies
            new = change(node) if node.metadata.uid == uid else None
            applies = new is not None
            return node if new is None else new

        found = await edit(self._api, NODES, name, "", changed)
        return found if applies else None


async def make_namespace(api: KubeApi, name: str) -> None:
    """Make the namespace of smart pods. By its label `ullage uninstall` knows that it is no user's."""
    with suppress(errors.AlreadyExists):
        await api.create(NAMESPACES, {"metadata": {"name": name, "labels": {COMPONENT_LABEL: SMART_SCHEDULER}}})


def _with_capacity_condition(pod: KubePod, failure: RecordedFailure | None, now: str) -> KubePod:
    """The pod with the condition that says why Karpenter buys nothing for it; without one when it does again."""
    there = pod.status.conditions
    if failure is None:
        said = tuple(one for one in there if one.type != CAPACITY_CONDITION)
    else:
        before = conditions.found(there, CAPACITY_CONDITION)
        condition = Condition(
            type=CAPACITY_CONDITION,
            status="False",
            reason=failure.reason.value,
            message=failure.message,
            last_transition_time=conditions.since(before, "False", now),
        )
        said = conditions.put(there, condition)
    return replace(pod, status=replace(pod.status, conditions=said))


def _refused(intent: KarpenterIntent, error: errors.ApiError) -> KarpenterOutcome:
    """Outcome of a rejected write. A different uid is rejected as a change of an immutable field: that is stale."""
    if isinstance(error, errors.Invalid) and any(cause.field == "metadata.uid" for cause in error.causes):
        return IntentStale(intent, error.message)
    return IntentRejected(intent, error.message)


def _closed(node: KubeNode, intent: ReserveNode, note: str) -> KubeNode | None:
    request, known = intent.handover.request, read_handover_node(node).handover
    value = next((one.value for one in node.spec.taints if one.key == HANDOVER), None)
    is_under_way = known is not None and known.request == request
    if value not in (None, UNCLAIMED, request) and not is_under_way:
        return None
    taint = KubeTaint(key=HANDOVER, value=request, effect=NO_SCHEDULE)
    if value == request:
        taints = node.spec.taints
    else:
        taints = (*(one for one in node.spec.taints if one.key != HANDOVER), taint)
    notes = {**node.metadata.annotations, HANDOVER: note, DO_NOT_DISRUPT: "true"}
    return _with(node, taints, notes)


def _opened(node: KubeNode, intent: ClearHandover) -> KubeNode:
    dropped = (HANDOVER, DO_NOT_DISRUPT) if intent.drop_do_not_disrupt else (HANDOVER,)
    notes = {key: value for key, value in node.metadata.annotations.items() if key not in dropped}
    return _with(node, tuple(one for one in node.spec.taints if one.key != HANDOVER), notes)


def _with(node: KubeNode, taints: tuple[KubeTaint, ...], annotations: dict[str, str]) -> KubeNode:
    return msgspec.structs.replace(
        node,
        spec=msgspec.structs.replace(node.spec, taints=taints),
        metadata=msgspec.structs.replace(node.metadata, annotations=annotations),
    )
