"""Our own kinds on the wire to facts: claims, inventories, quotas; and PodGroups.

An object that breaks a rule raises `Unreadable` with its name and the field, whether it comes from an API server (which
would have refused it) or from a manifest (which has not been validated).
"""

from msgspec.structs import replace

from ullage.errors import Unreadable
from ullage.kube.crds.check import violations
from ullage.kube.objects.gpu import (
    CoschedulingPodGroup,
    GpuClaim,
    GpuClaimSpec,
    GpuClaimStatus,
    GpuDevice,
    GpuNodeStatus,
    GpuQuota,
    KubePodGroup,
)
from ullage.kube.objects.meta import ObjectMeta
from ullage.kube.timestamps import read_time
from ullage.kube.write.gpu import ALLOCATED, known_status
from ullage.model.claim import TEMPLATE, Claim, ClaimPhase, DevicePolicy, DeviceRequest, Exclusivity, TopologyMode
from ullage.model.device import MOST_DEVICES, Device, DeviceHealth, GpuNodeKind, Inventory, MigInstance
from ullage.model.fact_event import ObjectKey
from ullage.model.gang import PodGroup as GroupFacts
from ullage.model.quantity import milli
from ullage.model.quota import Quota, QuotaLimits
from ullage.model.units import Bytes, Seconds


def read_claim(raw: GpuClaim) -> Claim:
    """A claim's facts."""
    meta, spec, status = raw.metadata, raw.spec, raw.status
    if wrong := violations(spec, "spec"):
        raise Unreadable(f"GpuClaim {_name(meta)}: {'; '.join(map(str, wrong))}")
    template = meta.annotations.get(TEMPLATE, "")
    maker = next((one for one in meta.owner_references if one.controller and one.kind == "Pod"), None)
    try:
        claim = Claim(
            key=ObjectKey(meta.namespace, meta.name),
            uid=meta.uid,
            generation=meta.generation,
            ask=_ask(spec),
            node_labels=tuple(sorted(spec.selector.match_labels.items())),
            gang=spec.gang_ref,
            gang_min_member=spec.gang_min_member or 0,
            pool=spec.pool,
            template=template,
            pod=maker.name if maker is not None and template else "",
            pod_uid=maker.uid if maker is not None and template else "",
            phase=ClaimPhase(status.phase or ClaimPhase.PENDING),
            node=status.node_name,
            gpu_ids=status.gpu_ids,
            resource_version=meta.resource_version,
            deleting=meta.deletion_timestamp is not None,
            finalizers=meta.finalizers,
        )
    except ValueError as error:
        raise Unreadable(f"GpuClaim {_name(meta)}: status.phase: {error}") from error
    return claim if status == _NEVER_WRITTEN else _as_said(claim, status)


_NEVER_WRITTEN = GpuClaimStatus()


def _as_said(claim: Claim, status: GpuClaimStatus) -> Claim:
    """Return the claim with the reason of its phase. Opaque if its status cannot be rebuilt from the facts."""
    own = next((one for one in status.conditions if one.type == ALLOCATED), None)
    if own is None:
        return replace(claim, opaque=True)
    try:
        since = read_time(own.last_transition_time)
    except ValueError:
        since = read_time(None)
    said = replace(claim, word=own.reason, message=status.message, observed=status.observed_generation, since=since)
    alone = replace(status, conditions=(own,))
    if known_status(said) != alone:
        return replace(claim, opaque=True)
    return said if alone == status else replace(said, opaque=True)


def _ask(spec: GpuClaimSpec) -> DeviceRequest:
    devices = spec.devices
    return DeviceRequest(
        count=devices.count,
        policy=DevicePolicy(devices.policy),
        prefer_ids=tuple(sorted(devices.prefer_ids)),
        exclusivity=Exclusivity(devices.exclusivity),
        model=devices.model,
        memory=Bytes(read_bytes(devices.memory or 0)),
        tflops=devices.tflops or 0,
        topology=TopologyMode(spec.topology.mode),
        min_bandwidth=spec.topology.min_bandwidth,
    )


def read_bytes(text: str | int) -> int:
    """A quantity in whole bytes, rounded up. Raises ValueError with the text in it."""
    return -(-milli(text) // 1000)


def read_inventory(raw: GpuNodeStatus) -> Inventory:
    """Read the inventory of a node, devices by id. Without a report it is dated at the epoch, thus too old."""
    meta, status = raw.metadata, raw.status
    try:
        if meta.name != raw.spec.node_name:
            raise ValueError(f"spec.nodeName is {raw.spec.node_name!r} and must be the name of the object")
        devices = tuple(sorted((_device(one) for one in status.devices), key=lambda device: device.id))
        if len({device.id for device in devices}) != len(devices):
            raise ValueError("status.devices: two GPUs have the same id")
        return Inventory(
            node=raw.spec.node_name,
            reported_at=(dated := read_time(status.observed_at)),
            dated=dated,
            devices=devices,
            kind=GpuNodeKind(status.kind or GpuNodeKind.LEASED),
        )
    except ValueError as error:
        raise Unreadable(f"GpuNodeStatus {meta.name}: {error}") from error


def _device(raw: GpuDevice) -> Device:
    """Read a device. Checked in code and not by `violations`, for speed: every node reports every half a minute."""
    if not 0 <= raw.id < MOST_DEVICES:
        raise ValueError(f"status.devices: id {raw.id} is not between 0 and {MOST_DEVICES - 1}")
    return Device(
        id=raw.id,
        uuid=raw.uuid,
        model=raw.model,
        memory=Bytes(read_bytes(raw.memory)),
        health=DeviceHealth(raw.health),
        island=raw.island,
        bandwidth=raw.bandwidth,
        peers=tuple(sorted(raw.peers)),
        in_use_by=raw.in_use_by,
        mig=tuple(MigInstance(one.uuid, one.profile, Bytes(read_bytes(one.memory))) for one in raw.mig),
    )


def read_quota(raw: GpuQuota) -> Quota:
    """A quota's facts."""
    meta, spec = raw.metadata, raw.spec
    if wrong := violations(spec, "spec"):
        raise Unreadable(f"GpuQuota {_name(meta)}: {'; '.join(map(str, wrong))}")
    limits = QuotaLimits(gpus=spec.gpus, by_model=tuple(sorted(spec.by_model.items())), shares=spec.shares)
    return Quota(key=ObjectKey(meta.namespace, meta.name), uid=meta.uid, generation=meta.generation, limits=limits)


def _name(meta: ObjectMeta) -> str:
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


def read_group(raw: CoschedulingPodGroup) -> GroupFacts:
    """A gang's facts."""
    spec, seconds = raw.spec, raw.spec.schedule_timeout_seconds
    key = ObjectKey(raw.metadata.namespace, raw.metadata.name)
    return GroupFacts(key=key, min_member=spec.min_member, timeout=None if seconds is None else Seconds(float(seconds)))


def read_kube_group(raw: KubePodGroup) -> GroupFacts:
    """Read a gang's facts from Kubernetes' own kind. Without a gang policy, each pod is placed alone."""
    gang = raw.spec.scheduling_policy.gang
    key = ObjectKey(raw.metadata.namespace, raw.metadata.name)
    return GroupFacts(key=key, min_member=1 if gang is None else gang.min_count)
