"""Invariants of placements on any API server, read back from it: no GPU is given twice, and all records of it agree.

Reads pods, leases, claims and inventories through `KubeApi`; changes nothing. Each breach is a sentence. Invariants of
claims and gangs are in `claims`, of pending pods in `pending_pods`.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ullage.errors import NotFound
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resource import Resource
from ullage.kube.client.resources import GPU_CLAIMS, GPU_NODE_STATUSES, LEASES, POD_GROUPS, PODS
from ullage.kube.objects.gpu import CoschedulingPodGroup, GpuClaim
from ullage.kube.read import read_pod
from ullage.kube.read.gpu import read_inventory
from ullage.kube.read.leases import OUR_LEASES, read_gpu_lease
from ullage.model.allocation import ALLOCATED, VISIBLE_DEVICES
from ullage.model.device import MILLI_GPU, Inventory
from ullage.model.lease import GpuLease
from ullage.model.pod import Pod as PodFacts

T = TypeVar("T")
NoNotes: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class PlacementReading:
    """All objects at about one moment. Claims and gangs are unread: the checks read them themselves."""

    pods: Sequence[PodFacts]
    leases: Sequence[GpuLease]
    inventories: Sequence[Inventory]
    notes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The annotations of pods, by uid."""
    claims: Sequence[GpuClaim] = ()
    groups: Sequence[CoschedulingPodGroup] = ()

    def note(self, pod: PodFacts, name: str) -> str:
        return self.notes.get(pod.uid, NoNotes).get(name, "")


async def read_placements(api: KubeApi, lease_namespace: str) -> PlacementReading:
    """Read it all. Leases before pods: a lease found without its pod is then really without.

    Pods before claims: what a claim says of a bound pod was to be said when the pod was read.
    """
    leases = [read_gpu_lease(lease) for lease in (await api.list(LEASES, lease_namespace, selection=OUR_LEASES)).items]
    raw = (await api.list(PODS)).items
    nodes = [read_inventory(status) for status in (await api.list(GPU_NODE_STATUSES)).items]
    return PlacementReading(
        pods=[read_pod(pod) for pod in raw],
        leases=leases,
        inventories=nodes,
        notes={pod.metadata.uid: pod.metadata.annotations for pod in raw},
        claims=await _all(api, GPU_CLAIMS),
        groups=await _all(api, POD_GROUPS),
    )


async def _all(api: KubeApi, resource: Resource[T]) -> Sequence[T]:
    try:
        return (await api.list(resource)).items
    except NotFound:
        return ()


def breaches(reading: PlacementReading, *, swept: bool = True) -> Iterator[str]:
    """Every breach. `swept`: leases of pods that are gone must be gone too."""
    held: dict[tuple[str, int], list[PodFacts]] = defaultdict(list)
    for pod in reading.pods:
        if pod.holds_room:
            for device in pod.gpu_ids:
                held[pod.node, device].append(pod)
    yield from _assigned_twice(held)
    yield from _instances_twice(reading)
    yield from _leases_disagree(reading, held)
    if swept:
        yield from _leases_left(reading)
    yield from _no_such_device(reading, held)
    yield from _notes_disagree(reading)


def _assigned_twice(held: dict[tuple[str, int], list[PodFacts]]) -> Iterator[str]:
    for (node, device), pods in sorted(held.items()):
        if sum(pod.gpu_share for pod in pods) > MILLI_GPU:
            yield f"GPU {device} of {node} is given to {', '.join(str(pod.key) for pod in pods)}"


def _instances_twice(reading: PlacementReading) -> Iterator[str]:
    """MIG instances given to two pods, by whatever scheduler."""
    seen: dict[tuple[str, str], list[PodFacts]] = defaultdict(list)
    for pod in reading.pods:
        for uuid in pod.gpu_instances if pod.holds_room else ():
            seen[pod.node, uuid].append(pod)
    for (node, uuid), pods in sorted(seen.items()):
        if len(pods) > 1:
            yield f"MIG instance {uuid} of {node} is given to {', '.join(str(pod.key) for pod in pods)}"


def _leases_disagree(reading: PlacementReading, held: dict[tuple[str, int], list[PodFacts]]) -> Iterator[str]:
    """GPUs of a bound pod that are not leased to it."""
    holders = {(lease.node, lease.device): {hold.uid for hold in lease.holds} for lease in reading.leases}
    for place, pods in sorted(held.items()):
        for pod in pods:
            if pod.uid not in holders.get(place, set()):
                yield f"{pod.key} has GPU {place[1]} of {place[0]}, leased to {sorted(holders.get(place, set()))}"
    leased = {(lease.node, hold.instance): hold.uid for lease in reading.leases for hold in lease.holds}
    for pod in reading.pods:
        for uuid in pod.gpu_instances if pod.holds_room else ():
            if leased.get((pod.node, uuid)) != pod.uid:
                yield f"{pod.key} has {uuid} of {pod.node}, leased to {leased.get((pod.node, uuid))}"


def _leases_left(reading: PlacementReading) -> Iterator[str]:
    alive = {pod.uid: pod for pod in reading.pods if not pod.phase.over}
    for lease in reading.leases:
        for hold in lease.holds:
            pod = alive.get(hold.uid)
            if pod is None:
                yield f"{lease.name} is held by {hold.uid}, which is gone"
            elif pod.node and (pod.node != lease.node or not _was_given(pod, lease.device, hold.instance)):
                yield f"{lease.name} is held by {pod.key}, which is on {pod.node} with GPU {pod.gpu_ids}"


def _was_given(pod: PodFacts, device: int, instance: str) -> bool:
    return device in pod.gpu_ids and (instance in pod.gpu_instances if instance else not pod.gpu_instances)


def _no_such_device(reading: PlacementReading, held: dict[tuple[str, int], list[PodFacts]]) -> Iterator[str]:
    known = {(node.node, device.id) for node in reading.inventories for device in node.devices}
    for place, pods in sorted(held.items()):
        if place not in known:
            yield f"{pods[0].key} has GPU {place[1]} of {place[0]}, which is not there"


def _notes_disagree(reading: PlacementReading) -> Iterator[str]:
    """Annotations of a pod that do not name its node, or the UUIDs of the devices it was given."""
    uuids = {(node.node, device.id): device.uuid for node in reading.inventories for device in node.devices}
    for pod in reading.pods:
        allocated, visible = reading.note(pod, ALLOCATED), reading.note(pod, VISIBLE_DEVICES)
        if not pod.holds_room and allocated and not pod.phase.over:
            yield f"{pod.key} is on no node and has the note {allocated}"
        if not pod.holds_room or pod.uid not in reading.notes:
            continue
        wanted = f"{pod.node}:{','.join(map(str, pod.gpu_ids))}" if pod.gpu_ids else ""
        if allocated != wanted and not pod.gpu_instances:  # of several instances of one GPU, it is named for each
            yield f"{pod.key} has the note {allocated!r}, and was given {wanted!r}"
        names = ",".join(uuids.get((pod.node, device), "?") for device in pod.gpu_ids)
        if visible != names and not pod.gpu_instances:
            yield f"{pod.key} is to see {visible!r}, and was given {names!r}"


def islands_of(reading: PlacementReading, pod: PodFacts) -> set[str]:
    """The islands a pod's GPUs are in."""
    wiring = {(node.node, device.id): device.island for node in reading.inventories for device in node.devices}
    return {wiring.get((pod.node, device), "?") for device in pod.gpu_ids}
