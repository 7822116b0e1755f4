"""Which rows reach a shape's volumes: the vector twin of `rules.volume`."""

import numpy as np

from ullage.decide.fit.codes import CODE, Codes
from ullage.decide.fit.mounts import Mounts, candidates
from ullage.decide.fit.rules.volume import why_elsewhere
from ullage.decide.fit.vectors.masks import Mask, all_rows, any_term, has_label
from ullage.model.node import Node
from ullage.model.selector import Operator, Requirement
from ullage.model.verdict import Reason
from ullage.model.volume import TODAYS_KEY, ZONE_KEYS, Allowed, StorageClass, Volume, VolumeClaim
from ullage.state.placements import Placements

_NOT_READY = CODE[Reason.VOLUME_NOT_READY]
_ELSEWHERE = CODE[Reason.VOLUME_ELSEWHERE]


def volume_codes(mounts: Mounts, placements: Placements) -> Codes:
    """A code for every row, as far as volumes are concerned, and not who else has them."""
    if mounts.missing:
        return np.full(placements.columns.size, _NOT_READY, np.uint8)
    if any(not claim.selected_node and candidates(claim, placements.state) for claim, _ in mounts.waiting):
        return _one_by_one(mounts, placements)
    mask = all_rows(placements)
    for volume in mounts.bound:
        mask &= _reached(volume, placements) & _in_zone(volume, placements)
    for claim, storage_class in mounts.waiting:
        mask &= _made(claim, storage_class, placements)
    return np.where(mask, 0, _ELSEWHERE).astype(np.uint8)


def volume_code(mounts: Mounts, node: Node, placements: Placements) -> int:
    """The same for one node."""
    if mounts.missing:
        return _NOT_READY
    return _ELSEWHERE if why_elsewhere(mounts, node, placements.state) else 0


def _one_by_one(mounts: Mounts, placements: Placements) -> Codes:
    """Volumes that wait to be claimed: which claim gets which differs from node to node."""
    codes = np.zeros(placements.columns.size, np.uint8)
    for name, row in placements.columns.rows.items():
        codes[row] = volume_code(mounts, placements.state.nodes[name], placements)
    return codes


def _reached(volume: Volume, placements: Placements) -> Mask:
    if volume.node_affinity is None:
        return all_rows(placements)
    return any_term(volume.node_affinity, placements, names=False)


def _in_zone(volume: Volume, placements: Placements) -> Mask:
    """Rows without any zone or region label are everywhere."""
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


def _made(claim: VolumeClaim, storage_class: StorageClass, placements: Placements) -> Mask:
    mask = all_rows(placements)
    if claim.selected_node:
        mask[:] = False
        row = placements.columns.rows.get(claim.selected_node)
        if row is not None:
            mask[row] = True
    if not storage_class.makes_volumes:
        mask[:] = False
    return mask & _allowed(storage_class.topologies, placements)


def _allowed(topologies: tuple[Allowed, ...], placements: Placements) -> Mask:
    if not topologies:
        return all_rows(placements)
    found = ~all_rows(placements)
    for term in topologies:
        mask = all_rows(placements) if term else ~all_rows(placements)
        for key, values in term:
            mask &= has_label(placements, Requirement(key, Operator.IN, values))
        found |= mask
    return found
