"""Volumes, their claims and their classes."""

from ullage.errors import Unreadable
from ullage.kube.objects.meta import ObjectMeta
from ullage.kube.objects.pod import Quantities
from ullage.kube.objects.storage import KubePersistentVolume as KubeVolume
from ullage.kube.objects.storage import KubePersistentVolumeClaim as KubeVolumeClaim
from ullage.kube.objects.storage import KubeStorageClass
from ullage.kube.read.field_error import within
from ullage.kube.read.selectors import read_node_terms, read_selector
from ullage.model.fact_event import ObjectKey
from ullage.model.quantity import milli
from ullage.model.volume import PersistentVolume, PersistentVolumeClaim, StorageClass, zones_of

_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
_FILESYSTEM = "Filesystem"


def read_volume_claim(raw: KubeVolumeClaim) -> PersistentVolumeClaim:
    """Read a PersistentVolumeClaim's facts. It is bound once its controller marks it so, not when it names a volume."""
    meta, spec = raw.metadata, raw.spec
    try:
        with within("spec.selector"):
            selector = read_selector(spec.selector)
        with within("spec.resources.requests.storage"):
            size = _storage(spec.resources.requests)
    except ValueError as error:
        raise Unreadable(f"PersistentVolumeClaim {meta.namespace}/{meta.name}: {error}") from error
    return PersistentVolumeClaim(
        key=ObjectKey(meta.namespace, meta.name),
        uid=meta.uid,
        owner=next((owner.uid for owner in meta.owner_references if owner.controller), ""),
        deleting=meta.deletion_timestamp is not None,
        lost=raw.status.phase == "Lost",
        volume=spec.volume_name,
        bound=bool(spec.volume_name) and _BIND_COMPLETED in meta.annotations,
        storage_class=_class_of(meta, spec.storage_class_name),
        selected_node=meta.annotations.get(_SELECTED_NODE, ""),
        size=size,
        access=tuple(sorted(spec.access_modes)),
        mode=spec.volume_mode or _FILESYSTEM,
        attributes_class=spec.volume_attributes_class_name or "",
        selector=selector,
    )


def read_volume(raw: KubeVolume) -> PersistentVolume:
    """A volume's facts."""
    meta, spec = raw.metadata, raw.spec
    try:
        with within("spec.capacity.storage"):
            size = _storage(spec.capacity)
    except ValueError as error:
        raise Unreadable(f"PersistentVolume {meta.name}: {error}") from error
    nodes = None if spec.node_affinity is None else spec.node_affinity.required
    referred = spec.claim_ref
    return PersistentVolume(
        name=meta.name,
        labels=meta.labels,
        storage_class=_class_of(meta, spec.storage_class_name),
        available=raw.status.phase == "Available",
        deleting=meta.deletion_timestamp is not None,
        claim_ref=None if referred is None else ObjectKey(referred.namespace, referred.name),
        claim_ref_uid="" if referred is None else referred.uid,
        size=size,
        access=tuple(sorted(spec.access_modes)),
        mode=spec.volume_mode or _FILESYSTEM,
        attributes_class=spec.volume_attributes_class_name or "",
        node_affinity=None if nodes is None else read_node_terms(nodes.node_selector_terms),
        zones=zones_of(tuple(meta.labels.items())),
    )


def read_storage_class(raw: KubeStorageClass) -> StorageClass:
    """A class's facts."""
    return StorageClass(
        name=raw.metadata.name,
        provisioner=raw.provisioner,
        waits_for_consumer=raw.volume_binding_mode == "WaitForFirstConsumer",
        topologies=tuple(
            tuple((label.key, tuple(sorted(label.values))) for label in term.match_label_expressions)
            for term in raw.allowed_topologies
        ),
    )


def _storage(quantities: Quantities) -> int:
    return milli(quantities.get("storage", "0"))


def _class_of(meta: ObjectMeta, named: str | None) -> str:
    """The old annotation comes first, as it does for Kubernetes."""
    return meta.annotations.get(_OLD_CLASS, named or "")
