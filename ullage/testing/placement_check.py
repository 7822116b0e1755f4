"""What must hold of placements on any API server, read back from it: no GPU twice, and everything said of it agrees.

Reads pods, leases and inventories through `KubeApi`; changes nothing. Each breach is a sentence.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ullage.act.sweep import OUR_LEASES, read_gpu_lease
from ullage.kube.api import KubeApi
from ullage.kube.gpu_read import read_inventory
from ullage.kube.objects.pod import Pod
from ullage.kube.read import read_pod
from ullage.kube.resources import GPU_NODE_STATUSES, LEASES, PODS
from ullage.model.device import MILLI_GPU, Inventory
from ullage.model.lease import GpuLease
from ullage.model.pod import Pod as PodFacts


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything at about one moment."""

    pods: Sequence[PodFacts]
    leases: Sequence[GpuLease]
    inventories: Sequence[Inventory]


async def read_placements(api: KubeApi, lease_namespace: str) -> Reading:
    """Read it all. Leases before pods: a lease found without its pod is then really without."""
    leases = [read_gpu_lease(lease) for lease in (await api.list(LEASES, lease_namespace, selection=OUR_LEASES)).items]
    raw: Sequence[Pod] = (await api.list(PODS)).items
    nodes = [read_inventory(status) for status in (await api.list(GPU_NODE_STATUSES)).items]
    return Reading([read_pod(pod) for pod in raw], leases, nodes)


def breaches(reading: Reading, *, swept: bool = True) -> Iterator[str]:
    """Every breach. `swept`: leases of pods that are gone must be gone too."""
    held: dict[tuple[str, int], list[PodFacts]] = defaultdict(list)
    for pod in reading.pods:
        if pod.holds_room:
            for device in pod.gpu_ids:
                held[pod.node, device].append(pod)
    yield from _promised_twice(held)
    yield from _leases_disagree(reading, held)
    if swept:
        yield from _leases_left(reading)
    yield from _no_such_device(reading, held)


def _promised_twice(held: dict[tuple[str, int], list[PodFacts]]) -> Iterator[str]:
    for (node, device), pods in sorted(held.items()):
        if sum(pod.gpu_share for pod in pods) > MILLI_GPU:
            yield f"GPU {device} of {node} is given to {', '.join(str(pod.key) for pod in pods)}"


def _leases_disagree(reading: Reading, held: dict[tuple[str, int], list[PodFacts]]) -> Iterator[str]:
    """What a bound pod was given is leased to it."""
    holders = {(lease.node, lease.device): {hold.uid for hold in lease.holds} for lease in reading.leases}
    for place, pods in sorted(held.items()):
        for pod in pods:
            if pod.uid not in holders.get(place, set()):
                yield f"{pod.key} has GPU {place[1]} of {place[0]}, leased to {sorted(holders.get(place, set()))}"


def _leases_left(reading: Reading) -> Iterator[str]:
    alive = {pod.uid: pod for pod in reading.pods if not pod.phase.over}
    for lease in reading.leases:
        for hold in lease.holds:
            pod = alive.get(hold.uid)
            if pod is None:
                yield f"{lease.name} is held by {hold.uid}, which is gone"
            elif pod.node and (pod.node != lease.node or lease.device not in pod.gpu_ids):
                yield f"{lease.name} is held by {pod.key}, which is on {pod.node} with GPU {pod.gpu_ids}"


def _no_such_device(reading: Reading, held: dict[tuple[str, int], list[PodFacts]]) -> Iterator[str]:
    known = {(node.node, device.id) for node in reading.inventories for device in node.devices}
    for place, pods in sorted(held.items()):
        if place not in known:
            yield f"{pods[0].key} has GPU {place[1]} of {place[0]}, which is not there"


def islands_of(reading: Reading, pod: PodFacts) -> set[str]:
    """The islands a pod's GPUs are in."""
    wiring = {(node.node, device.id): device.island for node in reading.inventories for device in node.devices}
    return {wiring.get((pod.node, device), "?") for device in pod.gpu_ids}
