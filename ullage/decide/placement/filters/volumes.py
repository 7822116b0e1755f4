"""Filters about volumes: claims are usable, the node reaches the volumes, no other pod has a ReadWriteOncePod one.

Not checked: how many volumes a node can attach (CSINode) and how much a storage backend has left
(CSIStorageCapacity).
"""

import numpy as np

from ullage.decide.placement.filters.codes import CODE, Codes, first_of
from ullage.decide.placement.filters.masks import all_rows, any_term, has_label
from ullage.decide.placement.filters.pod_query import PodQuery
from ullage.decide.placement.filters.rule import (
    BoundFilter,
    ClusterFilter,
    ClusterRule,
    FilterRule,
    Mask,
    Reads,
    Rows,
    cure,
    says,
)
from ullage.decide.placement.filters.volume_matching import why_elsewhere
from ullage.decide.placement.filters.volume_requirements import VolumeRequirements, candidates, mounts_of
from ullage.model.fact_event import ObjectKey
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.selector import Operator, Requirement
from ullage.model.shape import Shape
from ullage.model.verdict import ClusterEvent, Reason
from ullage.model.volume import TODAYS_KEY, ZONE_KEYS, Allowed, PersistentVolume, PersistentVolumeClaim, StorageClass
from ullage.state.snapshot import ClusterSnapshot

_IN_USE = CODE[Reason.VOLUME_IN_USE]
_VOLUMES_CHANGE = cure(ClusterEvent.NODE_CHANGED, ClusterEvent.VOLUME_CHANGED)


