"""What a pod's volume claims come to: volumes that are there, volumes still to be made, or nothing to start with."""

from dataclasses import dataclass

from ullage.model.event import ObjectKey
from ullage.model.shape import Shape
from ullage.model.terms import ClaimUse
from ullage.model.volume import StorageClass, Volume, VolumeClaim
from ullage.state.cluster import ClusterState


@dataclass(frozen=True, slots=True)
class Mounts:
    """Sorted out by what has to be asked of a node."""

    missing: str = ""
    """Why no node will do: a claim is not there or not ready."""
    bound: tuple[Volume, ...] = ()
    waiting: tuple[tuple[VolumeClaim, StorageClass], ...] = ()
    """Claims whose volume is bound or made once the pod has a node."""
    one_pod_only: tuple[ObjectKey, ...] = ()


def mounts_of(shape: Shape, state: ClusterState) -> Mounts:
    """Raises nothing: what is wrong is said in `missing`, for the first claim that is wrong."""
    bound: list[Volume] = []
    waiting: list[tuple[VolumeClaim, StorageClass]] = []
    exclusive: list[ObjectKey] = []
    for use in shape.claims:
        claim = state.volume_claims.get(use.claim)
        if claim is None:
            return Mounts(missing=f"claim {use.claim} does not exist")
        if problem := _unusable(use, claim):
            return Mounts(missing=problem)
        if claim.bound:
            volume = state.volumes.get(claim.volume)
            if volume is None:
                return Mounts(missing=f"claim {claim.key} names volume {claim.volume}, which does not exist")
            bound.append(volume)
        else:
            storage_class = state.storage_classes.get(claim.storage_class)
            if claim.volume or storage_class is None or not storage_class.waits_for_consumer:
                return Mounts(missing=f"claim {claim.key} is not bound yet")
            waiting.append((claim, storage_class))
        if claim.one_pod_only and not use.owner:
            exclusive.append(claim.key)
    return Mounts(bound=tuple(bound), waiting=tuple(waiting), one_pod_only=tuple(exclusive))


def _unusable(use: ClaimUse, claim: VolumeClaim) -> str:
    if claim.lost:
        return f"claim {claim.key} has lost its volume {claim.volume}"
    if claim.deleting:
        return f"claim {claim.key} is being deleted"
    if use.owner and claim.owner != use.owner:
        return f"claim {claim.key} belongs to somebody else"
    return ""


def candidates(claim: VolumeClaim, state: ClusterState) -> list[Volume]:
    """Volumes that would do for this claim wherever its pod goes, in the order of their names."""
    return [volume for _, volume in sorted(state.volumes.items()) if _would_do(volume, claim)]


def _would_do(volume: Volume, claim: VolumeClaim) -> bool:
    if volume.deleting or volume.size < claim.size or volume.mode != claim.mode:
        return False
    if volume.storage_class != claim.storage_class or volume.attributes_class != claim.attributes_class:
        return False
    if volume.promised_to is not None:
        return volume.belongs_to(claim)
    if not volume.available or not set(claim.access) <= set(volume.access):
        return False
    return claim.selector is None or claim.selector.matches(volume.labels)
