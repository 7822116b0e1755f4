"""Every moment of pods and GPU Leases, judged in the order the API server did it.

A look at the end shows only that all is well now. Changes nothing.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from ullage.act.sweep import OUR_LEASES, read_gpu_lease
from ullage.kube.api import KubeApi
from ullage.kube.read import read_pod
from ullage.kube.resources import LEASES, PODS
from ullage.model.device import MILLI_GPU
from ullage.model.lease import GpuLease
from ullage.model.pod import Pod
from ullage.testing import recording

Gpu = tuple[str, int]
"""A node and a device of it."""

Moment = recording.Moment[Pod | GpuLease]


class PlacementHistory(recording.Recorder[Pod | GpuLease]):
    """Records inside its `async with` block. Judge after `whole`."""

    def __init__(self, api: KubeApi, lease_namespace: str) -> None:
        pods = recording.Source[Pod | GpuLease](PODS, read_pod)
        leases = recording.Source[Pod | GpuLease](LEASES, read_gpu_lease, lease_namespace, OUR_LEASES)
        super().__init__(api, pods, leases)

    def breaches(self) -> Iterator[str]:
        """Every moment at which something that must always hold did not."""
        yield from breaches(self.moments)


def begun_too_early(moments: list[Moment], gang: Collection[str], needed: int) -> Iterator[str]:
    """Binds of a gang's first member before enough of its members (by uid) held GPUs."""
    holding: dict[str, set[str]] = {}
    bound: set[str] = set()
    for moment in sorted(moments, key=lambda one: one.version):
        fact = moment.fact
        if isinstance(fact, GpuLease):
            for names in holding.values():
                names.discard(fact.name)
            for hold in () if moment.gone else fact.holds:
                holding.setdefault(hold.uid, set()).add(fact.name)
        elif fact.uid in gang and (moment.gone or not fact.holds_room):
            bound.discard(fact.uid)
        elif fact.uid in gang and fact.uid not in bound:
            leased = sum(bool(holding.get(uid)) for uid in gang)
            if not bound and leased < needed:
                yield f"at {moment.version} {fact.key} was bound, and {leased} of {needed} members held GPUs"
            bound.add(fact.uid)


@dataclass(slots=True)
class _Scene:
    """What there is at one moment."""

    pods: dict[str, Pod] = field(default_factory=dict)
    """Bound pods that are not over, by uid."""
    on: dict[Gpu, dict[str, int]] = field(default_factory=dict)
    """Who was given each GPU, and how much of it."""
    leases: dict[Gpu, dict[str, int]] = field(default_factory=dict)


def breaches(moments: list[Moment]) -> Iterator[str]:
    """The same, of moments in any order."""
    scene = _Scene()
    for moment in sorted(moments, key=lambda one: one.version):
        if isinstance(moment.fact, Pod):
            yield from _pod_changed(scene, moment, moment.fact)
        else:
            yield from _lease_changed(scene, moment, moment.fact)


def _pod_changed(scene: _Scene, moment: Moment, pod: Pod) -> Iterator[str]:
    before = scene.pods.pop(pod.uid, None)
    for gpu in _gpus(before):
        del scene.on[gpu][pod.uid]
    if moment.gone or not pod.holds_room:
        return
    scene.pods[pod.uid] = pod
    if before is not None and _gpus(before) != _gpus(pod):
        yield f"at {moment.version} {pod.key} was moved from {_gpus(before)} to {_gpus(pod)}"
    for gpu in _gpus(pod):
        holders = scene.on.setdefault(gpu, {})
        holders[pod.uid] = pod.gpu_share
        if gpu in _gpus(before):
            continue
        if sum(holders.values()) > MILLI_GPU:
            names = sorted(str(scene.pods[uid].key) for uid in holders)
            yield f"at {moment.version} GPU {gpu} was given to {' and '.join(names)}"
        if pod.uid not in scene.leases.get(gpu, {}):
            yield f"at {moment.version} {pod.key} was bound to GPU {gpu}, leased to {_names(scene, gpu)}"


def _lease_changed(scene: _Scene, moment: Moment, lease: GpuLease) -> Iterator[str]:
    gpu = (lease.node, lease.device)
    holders = {} if moment.gone else {hold.uid: hold.milli for hold in lease.holds}
    if sum(holders.values()) > MILLI_GPU:
        yield f"at {moment.version} {lease.name} was leased to more than fit: {holders}"
    scene.leases[gpu] = holders
    for uid in scene.on.get(gpu, {}):
        if uid not in holders:
            yield f"at {moment.version} {lease.name} was taken from {scene.pods[uid].key}, which is bound to it"


def _gpus(pod: Pod | None) -> list[Gpu]:
    return [] if pod is None else [(pod.node, device) for device in pod.gpu_ids]


def _names(scene: _Scene, gpu: Gpu) -> str:
    return ", ".join(sorted(scene.leases.get(gpu, {}))) or "nobody"
