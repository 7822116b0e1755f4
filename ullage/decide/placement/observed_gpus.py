"""GPU accounting for bound pods without an allocation: from the status of their claim, else from the node's inventory.

A pod bound by our scheduler carries its allocation. A pod bound by another scheduler, or whose manifest lost its
annotations, does not; without accounting its GPUs would be offered again. A GPU on which the node's agent sees a
process of a pod that does not account for that GPU is not given to any other pod.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Any, TypeVar

from msgspec.structs import replace

from ullage.decide.placement.prefilter import claim_of
from ullage.model.claim import Claim, Exclusivity
from ullage.model.device import MILLI_GPU, MOST_DEVICES, Device, Inventory
from ullage.model.fact_event import Deleted, FactEvent, ObjectKey, Updated
from ullage.model.lease import GpuLease
from ullage.model.pod import Phase, Pod
from ullage.model.resources import GPU
from ullage.model.shape import Shape, asking_for, interned
from ullage.model.units import Instant, Milli
from ullage.state.cluster import ClusterState
from ullage.state.device_columns import NodeKindCode
from ullage.state.dra_allocations import ABOVE_ALL
from ullage.state.snapshot import ClusterSnapshot

T = TypeVar("T")

IN_USE = "\nin use"
"""Namespace no pod can be in. Its holders stand for processes that no pod accounts for."""

_NODE_SERVICE = "DaemonSet"
"""Owner kind of pods that watch GPUs or serve their users (monitoring, MPS): their processes take no GPU."""

_NOTHING = interned(Shape())


class GpuAccounting:
    """Keeps a long-lived snapshot equal to what bound pods and agents report. Call `settle` before each decision."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._pods: dict[ObjectKey, None] = {}
        self._nodes: dict[str, None] = {}

    def observe(self, event: FactEvent[Any]) -> None:
        """Note one event that the snapshot has applied. `settle` looks at what it may change."""
        fact = getattr(event, "old" if isinstance(event, Deleted) else "new", None)
        match fact:
            case Pod():
                self._observe_pod(event, fact)
            case Inventory():
                if not (isinstance(event, Updated) and event.old.devices == fact.devices):
                    self._nodes[fact.node] = None
                    self._pods |= dict.fromkeys(self._snapshot.pods_on(fact.node))
            case GpuLease():
                self._nodes[fact.node] = None
            case Claim():
                self._pods |= dict.fromkeys(pod.key for pod in self._snapshot.state.pods_naming(fact.key))

    def settle(self, most: int | None = None) -> bool:
        """Bring the snapshot up to date, or look at `most` pods or nodes. Return whether there was any to look at."""
        if not self._pods and not self._nodes:
            return False
        placed = self._snapshot.pods
        heard, self._pods = _taken(self._pods, most)
        nodes: Iterable[str] = ()
        if not self._pods:
            nodes, self._nodes = _taken(self._nodes, most)
        pods = [placed[key] for key in heard if key in placed and not placed[key].gpu_ids]
        account_for_bound(self._snapshot, [pod for pod in pods if pod.key in self._snapshot.state.pods])
        for pod in pods:
            self._snapshot.leases.observe_pod(pod, gone=False)
        hold_in_use(self._snapshot, nodes)
        return True

    def _observe_pod(self, event: FactEvent[Pod], pod: Pod) -> None:
        before = event.old if isinstance(event, Updated) else pod
        for node in (before.node, pod.node):
            if node and node in self._snapshot.columns.rows:
                self._nodes[node] = None
        if pod.holds_room and not pod.gpu_ids and not isinstance(event, Deleted):
            self._pods[pod.key] = None


def _taken(known: dict[T, None], most: int | None) -> tuple[dict[T, None], dict[T, None]]:
    """The first keys, at most so many, and the others.

    Where no others are left they get a new dict. One that was large is walked through in full, however little is in it.
    """
    if most is None or len(known) <= most:
        return known, {}
    first = dict.fromkeys(islice(known, most))
    for key in first:
        del known[key]
    return first, known


