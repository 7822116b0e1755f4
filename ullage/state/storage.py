"""Volumes and claims as they will be once every decision is written.

A pod that mounts a claim which waits for its first consumer decides where the volume is made, or which volume the claim
gets. The watch shows that only after it is written. Until then it is assumed here, so that two decisions do not give
one volume to two claims, or make one claim's volume in two places.
"""

from collections.abc import Hashable, Iterator, Mapping
from typing import TypeVar

import msgspec

from ullage.model.fact_event import ObjectKey
from ullage.model.volume import PersistentVolume, PersistentVolumeClaim, StorageClass
from ullage.state.cluster import ClusterState
from ullage.state.forking import forked

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class AssumedVolume(msgspec.Struct, frozen=True, gc=False):
    """Effect of a placement on one PersistentVolumeClaim of its pod."""

    claim: ObjectKey
    node: str
    volume: str = ""
    """The volume it gets; empty where one has to be made for the node."""


class Storage:
    """Volumes, claims and storage classes as observed, with the assumed changes on top."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._of_pod: dict[ObjectKey, tuple[AssumedVolume, ...]] = {}
        self._of_claim: dict[ObjectKey, dict[ObjectKey, AssumedVolume]] = {}
        """Assumed volumes by claim and pod, in the order they were placed: the first decides."""
        self._of_volume: dict[str, dict[ObjectKey, None]] = {}
        """Claims that are to get a volume; more than one only after a mistake."""

    def fork_for(self, state: ClusterState) -> "Storage":
        """Return a copy for the forked state."""
        twin = Storage(state)
        twin._of_pod, twin._of_claim = self._of_pod.copy(), forked(self._of_claim)
        twin._of_volume = forked(self._of_volume)
        return twin

    @property
    def storage_classes(self) -> Mapping[str, StorageClass]:
        return self._state.storage_classes

    def claim(self, key: ObjectKey) -> PersistentVolumeClaim | None:
        """Return a claim, with the node its volume is to be made for if that is decided."""
        claim = self._state.volume_claims.get(key)
        users = self._of_claim.get(key)
        if claim is None or not users or claim.volume or claim.selected_node:
            return claim
        assumed = next(iter(users.values()))
        return claim if assumed.volume else msgspec.structs.replace(claim, selected_node=assumed.node)

    def volume(self, name: str) -> PersistentVolume | None:
        """A volume; promised to the claim that is to get it, if that is decided."""
        volume = self._state.volumes.get(name)
        claims = self._of_volume.get(name)
        if volume is None or not claims or volume.claim_ref is not None:
            return volume
        key = next(iter(claims))
        claim = self._state.volume_claims.get(key)
        return msgspec.structs.replace(
            volume, claim_ref=key, claim_ref_uid="" if claim is None else claim.uid, available=False
        )

    def volumes(self) -> Iterator[PersistentVolume]:
        """All volumes, by name."""
        known = self._state.volumes
        for name in sorted(known):
            volume = self.volume(name) if name in self._of_volume else known[name]
            if volume is not None:
                yield volume

    def of(self, pod: ObjectKey) -> tuple[AssumedVolume, ...]:
        """Assumed volumes of a pod, in the order of its claims."""
        return self._of_pod.get(pod, ())

    def assume(self, pod: ObjectKey, assumed: tuple[AssumedVolume, ...]) -> bool:
        """Replace the assumed volumes of a pod. True if that changes anything."""
        before = self._of_pod.pop(pod, ())
        if not before and not assumed:
            return False
        for one in before:
            _leave(self._of_claim, one.claim, pod)
            if one.volume and not any(user.volume == one.volume for user in self._users(one.claim)):
                _leave(self._of_volume, one.volume, one.claim)
        for one in assumed:
            self._of_claim.setdefault(one.claim, {})[pod] = one
            if one.volume:
                self._of_volume.setdefault(one.volume, {})[one.claim] = None
        if assumed:
            self._of_pod[pod] = assumed
        return before != assumed

    def _users(self, claim: ObjectKey) -> Iterator[AssumedVolume]:
        yield from self._of_claim.get(claim, {}).values()


def _leave(index: dict[K, dict[ObjectKey, V]], key: K, member: ObjectKey) -> None:
    members = index[key]
    del members[member]
    if not members:
        del index[key]
