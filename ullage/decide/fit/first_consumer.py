"""What has to be done for the volumes of a pod once it has a node, before it may be bound there."""

from ullage.decide.fit.mounts import mounts_of
from ullage.decide.fit.rules.volume import matched
from ullage.model.action import VolumePromise
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.state.cluster import ClusterState


def waiting_claims(pod: Pod, state: ClusterState) -> tuple[str, ...]:
    """Claims of the pod, in its own order, that have no volume until they have a consumer."""
    return tuple(dict.fromkeys(claim.key.name for claim, _ in mounts_of(pod.shape, state).waiting))


def promises_on(pod: Pod, node: Node, state: ClusterState) -> tuple[VolumePromise, ...]:
    """Volumes that are there for some of those claims, on this node, in the order of the claims' names.

    For the others one has to be made; that this can be done here is for the rules of fit to say.
    """
    found = matched(mounts_of(pod.shape, state), node, state)
    return tuple(VolumePromise(key.name, volume.name) for key, volume in sorted(found.items()))
