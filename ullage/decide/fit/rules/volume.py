"""Rules about volumes: are they there, can this node reach them, is somebody else the only one who may mount them.

Not looked at: how many volumes a node can attach (CSINode) and how much a storage backend has left
(CSIStorageCapacity).
"""

from ullage.decide.fit.mounts import Mounts, candidates
from ullage.decide.fit.rules.question import Question
from ullage.model.event import ObjectKey
from ullage.model.node import Node
from ullage.model.terms import any_matches
from ullage.model.verdict import Reason, Verdict
from ullage.model.volume import TODAYS_KEY, ZONE_KEYS, Allowed, Volume, VolumeClaim
from ullage.state.cluster import ClusterState


def volume_is_not_ready(question: Question, _node: Node) -> Verdict | None:
    missing = question.mounts.missing
    return Verdict(Reason.VOLUME_NOT_READY, missing) if missing else None


def volume_is_elsewhere(question: Question, node: Node) -> Verdict | None:
    detail = why_elsewhere(question.mounts, node, question.placements.state)
    return Verdict(Reason.VOLUME_ELSEWHERE, detail) if detail else None


def volume_is_in_use(question: Question, _node: Node) -> Verdict | None:
    for claim in question.mounts.one_pod_only:
        for pod in question.placements.claim_users(claim):
            return Verdict(Reason.VOLUME_IN_USE, f"claim {claim} is for one pod, and {pod} has it")
    return None


def why_elsewhere(mounts: Mounts, node: Node, state: ClusterState) -> str:
    """Empty where this node reaches all volumes that are there and those that are not can be made for it."""
    for volume in mounts.bound:
        if not reaches(node, volume):
            return f"volume {volume.name} cannot be reached from here"
        if not in_zone(node, volume):
            return f"volume {volume.name} is in another zone"
    return _why_not_made(mounts, node, state) if mounts.waiting else ""


def _why_not_made(mounts: Mounts, node: Node, state: ClusterState) -> str:
    for claim, _ in mounts.waiting:
        if claim.selected_node and claim.selected_node != node.name:
            return f"the volume of claim {claim.key} is being made for {claim.selected_node}"
    there = matched(mounts, node, state)
    for claim, storage_class in mounts.waiting:
        if claim.key in there:
            continue
        if not storage_class.makes_volumes:
            return f"no volume here suits claim {claim.key}, and class {storage_class.name} makes none"
        if not allows(storage_class.topologies, node):
            return f"class {storage_class.name} makes no volumes here"
    return ""


def matched(mounts: Mounts, node: Node, state: ClusterState) -> dict[ObjectKey, Volume]:
    """Which waiting claims get which volume that is there already. A claim that was told a node gets a new one."""
    free = {claim.key: claim for claim, _ in mounts.waiting if not claim.selected_node}
    found: dict[ObjectKey, Volume] = {}
    for claim in sorted(free.values(), key=lambda claim: (claim.size, claim.key)):
        volume = match(claim, node, state, {volume.name for volume in found.values()})
        if volume is not None:
            found[claim.key] = volume
    return found


def match(claim: VolumeClaim, node: Node, state: ClusterState, taken: set[str]) -> Volume | None:
    """The volume this claim would get here: the one promised to it, or the smallest that does."""
    there = [volume for volume in candidates(claim, state) if volume.name not in taken]
    for volume in there:
        if volume.promised_to is not None:
            return volume if reaches(node, volume) else None
    reached = [volume for volume in there if reaches(node, volume)]
    return min(reached, key=lambda volume: (volume.size, volume.name), default=None)


def reaches(node: Node, volume: Volume) -> bool:
    return volume.node_affinity is None or any_matches(volume.node_affinity, node.labels)


def in_zone(node: Node, volume: Volume) -> bool:
    """A node without any zone or region label is taken to be everywhere."""
    if not any(key in node.labels for key in ZONE_KEYS):
        return True
    return all(
        node.labels.get(key, node.labels.get(TODAYS_KEY.get(key, key))) in places for key, places in volume.zones
    )


def allows(topologies: tuple[Allowed, ...], node: Node) -> bool:
    """One alternative must hold in all its labels; an empty one never does."""
    return not topologies or any(
        term and all(node.labels.get(key) in values for key, values in term) for term in topologies
    )
