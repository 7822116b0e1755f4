"""Nodes that a pod with volumes may have, as terms of node affinity: Karpenter knows no volumes of a smart pod.

The labels are taken as the volumes say them: Karpenter knows the topology labels of its cloud's storage drivers.
"""

from collections.abc import Sequence
from itertools import islice, product

from ullage.decide.placement.filters.volume_requirements import VolumeRequirements, candidates
from ullage.model.provisioner import HOST_LABEL
from ullage.model.selector import Operator, Requirement
from ullage.model.shape_terms import NodeTerm
from ullage.model.volume import TODAYS_KEY, Allowed, PersistentVolume, PersistentVolumeClaim, StorageClass
from ullage.state.storage import Storage

Terms = tuple[NodeTerm, ...] | None
"""Alternatives; None admits every node, an empty tuple none."""

MOST_TERMS = 64
"""Most alternatives that are kept: a pod with several volumes of several zones each has their product."""


def with_volumes(terms: Terms, mounts: VolumeRequirements, storage: Storage) -> Terms:
    """Node affinity terms of a pod, each with what its volumes require. Empty if no node could satisfy both."""
    for volume in mounts.bound:
        terms = both(terms, _of_volume(volume))
    for claim, storage_class in mounts.waiting:
        terms = both(terms, _of_new_volume(claim, storage_class, storage))
    return terms


def both(ours: Terms, theirs: Terms) -> Terms:
    """Terms that satisfy one of each; pairs that contradict each other are left out."""
    if ours is None or theirs is None:
        return theirs if ours is None else ours
    pairs = (_joined(one, other) for one, other in product(ours, theirs))
    return tuple(islice((one for one in pairs if one is not None), MOST_TERMS))


def _of_volume(volume: PersistentVolume) -> Terms:
    reached = volume.node_affinity
    if reached is not None:
        # Volumes are matched with labels alone; a term without any holds for no node.
        reached = tuple(NodeTerm(labels=one.labels) for one in reached if one.labels)
    return both(reached, (_term(volume.zones),) if volume.zones else None)


def _of_new_volume(claim: PersistentVolumeClaim, storage_class: StorageClass, storage: Storage) -> Terms:
    """Terms of a volume that is bound, or made, once the pod has a node."""
    if claim.selected_node:
        return ()  # it is being made for a node that is there
    if storage_class.makes_volumes:
        topologies = storage_class.topologies
        return tuple(_term(one) for one in topologies if one) if topologies else None
    found: dict[NodeTerm, None] = {}
    for volume in candidates(claim, storage):
        terms = _of_volume(volume)
        if terms is None:
            return None
        found |= dict.fromkeys(terms)
    # No new node has the disk of another. Disks come and go with pods, and a request must not change with them.
    anywhere = [term for term in found if not _is_of_one_node(term)]
    return tuple(sorted(anywhere or found, key=str)[:MOST_TERMS])


def _is_of_one_node(term: NodeTerm) -> bool:
    return any(one.key == HOST_LABEL and one.operator is Operator.IN for one in term.labels)


def _term(places: Allowed) -> NodeTerm:
    return NodeTerm(labels=tuple(Requirement(TODAYS_KEY.get(key, key), Operator.IN, values) for key, values in places))


def _joined(one: NodeTerm, other: NodeTerm) -> NodeTerm | None:
    """Both terms as one; None if a label would need two values."""
    labels = _merged((*one.labels, *other.labels))
    return None if labels is None else NodeTerm(labels=labels, fields=(*one.fields, *other.fields))


def _merged(requirements: Sequence[Requirement]) -> tuple[Requirement, ...] | None:
    """Requirements with one `In` per label; None if its values exclude each other."""
    places: dict[str, tuple[str, ...]] = {}
    for one in requirements:
        if one.operator is Operator.IN:
            known = places.get(one.key, one.values)
            places[one.key] = tuple(value for value in known if value in one.values)
    if not all(places.values()):
        return None
    met = (
        Requirement(one.key, one.operator, places[one.key]) if one.operator is Operator.IN else one
        for one in requirements
    )
    return tuple(dict.fromkeys(met))
