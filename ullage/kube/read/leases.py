"""GPU Leases and the pods that hold them: format of the holds, and readers.

A whole GPU has its holder in the spec. A GPU held in parts has the holder `shared`, and two annotations: shares by pod
uid, and MIG instances, each with the one pod it is leased to. Changed by compare-and-swap, so no part has two holders.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from ullage.errors import Unreadable
from ullage.kube.client.api import ListSelector
from ullage.kube.objects.meta import ObjectMeta
from ullage.kube.objects.pod import KubePod
from ullage.kube.objects.policy import Lease, LeaseSpec
from ullage.kube.timestamps import read_time
from ullage.model.allocation import (
    ALLOCATED,
    SHARE,
    VISIBLE_DEVICES,
    Allocation,
    given_instances,
    lease_name,
    parse_allocation,
)
from ullage.model.device import MILLI_GPU
from ullage.model.fact_event import ObjectKey
from ullage.model.lease import GpuLease, HolderPod, LeaseHold
from ullage.model.pod import Phase
from ullage.model.units import Milli

MANAGED = "gpu.scheduling/managed"
OUR_LEASES = ListSelector(labels=f"{MANAGED}=true")
"""Selector of GPU Leases among other Leases of their namespace."""
OTHER_LEASES = ListSelector(labels=f"{MANAGED}!=true")
"""Selector of the other Leases of that namespace: elections."""
NODE = "gpu.scheduling/node"
DEVICE = "gpu.scheduling/device"
POD = "gpu.scheduling/pod"
SHARES = "gpu.scheduling/shares"
INSTANCES = "gpu.scheduling/instances"
"""Annotation: uid of the holding pod, by UUID of the MIG instance."""
STAMPS = "gpu.scheduling/share-stamps"
"""Annotation: number of the write of each part. The Lease's resourceVersion changes with every other part's writes."""
SHARED_HOLDER = "shared"

_numbers = msgspec.json.Decoder(dict[str, int]).decode
_texts = msgspec.json.Decoder(dict[str, str]).decode


def new_lease(namespace: str, place: Allocation, holder: str, now: str, pod: ObjectKey | None = None) -> Lease:
    """The Lease of one device, not yet written. `pod` where it is held whole."""
    (device,) = place.devices
    notes = {NODE: place.node, DEVICE: str(device)} | ({} if pod is None else {POD: str(pod)})
    name = lease_name(place.node, device)
    return Lease(
        metadata=ObjectMeta(name=name, namespace=namespace, labels={MANAGED: "true"}, annotations=notes),
        spec=LeaseSpec(holder_identity=holder, acquire_time=now, renew_time=now, lease_transitions=0),
    )


def parts_of(lease: Lease) -> tuple[LeaseHold, ...]:
    """Read the holds of a shared Lease: shares by uid, then MIG instances by UUID. Raises Unreadable."""
    notes = lease.metadata.annotations
    try:
        shares, instances = _numbers(notes.get(SHARES, "{}")), _texts(notes.get(INSTANCES, "{}"))
    except msgspec.DecodeError as error:
        raise Unreadable(f"lease {lease.metadata.name}: who holds parts of it: {error}") from error
    if any(milli < 0 for milli in shares.values()):
        raise Unreadable(f"lease {lease.metadata.name}: annotation {SHARES} has a share below 0")
    return (
        *(LeaseHold(uid, Milli(milli)) for uid, milli in sorted(shares.items()) if milli),
        *(LeaseHold(uid, Milli(0), uuid) for uuid, uid in sorted(instances.items())),
    )


def stamps_of(lease: Lease) -> dict[str, int]:
    """Read the number of the write of each part. Raises Unreadable."""
    try:
        return _numbers(lease.metadata.annotations.get(STAMPS, "{}"))
    except msgspec.DecodeError as error:
        raise Unreadable(f"lease {lease.metadata.name}: annotation {STAMPS}: {error}") from error


def kept_from(lease: Lease, wanted: Collection[LeaseHold]) -> str | None:
    """Return the holder that conflicts with these holds; None if they can be written.

    Holds of the same pod do not conflict: they will be replaced.
    """
    if lease.spec.holder_identity != SHARED_HOLDER:
        return lease.spec.holder_identity or ""
    uids = {hold.uid for hold in wanted}
    others = [hold for hold in parts_of(lease) if hold.uid not in uids]
    instances = {hold.instance for hold in wanted if hold.instance}
    if instances:
        # A partitioned GPU has no shares: a hold of one is older than the partitioning.
        rivals = [hold.uid for hold in others if hold.instance in instances or hold.milli]
        return rivals[0] if rivals else None
    whole = any(hold.instance for hold in others)
    full = sum(hold.milli for hold in (*others, *wanted)) > MILLI_GPU
    return SHARED_HOLDER if whole or full else None


def with_parts(lease: Lease, added: Iterable[LeaseHold] = (), without: Collection[str] = ()) -> Lease:
    """Return the Lease with `added` holds, stamped with this write, and without the parts in `without`."""
    parts = {hold.part: hold for hold in parts_of(lease) if hold.part not in without}
    stamps = {part: stamp for part, stamp in stamps_of(lease).items() if part in parts}
    for hold in added:
        parts[hold.part] = hold
        stamps[hold.part] = lease.spec.lease_transitions or 0
    notes = {**lease.metadata.annotations, **written_parts(parts.values()), STAMPS: _write(stamps)}
    return msgspec.structs.replace(lease, metadata=msgspec.structs.replace(lease.metadata, annotations=notes))


def written_parts(holds: Iterable[LeaseHold]) -> dict[str, str]:
    """Return the two annotations with the holders of parts."""
    held = list(holds)
    shares = {hold.uid: hold.milli for hold in held if not hold.instance}
    instances = {hold.instance: hold.uid for hold in held if hold.instance}
    return {SHARES: _write(shares), INSTANCES: _write(instances)}


def renewed(lease: Lease, now: str) -> Lease:
    """Return the Lease with the next write number and renewTime."""
    transitions = (lease.spec.lease_transitions or 0) + 1
    spec = msgspec.structs.replace(lease.spec, renew_time=now, lease_transitions=transitions)
    return msgspec.structs.replace(lease, spec=spec)


def read_gpu_lease(raw: Lease) -> GpuLease:
    """A Lease's facts. Raises Unreadable."""
    meta, spec = raw.metadata, raw.spec
    holder, shared = spec.holder_identity or "", spec.holder_identity == SHARED_HOLDER
    try:
        return GpuLease(
            name=meta.name,
            node=meta.annotations[NODE],
            device=int(meta.annotations[DEVICE]),
            holds=parts_of(raw) if shared else (LeaseHold(holder),),
            shared=shared,
            renewed=read_time(spec.renew_time),
            resource_version=meta.resource_version,
            pod=None if shared else _key(meta.annotations.get(POD, "")),
        )
    except (KeyError, ValueError) as error:
        raise Unreadable(f"lease {meta.name}: {error}") from error


def read_holder(raw: KubePod) -> HolderPod:
    """Read the facts of a pod that matter to its holds. Never fails: a malformed allocation reads as unreadable."""
    meta, node = raw.metadata, raw.spec.node_name
    notes = meta.annotations
    return HolderPod(
        key=ObjectKey(meta.namespace, meta.name),
        uid=meta.uid,
        resource_version=meta.resource_version,
        node=node,
        over=raw.status.phase in (Phase.SUCCEEDED, Phase.FAILED),
        devices=_devices(notes.get(ALLOCATED, ""), node),
        instances=given_instances(notes.get(VISIBLE_DEVICES, ""), notes.get(SHARE, "")) if node else (),
    )


def _devices(written: str, node: str) -> tuple[int, ...] | None:
    if not written or not node:
        return ()
    try:
        allocation = parse_allocation(written)
    except ValueError:
        return None
    return allocation.devices if allocation.node == node else None


def _key(text: str) -> ObjectKey | None:
    namespace, slash, name = text.partition("/")
    return ObjectKey(namespace, name) if slash and namespace and name else None


def _write(said: Mapping[str, int] | Mapping[str, str]) -> str:
    return msgspec.json.encode(dict(sorted(said.items()))).decode()
