"""Volume claims of a pod, resolved: existing volumes, volumes to be provisioned, or a claim that is not usable."""

from dataclasses import dataclass

from ullage.model.fact_event import ObjectKey
from ullage.model.shape import Shape
from ullage.model.shape_terms import ClaimUse
from ullage.model.volume import PersistentVolume, PersistentVolumeClaim, StorageClass
from ullage.state.storage import Storage


@dataclass(frozen=True, slots=True)
class VolumeRequirements:
    """Volume claims of one shape, grouped by what they require of a node."""

    missing: str = ""
    """Detail of the first claim that does not exist or is not usable, so that no node fits; empty if all are usable."""
    bound: tuple[PersistentVolume, ...] = ()
    waiting: tuple[tuple[PersistentVolumeClaim, StorageClass], ...] = ()
    """Claims whose volume is bound or provisioned once the pod has a node."""
    one_pod_only: tuple[ObjectKey, ...] = ()


def mounts_of(shape: Shape, storage: Storage) -> VolumeRequirements:
    """Resolve the volume claims of a shape. Raises nothing: `missing` describes the first claim that is not usable."""
    bound: list[PersistentVolume] = []
    waiting: list[tuple[PersistentVolumeClaim, StorageClass]] = []
    exclusive: list[ObjectKey] = []
    for use in shape.claims:
        claim = storage.claim(use.claim)
        if claim is None:
            return VolumeRequirements(missing=f"claim {use.claim} does not exist")
        if problem := _unusable(use, claim):
            return VolumeRequirements(missing=problem)
        if claim.bound:
            volume = storage.volume(claim.volume)
            if volume is None:
                return VolumeRequirements(
                    missing=f"claim {claim.key} names volume {claim.volume}, which does not exist"
                )
            bound.append(volume)
        else:
            storage_class = storage.storage_classes.get(claim.storage_class)
            if claim.volume or storage_class is None or not storage_class.waits_for_consumer:
                return VolumeRequirements(missing=f"claim {claim.key} is not bound yet")
            waiting.append((claim, storage_class))
        if claim.one_pod_only and not use.owner:
            exclusive.append(claim.key)
    return VolumeRequirements(bound=tuple(bound), waiting=tuple(waiting), one_pod_only=tuple(exclusive))


def _unusable(use: ClaimUse, claim: PersistentVolumeClaim) -> str:
    if claim.lost:
        return f"claim {claim.key} has lost its volume {claim.volume}"
    if claim.deleting:
        return f"claim {claim.key} is being deleted"
    if use.owner and claim.owner != use.owner:
        return f"claim {claim.key} belongs to somebody else"
    return ""


def candidates(claim: PersistentVolumeClaim, storage: Storage) -> list[PersistentVolume]:
    """Volumes that suit this claim apart from the node, in the order of their names."""
    return [volume for volume in storage.volumes() if _would_do(volume, claim)]


def _would_do(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    if volume.deleting or volume.size < claim.size or volume.mode != claim.mode:
        return False
    if volume.storage_class != claim.storage_class or volume.attributes_class != claim.attributes_class:
        return False
    if volume.claim_ref is not None:
        return volume.belongs_to(claim)
    if not volume.available or not set(claim.access) <= set(volume.access):
        return False
    return claim.selector is None or claim.selector.matches(volume.labels)
