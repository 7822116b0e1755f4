"""Whose GPUs are whose, where bound pods do not say it themselves: by their claim's status, else by what the node sees.

A pod bound by us carries its allocation. One that was bound by others, or whose manifest lost its annotations, does
not; its GPUs would be offered again.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from ullage.decide.claiming import claim_of
from ullage.model.claim import Claim, Exclusivity
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.resources import GPU
from ullage.model.shape import asking_for
from ullage.state.cluster import ClusterState
from ullage.state.gpus import Kind
from ullage.state.placements import Placements


def account_for_bound(placements: Placements, among: Iterable[Pod] | None = None) -> list[ObjectKey]:
    """Let bound pods (or those `among` them) hold what they are known to hold.

    Returns those on leased nodes whose GPUs nobody can name.
    """
    unknown: list[ObjectKey] = []
    for pod in sorted(placements.pods.values() if among is None else among, key=lambda pod: pod.key):
        claim = claim_of(pod, placements.state)
        needs = claim is not None or GPU in dict(pod.shape.requests)
        row = placements.columns.rows.get(pod.node)
        if not needs or row is None:
            continue
        shape = pod.shape if claim is None else asking_for(pod.shape, claim.ask)
        ids = pod.gpu_ids or _seen(pod, claim, placements.state)
        if ids != pod.gpu_ids or shape is not pod.shape:
            placements.place(replace(pod, shape=shape), pod.node, ids, pod.gpu_share)
        if not ids and placements.columns.gpus.kind[row] == Kind.LEASED:
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
