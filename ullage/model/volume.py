"""Volumes as decisions see them: claims, their volumes, and the storage classes new volumes are made by."""

import msgspec

from ullage.model.fact_event import ObjectKey
from ullage.model.selector import Selector
from ullage.model.shape_terms import NodeTerm, Pairs

NO_PROVISIONER = "kubernetes.io/no-provisioner"

ZONE_KEYS = (
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)
"""Labels of volumes that bind them to zones and regions, oldest spelling first."""

TODAYS_KEY = {ZONE_KEYS[0]: ZONE_KEYS[2], ZONE_KEYS[1]: ZONE_KEYS[3]}

Allowed = tuple[tuple[str, tuple[str, ...]], ...]
"""Labels with the values they may have; all must hold."""


class PersistentVolumeClaim(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one PersistentVolumeClaim."""

    key: ObjectKey
    uid: str
    owner: str = ""
    """Uid of its controller."""
    deleting: bool = False
    lost: bool = False
    """Its volume is gone."""
    volume: str = ""
    """Volume it names."""
    bound: bool = False
    """True if the binding is complete: the volume is its own."""
    storage_class: str = ""
    selected_node: str = ""
    """Node its volume is to be made for."""
    size: int = 0
    access: tuple[str, ...] = ()
    mode: str = "Filesystem"
    attributes_class: str = ""
    selector: Selector | None = None

    @property
    def one_pod_only(self) -> bool:
        return "ReadWriteOncePod" in self.access


class PersistentVolume(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one PersistentVolume."""

    name: str
    labels: dict[str, str]
    storage_class: str = ""
    available: bool = False
    deleting: bool = False
    claim_ref: ObjectKey | None = None
    claim_ref_uid: str = ""
    size: int = 0
    access: tuple[str, ...] = ()
    mode: str = "Filesystem"
    attributes_class: str = ""
    node_affinity: tuple[NodeTerm, ...] | None = None
    """Nodes that reach it: alternatives; None for all nodes."""
    zones: Allowed = ()
    """Zone and region labels, each with the set of places it names."""

    def belongs_to(self, claim: PersistentVolumeClaim) -> bool:
        return self.claim_ref == claim.key and self.claim_ref_uid in ("", claim.uid)


class StorageClass(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one StorageClass."""

    name: str
    provisioner: str = ""
    waits_for_consumer: bool = False
    """Volumes are made or bound when a pod that mounts them has a node."""
    topologies: tuple[Allowed, ...] = ()
    """Topologies volumes may be made in: alternatives. Empty allows every place."""

    @property
    def makes_volumes(self) -> bool:
        return self.provisioner not in ("", NO_PROVISIONER)


def zones_of(labels: Pairs) -> Allowed:
    """Places in a volume's labels (`a__b` names two). A label with an empty place says nothing."""
    by_key = dict(labels)
    found = ((key, tuple(part.strip() for part in by_key[key].split("__"))) for key in ZONE_KEYS if key in by_key)
    return tuple((key, tuple(sorted(set(places)))) for key, places in found if all(places))