class _Volumes(BoundFilter):
    """Volumes of one shape, as they were when the filter was bound."""

    expires = True

    def __init__(self, shape: Shape, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._version = snapshot.volumes_version
        self.mounts = mounts_of(shape, snapshot.storage)

    def current(self) -> bool:
        return self._version == self._snapshot.volumes_version


class _UnusableClaim(_Volumes):
    def rejects(self, rows: Rows) -> Mask:
        return np.ones(len(rows), np.bool_)

    def rejects_row(self, _row: int) -> bool:
        return True


class _Reachable(_Volumes):
    def rejects(self, rows: Rows) -> Mask:
        found: Mask = ~_reaching(self.mounts, self._snapshot)[rows]
        return found

    def rejects_row(self, row: int) -> bool:
        node = self._snapshot.state.nodes[self._snapshot.columns.names[row]]
        return bool(why_elsewhere(self.mounts, node, self._snapshot.storage))


class _InUse:
    """ReadWriteOncePod claims of one shape: no node fits while another pod has one."""

    def __init__(self, shape: Shape, snapshot: ClusterSnapshot) -> None:
        self._shape, self._snapshot = shape, snapshot
        self._version = -1
        self._one_pod_only: tuple[ObjectKey, ...] = ()

    def over(self, codes: Codes | None, _: Pod) -> Codes | None:
        if self._version != self._snapshot.volumes_version:
            self._one_pod_only = mounts_of(self._shape, self._snapshot.storage).one_pod_only
            self._version = self._snapshot.volumes_version
        if not any(self._snapshot.claim_users(claim) for claim in self._one_pod_only):
            return codes
        in_use = np.full(self._snapshot.columns.size, _IN_USE, np.uint8)
        return in_use if codes is None else first_of(codes, in_use)


def _bind_unusable(shape: Shape, snapshot: ClusterSnapshot) -> BoundFilter | None:
    bound = _UnusableClaim(shape, snapshot) if shape.claims else None
    return bound if bound is not None and bound.mounts.missing else None


def _bind_reachable(shape: Shape, snapshot: ClusterSnapshot) -> BoundFilter | None:
    bound = _Reachable(shape, snapshot) if shape.claims else None
    return None if bound is None or bound.mounts.missing else bound


def _bind_in_use(shape: Shape, snapshot: ClusterSnapshot) -> ClusterFilter | None:
    return _InUse(shape, snapshot) if shape.claims else None


def _in_use_by(query: PodQuery, _: Node) -> str | None:
    for claim in query.mounts.one_pod_only:
        for pod in query.snapshot.claim_users(claim):
            return f"claim {claim} is for one pod, and {pod} has it"
    return None


VOLUME_RULES = (
    FilterRule(
        reason=Reason.VOLUME_NOT_READY,
        cure=_VOLUMES_CHANGE,
        words="A PersistentVolumeClaim of the pod does not exist, is not bound or is not usable by it.",
        advice=says("make its volumes ready: {detail}"),
        headline="a volume of it is not ready",
        reads=Reads.NODE,
        explain=lambda query, _: query.mounts.missing or None,
        bind=_bind_unusable,
    ),
    FilterRule(
        reason=Reason.VOLUME_ELSEWHERE,
        cure=_VOLUMES_CHANGE,
        words="A volume of the pod cannot be reached from the node, or cannot be made for it.",
        advice=says("a node that reaches its volumes: on {node}, {detail}"),
        headline="no node that could take it reaches its volumes",
        reads=Reads.NODE,
        explain=lambda query, node: why_elsewhere(query.mounts, node, query.snapshot.storage) or None,
        bind=_bind_reachable,
    ),
)
"""Rules in the order they are evaluated."""

VOLUME_USE_RULES = (
    ClusterRule(
        reason=Reason.VOLUME_IN_USE,
        cure=cure(ClusterEvent.POD_LEFT, ClusterEvent.VOLUME_CHANGED, fewer_pods=True),
        words="A ReadWriteOncePod volume of the pod is in use by another pod.",
        advice=says("end the pod that has its volume: {detail}"),
        headline="its volume is in use by another pod",
        explain=_in_use_by,
        bind=_bind_in_use,
    ),
)


def _reaching(mounts: VolumeRequirements, snapshot: ClusterSnapshot) -> Mask:
    """Rows that reach all existing volumes, and for which the others can be provisioned."""
    if any(not claim.selected_node and candidates(claim, snapshot.storage) for claim, _ in mounts.waiting):
        return _one_by_one(mounts, snapshot)
    mask = all_rows(snapshot)
    for volume in mounts.bound:
        mask &= _reached(volume, snapshot) & _in_zone(volume, snapshot)
    for claim, storage_class in mounts.waiting:
        mask &= _made(claim, storage_class, snapshot)
    return mask


def _one_by_one(mounts: VolumeRequirements, snapshot: ClusterSnapshot) -> Mask:
    """Rows that reach all volumes, node by node: unclaimed volumes exist, and where they go differs by node."""
    mask = all_rows(snapshot)
    for name, row in snapshot.columns.rows.items():
        mask[row] = not why_elsewhere(mounts, snapshot.state.nodes[name], snapshot.storage)
    return mask


def _reached(volume: PersistentVolume, snapshot: ClusterSnapshot) -> Mask:
    if volume.node_affinity is None:
        return all_rows(snapshot)
    return any_term(volume.node_affinity, snapshot, names=False)


def _in_zone(volume: PersistentVolume, snapshot: ClusterSnapshot) -> Mask:
    """Rows in the volume's zones. Rows without any zone or region label count as in all zones."""
    if not volume.zones:
        return all_rows(snapshot)
    placed, right = ~all_rows(snapshot), all_rows(snapshot)
    for key in ZONE_KEYS:
        placed |= has_label(snapshot, Requirement(key, Operator.EXISTS))
    for key, places in volume.zones:
        here = has_label(snapshot, Requirement(key, Operator.IN, places))
        unsaid = has_label(snapshot, Requirement(key, Operator.DOES_NOT_EXIST))
        right &= here | (unsaid & has_label(snapshot, Requirement(TODAYS_KEY.get(key, key), Operator.IN, places)))
    return right | ~placed


def _made(claim: PersistentVolumeClaim, storage_class: StorageClass, snapshot: ClusterSnapshot) -> Mask:
    mask = all_rows(snapshot)
    if claim.selected_node:
        mask[:] = False
        row = snapshot.columns.rows.get(claim.selected_node)
        if row is not None:
            mask[row] = True
    if not storage_class.makes_volumes:
        mask[:] = False
    return mask & _allowed(storage_class.topologies, snapshot)


def _allowed(topologies: tuple[Allowed, ...], snapshot: ClusterSnapshot) -> Mask:
    if not topologies:
        return all_rows(snapshot)
    found = ~all_rows(snapshot)
    for term in topologies:
        mask = all_rows(snapshot) if term else ~all_rows(snapshot)
        for key, values in term:
            mask &= has_label(snapshot, Requirement(key, Operator.IN, values))
        found |= mask
    return found
