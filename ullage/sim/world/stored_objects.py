"""Objects of a simulated world as observers need them: read from stored JSON, small and quick.

Uses nothing of the observed code except names. A recorded cluster may hold anything that a user can write: what makes
no sense counts as not written, and ends no simulation.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from ullage.kube.client.resource import JsonObject
from ullage.kube.read.leases import DEVICE, INSTANCES, MANAGED, NODE, SHARED_HOLDER, SHARES
from ullage.kube.timestamps import read_time
from ullage.model.allocation import ALLOCATED, CLAIM, CLAIM_TEMPLATE, SHARE, VISIBLE_DEVICES
from ullage.model.device import MILLI_GPU
from ullage.model.fact_event import ObjectKey
from ullage.model.karpenter import DO_NOT_DISRUPT
from ullage.model.provisioner import DELETION_TAINT, PROVISIONER_LABEL, STAY_BEHIND
from ullage.model.quantity import milli
from ullage.model.resources import GPU
from ullage.sim.world.nodes import MODEL_LABEL, PRICE

Strings = Mapping[str, str]
_NOTHING: JsonObject = {}
_shares = msgspec.json.Decoder(dict[str, int]).decode
_uids = msgspec.json.Decoder(dict[str, str]).decode
_VISIBLE = "NVIDIA_VISIBLE_DEVICES"
_NO_UUIDS = ("", "all", "none", "void")
_MOST_DIGITS = 18

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class StoredPod:
    """A pod as it is stored."""

    key: ObjectKey
    uid: str
    node: str
    phase: str
    reason: str
    """Reason of the failure, as set by the kubelet."""
    leaves_by: float | None
    """Time by which it has to be gone, if it is being deleted."""
    gpus: int
    """Whole GPUs it requests."""
    devices: tuple[int, ...]
    milli: int
    """Thousandths of each of its devices; 0 if it has MIG instances."""
    sees: tuple[str, ...]
    """UUIDs of the GPUs and MIG instances its containers see: by its annotation, or by their own environment."""
    claim: str
    template: str
    owner: str
    """Uid of its controller; empty without one."""
    stays_behind: bool
    """True if it is deleted with its node and needs no replacement, as DaemonSet and static pods."""
    disrupted: str
    """Reason of its DisruptionTarget condition; empty without one."""
    ready: bool
    labels: Strings

    @property
    def over(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def holds(self) -> bool:
        """True if it occupies room on a node."""
        return bool(self.node) and not self.over

    @property
    def gpu_milli(self) -> int:
        """GPUs it has, in thousandths: its allocated devices, or the number it requests if a device plugin chooses."""
        return len(self.devices) * self.milli if self.devices else self.gpus * MILLI_GPU


@dataclass(frozen=True, slots=True)
class StoredNode:
    """A node as it is stored."""

    name: str
    uid: str
    pool: str
    gpus: int
    model: str
    """GPU model by its label; empty without one."""
    price: int
    """Millionths per hour; 0 if it is not stated."""
    marked_for_deletion: bool
    taints: tuple[tuple[str, str, str], ...]
    """Key, value, effect."""
    labels: Strings
    kept: bool
    """True if Karpenter is asked not to disrupt it."""


@dataclass(frozen=True, slots=True)
class StoredLease:
    """A GPU's Lease as it is stored."""

    name: str
    node: str
    device: int
    holders: Mapping[str, int]
    """Thousandths by pod uid; 0 for holders of MIG instances only."""
    instances: Mapping[str, str]
    """Uid of the holder, by MIG instance."""


def read_pod(obj: JsonObject) -> StoredPod:
    meta, spec, status = obj["metadata"], obj["spec"], obj.get("status") or _NOTHING
    notes = meta.get("annotations") or _NOTHING
    deleted = meta.get("deletionTimestamp")
    owner = next((one for one in meta.get("ownerReferences") or () if one.get("controller")), _NOTHING)
    return StoredPod(
        key=ObjectKey(meta["namespace"], meta["name"]),
        uid=meta["uid"],
        node=spec.get("nodeName", ""),
        phase=status.get("phase", ""),
        reason=status.get("reason", ""),
        leaves_by=read_time(deleted) if deleted else None,
        gpus=_gpus(spec),
        devices=_devices(notes.get(ALLOCATED, "")),
        milli=_share(notes.get(SHARE, ""), notes.get(VISIBLE_DEVICES, "")),
        sees=_sees(spec, notes.get(VISIBLE_DEVICES, "")),
        claim=notes.get(CLAIM, ""),
        template=notes.get(CLAIM_TEMPLATE, ""),
        owner=owner.get("uid", ""),
        stays_behind=owner.get("kind") in STAY_BEHIND,
        disrupted=_disrupted(status),
        ready=any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ()),
        labels=meta.get("labels") or _NOTHING,
    )