def hold_in_use(snapshot: ClusterSnapshot, nodes: Iterable[str]) -> None:
    """Hold, on these leased nodes, the free part of GPUs that are used by pods which do not account for them.

    A process outlives a pod deleted by force. The agent's last report of it counts until the next report.
    """
    for node in nodes:
        row, inventory = snapshot.columns.rows.get(node), snapshot.state.inventories.get(node)
        leased = row is not None and snapshot.columns.gpus.kind.item(row) == NodeKindCode.LEASED
        for key in [key for key in snapshot.pods_on(node) if key.namespace == IN_USE]:
            snapshot.forget(key)
        if row is None or inventory is None or not leased:
            continue
        for one in inventory.devices:
            if not one.in_use_by or not 0 <= one.id < MOST_DEVICES:
                continue
            left = MILLI_GPU - snapshot.columns.gpus.held.item(row, one.id)
            if left > 0 and _is_used_by_others(one, node, snapshot):
                snapshot.assume(_user(node, one.id), node, (one.id,), Milli(left))


def _is_used_by_others(device: Device, node: str, snapshot: ClusterSnapshot) -> bool:
    known = {pod.uid: pod for pod in snapshot.pods_on(node).values()}
    for uid in device.in_use_by:
        pod = known.get(uid)
        if pod is None or (device.id not in pod.gpu_ids and not _serves_the_node(pod)):
            return True
    return False


def _serves_the_node(pod: Pod) -> bool:
    return pod.owner is not None and pod.owner.kind == _NODE_SERVICE and GPU not in dict(pod.shape.requests)


def _user(node: str, device: int) -> Pod:
    name = f"{node}/{device}"
    return Pod(
        key=ObjectKey(IN_USE, name),
        uid=f"{IN_USE}/{name}",
        created=Instant(0.0),
        node=node,
        phase=Phase.RUNNING,
        deleting=False,
        gated=False,
        scheduler="",
        priority=ABOVE_ALL,
        labels={},
        shape=_NOTHING,
        owner=None,
    )


def account_for_bound(snapshot: ClusterSnapshot, among: Iterable[Pod] | None = None) -> list[ObjectKey]:
    """Place bound pods (or those `among` them) with the GPUs they are known to hold.

    Returns the pods on leased nodes whose GPUs are unknown.
    """
    unknown: list[ObjectKey] = []
    for pod in sorted(snapshot.pods.values() if among is None else among, key=lambda pod: pod.key):
        claim = claim_of(pod, snapshot.state)
        needs = claim is not None or GPU in dict(pod.shape.requests)
        row = snapshot.columns.rows.get(pod.node)
        if not needs or row is None:
            continue
        shape = pod.shape if claim is None else asking_for(pod.shape, claim.ask)
        ids = pod.gpu_ids or _seen(pod, claim, snapshot.state)
        if ids != pod.gpu_ids or shape is not pod.shape:
            snapshot.assume(replace(pod, shape=shape), pod.node, ids, pod.gpu_share)
        if not ids and snapshot.columns.gpus.kind[row] == NodeKindCode.LEASED:
            unknown.append(pod.key)
    return unknown


def _seen(pod: Pod, claim: Claim | None, state: ClusterState) -> tuple[int, ...]:
    if claim is not None and claim.ask.exclusivity is not Exclusivity.EXCLUSIVE:
        return ()  # how much of each it holds is not known
    own = claim is not None and bool(pod.claim or (pod.uid and claim.pod_uid == pod.uid))
    if claim is not None and own and claim.node == pod.node:
        return claim.gpu_ids
    inventory = state.inventories.get(pod.node)
    devices = () if inventory is None or not pod.uid else inventory.devices
    return tuple(device.id for device in devices if pod.uid in device.in_use_by)
