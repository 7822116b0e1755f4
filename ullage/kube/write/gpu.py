"""Facts to our own kinds on the wire: the statuses we keep, and the patches that write them.

Everything here makes bodies; sending them is the caller's. A status is always written whole: what it no longer says is
taken away, by leaving it out of an apply or by a null in a merge patch.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ullage.clock import Instant
from ullage.kube.client.api import Apply, MergePatch
from ullage.kube.client.json_codec import to_json
from ullage.kube.client.resource import JsonObject
from ullage.kube.objects.gpu import (
    GpuClaim,
    GpuClaimSpec,
    GpuClaimStatus,
    GpuDevice,
    GpuNodeReport,
    GpuQuotaStatus,
    KubeMigInstance,
    QuotaUse,
)
from ullage.kube.objects.meta import Condition, ObjectMeta
from ullage.kube.objects.provisioner import NodeProvisionerStatus
from ullage.kube.timestamps import write_time
from ullage.model.claim import PROTECTION, TEMPLATE, Claim, ClaimPhase, copy_key
from ullage.model.claim_status import LONGEST_MESSAGE
from ullage.model.device import Device, DeviceHealth, Inventory
from ullage.model.fact_event import ObjectKey
from ullage.model.quota import QuotaUsage

ALLOCATED = "Allocated"
"""A claim's condition: it holds all that it asks for."""
READY = "Ready"
"""A node status' condition: the agent could read the GPUs."""
EXHAUSTED = "Exhausted"
"""A quota's condition: a claim has been refused because of it."""

_HOLDS = (ClaimPhase.RESERVED, ClaimPhase.BOUND)
_SUFFIXES = (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))
_LONGEST_LABEL = 63


@dataclass(frozen=True, slots=True)
class ConditionSpec:
    """Condition without its time and generation, which the writer of the status adds."""

    type: str
    holds: bool | None
    """Status of the condition; None is Unknown."""
    reason: str
    message: str = ""


def with_aspect(
    conditions: Sequence[Condition], aspect: ConditionSpec, *, generation: int, now: Instant
) -> tuple[Condition, ...]:
    """The conditions with this one put in, sorted by type. Its time moves only when its status does."""
    status = {True: "True", False: "False", None: "Unknown"}[aspect.holds]
    before = next((one for one in conditions if one.type == aspect.type), None)
    since = before.last_transition_time if before is not None and before.status == status else None
    written = Condition(
        type=aspect.type,
        status=status,
        reason=aspect.reason,
        message=aspect.message,
        observed_generation=generation,
        last_transition_time=since or write_time(now),
    )
    others = [one for one in conditions if one.type != aspect.type]
    return tuple(sorted((*others, written), key=lambda one: one.type))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimStatusFields:
    """Outcome of a claim. `reason` is a Reason of `model.verdict` where the claim was refused, else the phase."""

    phase: ClaimPhase
    node: str = ""
    gpu_ids: tuple[int, ...] = ()
    reason: str = ""
    message: str = ""


def claim_status(
    before: GpuClaimStatus, outcome: ClaimStatusFields, *, generation: int, now: Instant
) -> GpuClaimStatus:
    """A claim's whole status. GPUs are named only while they are held, and where they are known: a device plugin tells
    nobody. Conditions of others are kept."""
    holds = outcome.phase in _HOLDS
    ids = tuple(sorted(outcome.gpu_ids)) if holds else ()
    message = outcome.message[:LONGEST_MESSAGE]
    aspect = ConditionSpec(ALLOCATED, holds, outcome.reason or outcome.phase.value, message)
    return GpuClaimStatus(
        phase=outcome.phase.value,
        node_name=outcome.node if holds else "",
        gpu_ids=ids,
        allocated=allocated_text(outcome.node, ids) if ids else "",
        message=message,
        conditions=with_aspect(before.conditions, aspect, generation=generation, now=now),
        observed_generation=generation,
    )


def known_claim(claim: Claim) -> GpuClaim | None:
    """The claim as it was read, without its spec: enough to write its status. None where it has to be read again."""
    if claim.opaque or not claim.resource_version:
        return None
    meta = ObjectMeta(
        name=claim.key.name,
        namespace=claim.key.namespace,
        uid=claim.uid,
        generation=claim.generation,
        resource_version=claim.resource_version,
    )
    return GpuClaim(metadata=meta, spec=GpuClaimSpec(), status=known_status(claim))


def known_status(claim: Claim) -> GpuClaimStatus:
    """Rebuild the status that a claim's facts were read from; empty if the facts do not hold all of it."""
    if not claim.word:
        return GpuClaimStatus()
    outcome = ClaimStatusFields(
        phase=claim.phase, node=claim.node, gpu_ids=claim.gpu_ids, reason=claim.word, message=claim.message
    )
    return claim_status(GpuClaimStatus(), outcome, generation=claim.observed, now=Instant(claim.since))


