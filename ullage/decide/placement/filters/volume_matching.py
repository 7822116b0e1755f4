"""Volumes on one node: which are reached from it, and which each waiting claim would get there."""

from ullage.decide.placement.filters.volume_requirements import VolumeRequirements, candidates
from ullage.model.fact_event import ObjectKey
from ullage.model.node import Node
from ullage.model.shape_terms import any_matches
from ullage.model.volume import TODAYS_KEY, ZONE_KEYS, Allowed, PersistentVolume, PersistentVolumeClaim
from ullage.state.storage import Storage


def why_elsewhere(mounts: VolumeRequirements, node: Node, storage: Storage) -> str:
    """Detail of a refusal; empty if the node reaches all existing volumes and the others can be provisioned for it."""
    for volume in mounts.bound:
        if not reaches(node, volume):
            return f"volume {volume.name} cannot be reached from here"
        if not in_zone(node, volume):
            return f"volume {volume.name} is in another zone"
    return _why_not_made(mounts, node, storage) if mounts.waiting else ""


def _why_not_made(mounts: VolumeRequirements, node: Node, storage: Storage) -> str:
    for claim, _ in mounts.waiting:
        if claim.selected_node and claim.selected_node != node.name:
            return f"the volume of claim {claim.key} is being made for {claim.selected_node}"
    there = matched(mounts, node, storage)
    for claim, storage_class in mounts.waiting:
        if claim.key in there:
            continue
        if not storage_class.makes_volumes:
            return f"no volume here suits claim {claim.key}, and class {storage_class.name} makes none"
        if not allows(storage_class.topologies, node):
            return f"class {storage_class.name} makes no volumes here"
    return ""


def matched(mounts: VolumeRequirements, node: Node, storage: Storage) -> dict[ObjectKey, PersistentVolume]:
    """Existing volumes by waiting claim. A claim with a selected node gets a new volume, so it is left out."""
    free = {claim.key: claim for claim, _ in mounts.waiting if not claim.selected_node}
    found: dict[ObjectKey, PersistentVolume] = {}
    for claim in sorted(free.values(), key=lambda claim: (claim.size, claim.key)):
        volume = match(claim, node, storage, {volume.name for volume in found.values()})
        if volume is not None:
            found[claim.key] = volume
    return found


def match(claim: PersistentVolumeClaim, node: Node, storage: Storage, taken: set[str]) -> PersistentVolume | None:
    """Volume this claim would get on this node: the one promised to it, else the smallest that suits."""
    there = [volume for volume in candidates(claim, storage) if volume.name not in taken]
    for volume in there:
        if volume.claim_ref is not None:
            return volume if reaches(node, volume) else None
    reached = [volume for volume in there if reaches(node, volume)]
    return min(reached, key=lambda volume: (volume.size, volume.name), default=None)


def reaches(node: Node, volume: PersistentVolume) -> bool:
    return volume.node_affinity is None or any_matches(volume.node_affinity, node.labels)


def in_zone(node: Node, volume: PersistentVolume) -> bool:
    """True if the node is in the volume's zones. A node without any zone or region label counts as in all zones."""
    if not any(key in node.labels for key in ZONE_KEYS):
        return True
    return all(
        node.labels.get(key, node.labels.get(TODAYS_KEY.get(key, key))) in places for key, places in volume.zones
    )


def allows(topologies: tuple[Allowed, ...], node: Node) -> bool:
    """True if one topology term holds in all its labels, or there are no terms. An empty term never holds."""
    return not topologies or any(
        term and all(node.labels.get(key) in values for key, values in term) for term in topologies
    )
