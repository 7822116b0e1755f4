"""Judge of GPU exclusivity: pods and Leases as the API serves them, change by change. Pure; imports nothing of ours.

What the product believes does not count here: only what a container would see. A pod's containers see the GPUs that
their variable NVIDIA_VISIBLE_DEVICES names, by value or by an annotation; without it, those of our annotation.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

ALLOCATED = "gpu.scheduling/allocated"
VISIBLE = "gpu.scheduling/visible-devices"
SHARE = "gpu.scheduling/share-milli"
LEASE_NODE, LEASE_DEVICE = "gpu.scheduling/node", "gpu.scheduling/device"
LEASE_SHARES, SHARED = "gpu.scheduling/shares", "shared"
VARIABLE = "NVIDIA_VISIBLE_DEVICES"
WHOLE = 1000
_NOTHING = ("", "none", "void")
_OVER = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class ApiChange:
    """One version of one object of the API; `thing` is None if it is gone."""

    version: int
    kind: str
    """`pods` or `leases`."""
    key: str
    """`namespace/name`."""
    thing: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class _SeenGpus:
    """GPUs that one bound pod's containers see."""

    key: str
    uid: str
    node: str
    uuids: frozenset[str]
    devices: frozenset[int]
    milli: int


@dataclass(slots=True)
class _Present:
    seen: dict[str, _SeenGpus] = field(default_factory=dict)
    """Bound pods that are not over, by key."""
    leases: dict[str, tuple[tuple[str, int], frozenset[str]]] = field(default_factory=dict)
    """GPU of each Lease, and the uids that hold it, by key."""


def breaches(changes: Iterable[ApiChange]) -> Iterator[str]:
    """Every moment at which a GPU was seen by more pods than it is for, or by one that holds no Lease of it."""
    present = _Present()
    for change in sorted(changes, key=lambda one: one.version):
        if change.kind == "pods":
            yield from _pod(present, change)
        else:
            yield from _lease(present, change)


def unsettled(pods: Iterable[dict[str, Any]], leases: Iterable[dict[str, Any]]) -> list[str]:
    """Reasons why a cluster in which every pod has room has not converged: pods that wait, Leases of nobody."""
    living = [one for one in pods if one.get("status", {}).get("phase") not in _OVER]
    uids = {one["metadata"]["uid"] for one in living}
    wait = [f"{one['metadata']['name']} waits" for one in living if not one["spec"].get("nodeName")]
    held = [(one["metadata"]["name"], _held(one)) for one in leases]
    lost = [f"{name} is held by nobody that lives" for name, found in held if found is not None and found[1] - uids]
    return wait + lost


def _pod(present: _Present, change: ApiChange) -> Iterator[str]:
    before = present.seen.pop(change.key, None)
    mine = None if change.thing is None else _seen_gpus(change.key, change.thing)
    if mine is None:
        return
    present.seen[change.key] = mine
    if before is not None and before.uid == mine.uid:
        if (before.uuids, before.devices) != (mine.uuids, mine.devices):
            yield f"at {change.version} {mine.key} sees {_names(mine.uuids)}, and saw {_names(before.uuids)}"
        return
    if "all" in mine.uuids:
        yield f"at {change.version} {mine.key} sees every GPU of {mine.node}"
    for uuid in sorted(mine.uuids):
        seeing = [one for one in present.seen.values() if one.node == mine.node and uuid in one.uuids]
        if sum(one.milli for one in seeing) > WHOLE:
            yield f"at {change.version} {uuid} of {mine.node} is seen by {' and '.join(sorted(o.key for o in seeing))}"
    for device in sorted(mine.devices):
        if mine.uid not in _holders(present, mine.node, device):
            yield f"at {change.version} {mine.key} was bound to GPU {device} of {mine.node} without its Lease"


def _lease(present: _Present, change: ApiChange) -> Iterator[str]:
    before = present.leases.pop(change.key, None)
    found = None if change.thing is None else _held(change.thing)
    if found is not None:
        present.leases[change.key] = found
    if before is None:
        return
    (node, device), _ = before
    holders = _holders(present, node, device)
    for mine in present.seen.values():
        if mine.node == node and device in mine.devices and mine.uid not in holders:
            yield f"at {change.version} the Lease of GPU {device} of {node} was taken from {mine.key}, which is bound"


def _holders(present: _Present, node: str, device: int) -> set[str]:
    return {uid for place, uids in present.leases.values() if place == (node, device) for uid in uids}


def _seen_gpus(key: str, pod: dict[str, Any]) -> _SeenGpus | None:
    """None if no container can see a GPU: it is not bound, over, or was given none."""
    node = pod["spec"].get("nodeName", "")
    if not node or pod.get("status", {}).get("phase") in _OVER:
        return None
    notes: dict[str, str] = pod["metadata"].get("annotations") or {}
    uuids = frozenset(uuid for one in pod["spec"]["containers"] for uuid in _seen(one, notes))
    _, _, devices = notes.get(ALLOCATED, "").rpartition(":")
    return _SeenGpus(
        key,
        pod["metadata"]["uid"],
        node,
        uuids,
        frozenset(int(one) for one in devices.split(",") if one),
        int(notes.get(SHARE) or WHOLE),
    )


def _seen(container: dict[str, Any], notes: dict[str, str]) -> list[str]:
    text = notes.get(VISIBLE, "")
    for variable in container.get("env") or ():
        if variable["name"] == VARIABLE:
            path = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
            named = path.removeprefix("metadata.annotations['").removesuffix("']")
            text = notes.get(named, "") if path else variable.get("value", "")
    return [one for one in text.split(",") if one not in _NOTHING]


def _held(lease: dict[str, Any]) -> tuple[tuple[str, int], frozenset[str]] | None:
    notes: dict[str, str] = lease["metadata"].get("annotations") or {}
    if LEASE_NODE not in notes:
        return None  # an election
    holder = lease["spec"].get("holderIdentity") or ""
    uids = json.loads(notes.get(LEASE_SHARES, "{}")) if holder == SHARED else [holder]
    return (notes[LEASE_NODE], int(notes[LEASE_DEVICE])), frozenset(uids)


def _names(uuids: frozenset[str]) -> str:
    return ", ".join(sorted(uuids)) or "nothing"
