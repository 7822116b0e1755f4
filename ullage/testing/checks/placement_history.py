"""Invariants of every recorded change of pods and GPU Leases, checked in the API server's order.

A check at the end shows only the last state. Changes nothing.
"""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import LEASES, PODS
from ullage.kube.read import read_pod
from ullage.kube.read.leases import OUR_LEASES, read_gpu_lease
from ullage.model.device import MILLI_GPU
from ullage.model.lease import GpuLease
from ullage.model.pod import Pod
from ullage.testing.checks import recorder

Part = tuple[str, int | str]
"""A node, and a device of it or the UUID of a MIG instance."""

Change = recorder.RecordedChange[Pod | GpuLease]


class PlacementHistory(recorder.WatchRecorder[Pod | GpuLease]):
    """Records inside its `async with` block. Judge after `whole`."""

    def __init__(self, api: KubeApi, lease_namespace: str) -> None:
        pods = recorder.WatchedSource[Pod | GpuLease](PODS, read_pod)
        leases = recorder.WatchedSource[Pod | GpuLease](LEASES, read_gpu_lease, lease_namespace, OUR_LEASES)
        super().__init__(api, pods, leases)

    def breaches(self, *, restored: bool = False) -> Iterator[str]:
        """Every moment at which something that must always hold did not. `restored`: see `breaches`."""
        yield from breaches(self.changes, restored=restored)


def begun_too_early(
    changes: list[Change], gang: Collection[str], needed: int, *, after: int = 0, window: float = 0.0
) -> Iterator[str]:
    """Binds of a gang's first member before enough of its members (by uid) held GPUs.

    A bound member that left less than `window` seconds before a bind counts: between the look at it and the bind of
    another lie two calls, and no call can be made conditional on two pods.

    Only binds after version `after` are judged: objects that were listed at the beginning carry their latest version,
    which says nothing of the order in which they were written.
    """
    holding: dict[str, set[str]] = {}
    bound: set[str] = set()
    left: dict[str, float] = {}
    for change in sorted(changes, key=lambda one: one.version):
        fact = change.fact
        if isinstance(fact, GpuLease):
            for names in holding.values():
                names.discard(fact.name)
            for hold in () if change.gone else fact.holds:
                holding.setdefault(hold.uid, set()).add(fact.name)
        elif fact.uid in gang and (change.gone or not fact.holds_room):
            if fact.uid in bound:
                left[fact.uid] = change.at
            bound.discard(fact.uid)
        elif fact.uid in gang and fact.uid not in bound:
            leased = sum(bool(holding.get(uid)) or change.at - left.get(uid, -math.inf) < window for uid in gang)
            if not bound and leased < needed and change.version > after:
                yield f"at {change.version} {fact.key} was bound, and {leased} of {needed} members held GPUs"
            bound.add(fact.uid)


@dataclass(slots=True)
class _Scene:
    """State of pods and Leases at one moment."""

    pods: dict[str, Pod] = field(default_factory=dict)
    """Bound pods that are not over, by uid."""
    on: dict[Part, dict[str, int]] = field(default_factory=dict)
    """Holders of each GPU or MIG instance by uid, and the thousandths each holds."""
    leases: dict[Part, dict[str, int]] = field(default_factory=dict)
    parts: dict[str, tuple[Part, ...]] = field(default_factory=dict)
    """GPUs or MIG instances of each Lease, by its name."""


def breaches(changes: list[Change], *, restored: bool = False) -> Iterator[str]:
    """Yield the breaches in these changes, given in any order. `restored`: deleted Leases were made again."""
    scene = _Scene()
    for change in sorted(changes, key=lambda one: one.version):
        if isinstance(change.fact, Pod):
            yield from _pod_changed(scene, change, change.fact)
        else:
            found = _lease_changed(scene, change, change.fact)
            yield from (one for one in found if not restored)
    for part, pods in scene.on.items() if restored else ():
        for uid in pods.keys() - scene.leases.get(part, {}).keys():
            yield f"in the end {scene.pods[uid].key} is bound to {part}, leased to {_names(scene, part)}"


def _pod_changed(scene: _Scene, change: Change, pod: Pod) -> Iterator[str]:
    before = scene.pods.pop(pod.uid, None)
    for part in _parts(before):
        del scene.on[part][pod.uid]
    if change.gone or not pod.holds_room:
        return
    scene.pods[pod.uid] = pod
    if before is not None and _parts(before) != _parts(pod):
        yield f"at {change.version} {pod.key} was moved from {_parts(before)} to {_parts(pod)}"
    for part in _parts(pod):
        holders = scene.on.setdefault(part, {})
        holders[pod.uid] = pod.gpu_share if not pod.gpu_instances else MILLI_GPU
        if part in _parts(before):
            continue
        if sum(holders.values()) > MILLI_GPU:
            names = sorted(str(scene.pods[uid].key) for uid in holders)
            yield f"at {change.version} GPU {part} was given to {' and '.join(names)}"
        if pod.uid not in scene.leases.get(part, {}):
            yield f"at {change.version} {pod.key} was bound to GPU {part}, leased to {_names(scene, part)}"


def _lease_changed(scene: _Scene, change: Change, lease: GpuLease) -> Iterator[str]:
    before = scene.parts.pop(lease.name, ())
    for part in before:
        scene.leases.pop(part, None)
    for hold in () if change.gone else lease.holds:
        part = (lease.node, hold.instance or lease.device)
        scene.leases.setdefault(part, {})[hold.uid] = hold.milli or MILLI_GPU
        scene.parts[lease.name] = (*scene.parts.get(lease.name, ()), part)
    now = scene.parts.get(lease.name, ())
    for part in dict.fromkeys((*before, *now)):
        holders = scene.leases.get(part, {})
        if sum(holders.values()) > MILLI_GPU:
            yield f"at {change.version} {part} was leased to more than fit: {holders}"
        for uid in scene.on.get(part, {}):
            if uid not in holders:
                yield f"at {change.version} {lease.name} was taken from {scene.pods[uid].key}, which is bound to it"
    if any(isinstance(one, int) for _, one in now) and any(isinstance(one, str) for _, one in now):
        yield f"at {change.version} {lease.name} was leased whole or in shares, and in MIG instances: {now}"


def _parts(pod: Pod | None) -> list[Part]:
    if pod is None:
        return []
    return [(pod.node, part) for part in (pod.gpu_instances or pod.gpu_ids)]


def _names(scene: _Scene, part: Part) -> str:
    return ", ".join(sorted(scene.leases.get(part, {}))) or "nobody"