def _gpus(spec: JsonObject) -> int:
    total = 0
    for container in spec["containers"]:
        requests = (container.get("resources") or _NOTHING).get("requests") or _NOTHING
        total += _count(requests)
    return total


def _sees(spec: JsonObject, noted: str) -> tuple[str, ...]:
    """UUIDs, sorted and unique: those of the annotation, and those in literal lists of containers' environments."""
    seen = {uuid for uuid in noted.split(",") if uuid}
    for container in spec["containers"]:
        for variable in container.get("env") or ():
            if variable["name"] == _VISIBLE and variable.get("value"):
                seen |= {uuid for uuid in variable["value"].split(",") if uuid not in _NO_UUIDS}
    return tuple(sorted(seen))


def _devices(allocated: str) -> tuple[int, ...]:
    _, colon, ids = allocated.rpartition(":")
    written = ids.split(",") if colon else []
    devices = tuple(device for one in written if (device := _number(one)) is not None)
    return devices if len(devices) == len(written) else ()


def _share(noted: str, visible: str) -> int:
    """Thousandths of each GPU; 0 only beside MIG instances, the whole GPU where nothing sensible is noted."""
    share = _number(noted)
    if share == 0 and visible.strip(","):
        return 0
    return min(share or MILLI_GPU, MILLI_GPU)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def _count(resources: Strings) -> int:
    """Whole GPUs, written as any quantity."""
    return milli(resources.get(GPU, "0")) // 1000


def _disrupted(status: JsonObject) -> str:
    for one in status.get("conditions") or ():
        if one["type"] == "DisruptionTarget" and one["status"] == "True":
            return str(one.get("reason", ""))
    return ""


def read_node(obj: JsonObject) -> StoredNode:
    meta, spec, status = obj["metadata"], obj.get("spec") or _NOTHING, obj.get("status") or _NOTHING
    labels, notes = meta.get("labels") or _NOTHING, meta.get("annotations") or _NOTHING
    taints = tuple((one["key"], one.get("value", ""), one["effect"]) for one in spec.get("taints") or ())
    return StoredNode(
        name=meta["name"],
        uid=meta["uid"],
        pool=labels.get(PROVISIONER_LABEL, ""),
        gpus=_count(status.get("capacity") or _NOTHING),
        model=labels.get(MODEL_LABEL, ""),
        price=_number(notes.get(PRICE, "0")) or 0,
        marked_for_deletion=any(key == DELETION_TAINT for key, _, _ in taints),
        taints=taints,
        labels=labels,
        kept=notes.get(DO_NOT_DISRUPT) == "true",
    )


def read_lease(obj: JsonObject) -> StoredLease | None:
    """Lease of a GPU; None for other Leases, and where no GPU can be told from it."""
    meta, spec = obj["metadata"], obj.get("spec") or _NOTHING
    if (meta.get("labels") or _NOTHING).get(MANAGED) != "true":
        return None
    notes = meta.get("annotations") or _NOTHING
    holder = spec.get("holderIdentity") or ""
    device = _number(notes.get(DEVICE, ""))
    if device is None or NODE not in notes:
        return None
    instances: dict[str, str] = {}
    holders: dict[str, int] = {holder: MILLI_GPU}
    if holder == SHARED_HOLDER:
        instances = _noted(notes, INSTANCES, _uids)
        holders = dict.fromkeys(instances.values(), 0) | _noted(notes, SHARES, _shares)
    return StoredLease(meta["name"], notes[NODE], device, holders, instances)


def _noted(notes: Strings, name: str, decode: Callable[[str], dict[str, V]]) -> dict[str, V]:
    try:
        return decode(notes.get(name, "{}"))
    except msgspec.DecodeError:
        return {}


def claim_count(spec: JsonObject) -> tuple[int, bool]:
    """Number of GPUs a claim requests, and whether only a part of each."""
    devices: dict[str, Any] = spec.get("devices") or _NOTHING
    return int(devices.get("count", 1)), devices.get("exclusivity", "Exclusive") != "Exclusive"