def claim_copy(template: str, spec: JsonObject, pod: ObjectKey, uid: str) -> JsonObject:
    """Body of the claim that is copied from a template for one pod. The pod owns it."""
    key = copy_key(pod, uid)
    # A name may be too long for a label; who looks for the copies of a template finds those of the others.
    labels = {"labels": {TEMPLATE: template}} if len(template) <= _LONGEST_LABEL else {}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": uid}
    meta: JsonObject = {
        "name": key.name,
        "namespace": key.namespace,
        "annotations": {TEMPLATE: template},
        "ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": False}],
        "finalizers": [PROTECTION],
    }
    return {"metadata": meta | labels, "spec": spec}


def allocated_text(node: str, gpu_ids: Iterable[int]) -> str:
    """Node and GPUs in one word: `node-a:0,1`."""
    return f"{node}:{','.join(str(one) for one in sorted(gpu_ids))}"


def read_allocated(text: str) -> tuple[str, tuple[int, ...]]:
    """Node and GPUs out of one word. Raises ValueError with the text in it."""
    node, colon, ids = text.rpartition(":")
    if not node or not colon or not all(one.isdecimal() for one in ids.split(",")):
        raise ValueError(f"{text!r} is not an allocation: expected a node and GPU ids, such as node-a:0,1")
    return node, tuple(int(one) for one in ids.split(","))


def node_report(inventory: Inventory, *, conditions: Sequence[Condition] = ()) -> GpuNodeReport:
    """A node's whole status."""
    devices = sorted(inventory.devices, key=lambda device: device.id)
    return GpuNodeReport(
        total=len(devices),
        healthy=sum(device.health is DeviceHealth.HEALTHY for device in devices),
        observed_at=write_time(Instant(inventory.reported_at)),
        kind=inventory.kind.value,
        devices=tuple(_device(device) for device in devices),
        conditions=tuple(conditions),
    )


def _device(device: Device) -> GpuDevice:
    return GpuDevice(
        id=device.id,
        uuid=device.uuid,
        model=device.model,
        memory=write_bytes(device.memory),
        health=device.health.value,
        island=device.island,
        bandwidth=device.bandwidth,
        peers=device.peers,
        in_use_by=device.in_use_by,
        mig=tuple(KubeMigInstance(uuid=m.uuid, profile=m.profile, memory=write_bytes(m.memory)) for m in device.mig),
    )


def write_bytes(amount: int) -> str:
    """Bytes as people write them, exactly: `81559Mi`."""
    for suffix, size in _SUFFIXES:
        if amount and amount % size == 0:
            return f"{amount // size}{suffix}"
    return str(amount)


def quota_status(
    before: GpuQuotaStatus, used: QuotaUsage, exhausted: ConditionSpec, *, generation: int, now: Instant
) -> GpuQuotaStatus:
    """A quota's whole status."""
    return GpuQuotaStatus(
        used=QuotaUse(gpus=used.gpus, by_model=dict(used.by_model), shares=used.shares),
        conditions=with_aspect(before.conditions, exhausted, generation=generation, now=now),
        observed_generation=generation,
    )


Status = GpuClaimStatus | GpuNodeReport | GpuQuotaStatus | NodeProvisionerStatus


def apply_node(node: str, manager: str) -> Apply:
    """Makes a node's GpuNodeStatus if there is none. Its status is another write."""
    return Apply({"metadata": {"name": node}, "spec": {"nodeName": node}}, manager)


def apply_status(meta: ObjectMeta, status: Status, manager: str) -> Apply:
    """For `subresource="status"`: these fields are the manager's, and those it no longer names go.

    Conditions are owned one by one: name only the manager's own. Conditional on the resourceVersion if `meta` has one.
    """
    return Apply({"metadata": _address(meta), "status": to_json(status)}, manager)


def patch_status(meta: ObjectMeta, before: Status, after: Status) -> MergePatch | None:
    """For `subresource="status"`: only what differs, None where nothing does. Cheaper for the server than an apply.

    Conditional on the resourceVersion if `meta` has one.
    """
    if before == after:
        return None
    changed = _difference(to_json(before), to_json(after))
    return MergePatch({"metadata": _address(meta), "status": changed}) if changed else None


def _address(meta: ObjectMeta) -> JsonObject:
    """No uid: writes to the status of a custom kind do not look at it. The resourceVersion tells objects apart, too."""
    known = {"name": meta.name, "namespace": meta.namespace, "resourceVersion": meta.resource_version}
    return {key: value for key, value in known.items() if value}


def _difference(before: JsonObject, after: JsonObject) -> JsonObject:
    """The merge patch from one to the other."""
    gone: JsonObject = dict.fromkeys(key for key in before if key not in after)
    return gone | {key: _changed(before.get(key), new) for key, new in after.items() if before.get(key) != new}


def _changed(old: Any, new: Any) -> Any:
    return _difference(old, new) if isinstance(old, dict) and isinstance(new, dict) else new
