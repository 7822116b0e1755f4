"""Rows that reach a shape's volumes: vector form of `filters.volume`."""

import numpy as np

from ullage.decide.placement.filters.codes import CODE, Codes
from ullage.decide.placement.filters.masks import Mask, all_rows, any_term, has_label
from ullage.decide.placement.filters.mounts import VolumeRequirements, candidates
from ullage.decide.placement.filters.volume import why_elsewhere
from ullage.model.node import Node
from ullage.model.selector import Operator, Requirement
from ullage.model.verdict import Reason
from ullage.model.volume import TODAYS_KEY, ZONE_KEYS, Allowed, PersistentVolume, PersistentVolumeClaim, StorageClass
from ullage.state.snapshot import ClusterSnapshot

_NOT_READY = CODE[Reason.VOLUME_NOT_READY]
_ELSEWHERE = CODE[Reason.VOLUME_ELSEWHERE]


def volume_codes(mounts: VolumeRequirements, placements: ClusterSnapshot) -> Codes:
    """Codes of all rows for volumes. Use of a volume by another pod is not checked here."""
    if mounts.missing:
        return np.full(placements.columns.size, _NOT_READY, np.uint8)
    if any(not claim.selected_node and candidates(claim, placements.storage) for claim, _ in mounts.waiting):
        return _one_by_one(mounts, placements)
    mask = all_rows(placements)
    for volume in mounts.bound:
        mask &= _reached(volume, placements) & _in_zone(volume, placements)
    for claim, storage_class in mounts.waiting:
        mask &= _made(claim, storage_class, placements)
    return np.where(mask, 0, _ELSEWHERE).astype(np.uint8)


def volume_code(mounts: VolumeRequirements, node: Node, placements: ClusterSnapshot) -> int:
    """Code of one node for volumes."""
    if mounts.missing:
        return _NOT_READY
    return _ELSEWHERE if why_elsewhere(mounts, node, placements.storage) else 0


def _one_by_one(mounts: VolumeRequirements, placements: ClusterSnapshot) -> Codes:
    """Codes node by node: unclaimed volumes exist, and the claims they go to differ from node to node."""
    codes = np.zeros(placements.columns.size, np.uint8)
    for name, row in placements.columns.rows.items():
        codes[row] = volume_code(mounts, placements.state.nodes[name], placements)
    return codes


def _reached(volume: PersistentVolume, placements: ClusterSnapshot) -> Mask:
    if volume.node_affinity is None:
        return all_rows(placements)
    return any_term(volume.node_affinity, placements, names=False)


def _in_zone(volume: PersistentVolume, placements: ClusterSnapshot) -> Mask:
    """Rows in the volume's zones. Rows without any zone or region label count as in all zones."""
    if not volume.zones:
        return all_rows(placements)
    placed, right = ~all_rows(placements), all_rows(placements)
    for key in ZONE_KEYS:
        placed |= has_label(placements, Requirement(key, Operator.EXISTS))
    for key, places in volume.zones:
        here = has_label(placements, Requirement(key, Operator.IN, places))
        unsaid = has_label(placements, Requirement(key, Operator.DOES_NOT_EXIST))
        right &= here | (unsaid & has_label(placements, Requirement(TODAYS_KEY.get(key, key), Operator.IN, places)))
    return right | ~placed


def _made(claim: PersistentVolumeClaim, storage_class: StorageClass, placements: ClusterSnapshot) -> Mask:
    mask = all_rows(placements)
    if claim.selected_node:
        mask[:] = False
        row = placements.columns.rows.get(claim.selected_node)
        if row is not None:
            mask[row] = True
    if not storage_class.makes_volumes:
        mask[:] = False
    return mask & _allowed(storage_class.topologies, placements)


def _allowed(topologies: tuple[Allowed, ...], placements: ClusterSnapshot) -> Mask:
    if not topologies:
        return all_rows(placements)
    found = ~all_rows(placements)
    for term in topologies:
        mask = all_rows(placements) if term else ~all_rows(placements)
        for key, values in term:
            mask &= has_label(placements, Requirement(key, Operator.IN, values))
        found |= mask
    return found
