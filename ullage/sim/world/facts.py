"""What observers of a simulated world need to know of its objects: read from stored JSON, small and quick.

Nothing of the code that is being observed is used to read it, except the names of things.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ullage.act.leases import DEVICE, MANAGED, NODE, SHARED_HOLDER, SHARES
from ullage.kube.moment import read_time
from ullage.kube.resource import JsonObject
from ullage.model.allocation import ALLOCATED, CLAIM, CLAIM_TEMPLATE, SHARE
from ullage.model.device import MILLI_GPU
from ullage.model.event import ObjectKey
from ullage.model.provisioner import DELETION_TAINT, PROVISIONER_LABEL, STAY_BEHIND
from ullage.model.resources import GPU
from ullage.sim.world.nodes import PRICE

Strings = Mapping[str, str]
_NOTHING: JsonObject = {}
_shares = msgspec.json.Decoder(dict[str, int]).decode


@dataclass(frozen=True, slots=True)
class PodNow:
    """A pod as it is stored."""

    key: ObjectKey
    uid: str
    node: str
    phase: str
    reason: str
    """Why it failed, in the kubelet's word."""
    leaves_by: float | None
    """When it has to be gone, if it was told to go."""
    gpus: int
    """Whole ones it requests."""
    devices: tuple[int, ...]
    milli: int
    """Of each of its devices."""
    claim: str
    template: str
    stays_behind: bool
    """It goes with its node, and nobody misses it."""
    disrupted: str
    """Who made it go, in a word."""
    ready: bool
    labels: Strings

    @property
    def over(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def holds(self) -> bool:
        """It has room on a node."""
        return bool(self.node) and not self.over

    @property
    def gpu_milli(self) -> int:
        """What it has of GPUs: the devices it was given, or where a device plugin chooses, as many as it requests."""
        return len(self.devices) * self.milli if self.devices else self.gpus * MILLI_GPU


@dataclass(frozen=True, slots=True)
class NodeNow:
    """A node as it is stored."""

    name: str
    uid: str
    pool: str
    gpus: int
    price: int
    """Millionths per hour."""
    doomed: bool
    taints: tuple[tuple[str, str, str], ...]
    """Key, value, effect."""


@dataclass(frozen=True, slots=True)
class LeaseNow:
    """A GPU's Lease as it is stored."""

    name: str
    node: str
    device: int
    holders: Mapping[str, int]
    """Thousandths by pod uid."""


def read_pod(obj: JsonObject) -> PodNow:
    meta, spec, status = obj["metadata"], obj["spec"], obj.get("status") or _NOTHING
    notes = meta.get("annotations") or _NOTHING
    deleted = meta.get("deletionTimestamp")
    return PodNow(
        key=ObjectKey(meta["namespace"], meta["name"]),
        uid=meta["uid"],
        node=spec.get("nodeName", ""),
        phase=status.get("phase", ""),
        reason=status.get("reason", ""),
        leaves_by=read_time(deleted) if deleted else None,
        gpus=_gpus(spec),
        devices=_devices(notes.get(ALLOCATED, "")),
        milli=int(notes.get(SHARE, MILLI_GPU)),
        claim=notes.get(CLAIM, ""),
        template=notes.get(CLAIM_TEMPLATE, ""),
        stays_behind=any(
            one.get("controller") and one["kind"] in STAY_BEHIND for one in meta.get("ownerReferences") or ()
        ),
        disrupted=_disrupted(status),
        ready=any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ()),
        labels=meta.get("labels") or _NOTHING,
    )


def _gpus(spec: JsonObject) -> int:
    total = 0
    for container in spec["containers"]:
        requests = (container.get("resources") or _NOTHING).get("requests") or _NOTHING
        total += int(requests.get(GPU, 0))
    return total


def _devices(allocated: str) -> tuple[int, ...]:
    _, colon, ids = allocated.rpartition(":")
    return tuple(int(one) for one in ids.split(",") if one) if colon else ()


def _disrupted(status: JsonObject) -> str:
    for one in status.get("conditions") or ():
        if one["type"] == "DisruptionTarget" and one["status"] == "True":
            return str(one.get("reason", ""))
    return ""


def read_node(obj: JsonObject) -> NodeNow:
    meta, spec, status = obj["metadata"], obj.get("spec") or _NOTHING, obj.get("status") or _NOTHING
    labels, notes = meta.get("labels") or _NOTHING, meta.get("annotations") or _NOTHING
    taints = tuple((one["key"], one.get("value", ""), one["effect"]) for one in spec.get("taints") or ())
    return NodeNow(
        name=meta["name"],
        uid=meta["uid"],
        pool=labels.get(PROVISIONER_LABEL, ""),
        gpus=int((status.get("capacity") or _NOTHING).get(GPU, 0)),
        price=int(notes.get(PRICE, 0)),
        doomed=any(key == DELETION_TAINT for key, _, _ in taints),
        taints=taints,
    )


def read_lease(obj: JsonObject) -> LeaseNow | None:
    """None for Leases that are of no GPU."""
    meta, spec = obj["metadata"], obj.get("spec") or _NOTHING
    if (meta.get("labels") or _NOTHING).get(MANAGED) != "true":
        return None
    notes = meta.get("annotations") or _NOTHING
    holder = spec.get("holderIdentity") or ""
    holders = _shares(notes.get(SHARES, "{}")) if holder == SHARED_HOLDER else {holder: MILLI_GPU}
    return LeaseNow(meta["name"], notes[NODE], int(notes[DEVICE]), holders)


def claim_count(spec: JsonObject) -> tuple[int, bool]:
    """How many GPUs a claim is about, and whether only a part of each."""
    devices: dict[str, Any] = spec.get("devices") or _NOTHING
    return int(devices.get("count", 1)), devices.get("exclusivity", "Exclusive") != "Exclusive"
