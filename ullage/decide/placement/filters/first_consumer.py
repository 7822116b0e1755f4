"""Volumes of WaitForFirstConsumer claims: assignments to make once a pod has a node, before it is bound there."""

from ullage.decide.placement.filters.volume_matching import matched
from ullage.decide.placement.filters.volume_requirements import mounts_of
from ullage.model.intents import VolumeAssignment
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.state.storage import AssumedVolume, Storage


def assumed_on(pod: Pod, node: Node, storage: Storage) -> tuple[AssumedVolume, ...]:
    """Assumed volumes of the pod's claims that wait for their first consumer, in the pod's order.

    Each claim gets an existing volume, or one to be provisioned. The volume filters check that the node allows it.
    """
    mounts = mounts_of(pod.shape, storage)
    there = matched(mounts, node, storage)
    waiting = dict.fromkeys(claim.key for claim, _ in mounts.waiting)
    return tuple(AssumedVolume(key, node.name, there[key].name if key in there else "") for key in waiting)


def waiting_claims(assumed: tuple[AssumedVolume, ...]) -> tuple[str, ...]:
    """Names of claims to be prepared before the pod is bound."""
    return tuple(one.claim.name for one in assumed)


def volume_assignments(assumed: tuple[AssumedVolume, ...]) -> tuple[VolumeAssignment, ...]:
    """Existing volumes assigned to claims, in the order of the claims' names."""
    found = sorted((one.claim.name, one.volume) for one in assumed if one.volume)
    return tuple(VolumeAssignment(claim, volume) for claim, volume in found)
