"""Prepare volumes that wait for their first consumer, as kube-scheduler does before it binds a pod.

A claim whose volume has to be provisioned gets the selected node as annotation, and the provisioner of its StorageClass
does the rest. An existing volume is reserved for its claim by `claimRef`. Then the volume controller binds the two; the
informers that run anyway deliver that. They may lag behind our own write, so a failure counts only after a fresh read.
Which volume goes to which claim is not decided here, nor is it checked that the node reaches a new volume.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeVar

from msgspec.structs import replace

from ullage import errors
from ullage.act.change_feed import ChangeFeed, Changes, Followed
from ullage.act.wait_for import PASSING
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.edit import edit
from ullage.kube.client.resource import Resource
from ullage.kube.client.resources import PERSISTENT_VOLUMES, VOLUME_CLAIMS
from ullage.kube.objects.storage import KubePersistentVolume, KubePersistentVolumeClaim
from ullage.kube.read import read_volume, read_volume_claim
from ullage.model import volume as facts
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import BindPod, VolumeAssignment
from ullage.model.outcomes import BindFailure, PodNotBound
from ullage.model.units import Seconds

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
"""Annotation of a volume that its owner did not reserve for the claim: the reservation ends with the claim."""
VOLUME_WAIT = Seconds(600.0)
"""Seconds a volume may take to be provisioned, as in kube-scheduler."""

_ATTEMPTS = 6
_PAUSE = 2.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class VolumesNotReady:
    """The pod cannot be bound to the node: a claim gets no volume there."""

    detail: str


class _Unusable(Exception):
    """The claim gets no volume on this node."""


class VolumeBinder:
    """Actuator for the volumes of a bind. Safe to run for many pods at once, and twice for the same claim."""

    def __init__(self, api: KubeApi, feed: ChangeFeed, *, wait: float = VOLUME_WAIT) -> None:
        """`feed` gets the events of claims and volumes."""
        self._api = api
        self._feed = feed
        self._wait = wait

    async def ready(
        self, namespace: str, claims: Sequence[str], node: str, volume_assignments: Sequence[VolumeAssignment] = ()
    ) -> VolumesNotReady | None:
        """Wait until all claims are bound: None, or why they are not. Raises ApiError where the API is unreachable."""
        assigned = {assignment.claim: assignment.volume for assignment in volume_assignments}
        waits = [_Wait(ObjectKey(namespace, claim), node, assigned.get(claim, "")) for claim in claims]
        followed = [one for wait in waits for one in wait.followed]
        with self._feed.following(*followed) as changes:
            try:
                unbound = [wait for wait in waits if not await self._ask_for(wait)]
                async with asyncio.timeout(self._wait):
                    while unbound:
                        await changes.next()
                        unbound = [wait for wait in unbound if not await self._is_bound(wait, changes)]
            except _Unusable as unusable:
                return VolumesNotReady(str(unusable))
            except TimeoutError:
                return VolumesNotReady(f"no volume within {self._wait:g} s for all of {', '.join(claims)}")
        return None

    async def _ask_for(self, wait: "_Wait") -> bool:
        """Reserve or request the claim's volume. True if the claim is bound already."""
        return await (self._assign(wait.key, wait.volume) if wait.volume else self._select(wait.key, wait.node))

    async def _select(self, key: ObjectKey, node: str) -> bool:
        """Write the selected node on the claim, unless it is bound. True if it is bound."""

        def selected(raw: KubePersistentVolumeClaim) -> KubePersistentVolumeClaim:
            claim = _usable(key, raw)
            if claim.bound or claim.selected_node == node:
                return raw
            if claim.selected_node:
                raise _Unusable(f"the volume of claim {key} is being made for {claim.selected_node}")
            notes = {**raw.metadata.annotations, SELECTED_NODE: node}
            return replace(raw, metadata=replace(raw.metadata, annotations=notes))

        try:
            told = await edit(self._api, VOLUME_CLAIMS, key.name, key.namespace, selected)
        except errors.NotFound as error:
            raise _Unusable(str(error)) from error
        return _usable(key, told).bound

    async def _assign(self, key: ObjectKey, name: str) -> bool:
        """Reserve the volume for the claim, unless the claim is bound. True if it is bound."""
        refusal: errors.ApiError = errors.Conflict(f"volume {name}: others were always faster")
        for _ in range(_ATTEMPTS):
            try:
                claim = _usable(key, await self._api.get(VOLUME_CLAIMS, key.name, key.namespace))
                raw = await self._api.get(PERSISTENT_VOLUMES, name)
                if not claim.bound:
                    await self._write_claim_ref(raw, claim)
            except errors.NotFound as error:
                raise _Unusable(str(error)) from error
            except errors.Conflict as error:
                refusal = error
            else:
                return claim.bound
        raise refusal

    async def _write_claim_ref(self, raw: KubePersistentVolume, claim: facts.PersistentVolumeClaim) -> None:
        volume = read_volume(raw)
        if volume.deleting or (volume.claim_ref is not None and not volume.belongs_to(claim)):
            raise _Unusable(f"volume {volume.name} is not to be had for claim {claim.key}")
        if volume.claim_ref_uid:
            return
        reference = {"kind": VOLUME_CLAIMS.kind, "apiVersion": VOLUME_CLAIMS.api_version, "uid": claim.uid}
        where = {"namespace": claim.key.namespace, "name": claim.key.name}
        meta: dict[str, object] = {"resourceVersion": raw.metadata.resource_version}
        if volume.claim_ref is None:
            meta["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
        body = {"metadata": meta, "spec": {"claimRef": reference | where}}
        await self._api.patch(PERSISTENT_VOLUMES, volume.name, MergePatch(body))

    async def _is_bound(self, wait: "_Wait", changes: Changes) -> bool:
        """True if the claim is bound now. Raises _Hopeless where it cannot become bound."""
        said = [wait.check(changes.latest.pop(one)) for one in wait.followed if one in changes.latest]
        if _Said.BOUND in said:
            return True
        if _Said.BAD not in said:
            return False
        claim = _usable(wait.key, await self._afresh(VOLUME_CLAIMS, wait.key))
        if claim.bound:
            return True
        if wait.volume:
            raw = await self._afresh(PERSISTENT_VOLUMES, ObjectKey("", wait.volume))
            if raw is None or read_volume(raw).claim_ref != wait.key:
                raise _Unusable(f"volume {wait.volume} is no longer there for claim {wait.key}")
        elif claim.selected_node != wait.node:
            raise _Unusable(f"the volume of claim {wait.key} could not be made for {wait.node}")
        return False

    async def _afresh(self, resource: Resource[T], key: ObjectKey) -> T | None:
        """Object as it is now; None if there is none. Passing errors are retried: the caller sets a deadline."""
        while True:
            try:
                return await self._api.get(resource, key.name, key.namespace)
            except errors.NotFound:
                return None
            except PASSING:
                await asyncio.sleep(_PAUSE)


async def prepare_volumes(selector: VolumeBinder | None, action: BindPod) -> PodNotBound | None:
    """Prepare the volumes of a bind. None if the pod can be bound; else its failure."""
    if not action.volumes:
        return None
    if selector is None:
        raise ValueError(f"pod {action.pod} has volumes that wait for it, and nobody here to get them ready")
    try:
        ready = await selector.ready(action.pod.namespace, action.volumes, action.node, action.volume_assignments)
    except errors.ApiError as error:
        return PodNotBound(action, BindFailure.API_FAILED, str(error))
    return None if ready is None else PodNotBound(action, BindFailure.VOLUME_NOT_READY, ready.detail)


class _Said(Enum):
    """Meaning of an observed change for a wait."""

    BOUND = auto()
    NOTHING = auto()
    BAD = auto()
    """The wait may have failed, or the event is older than our own write."""


@dataclass(frozen=True, slots=True)
class _Wait:
    """Claim that waits for a volume provisioned for the node, or for the volume reserved for it."""

    key: ObjectKey
    node: str
    volume: str

    @property
    def followed(self) -> tuple[Followed, ...]:
        claim = (facts.PersistentVolumeClaim, self.key)
        return (claim, (facts.PersistentVolume, ObjectKey("", self.volume))) if self.volume else (claim,)

    def check(self, fact: facts.PersistentVolumeClaim | facts.PersistentVolume | None) -> _Said:
        match fact:
            case facts.PersistentVolumeClaim(bound=True, deleting=False, lost=False):
                return _Said.BOUND
            case facts.PersistentVolumeClaim(deleting=False, lost=False):
                return _Said.NOTHING if self.volume or fact.selected_node == self.node else _Said.BAD
            case facts.PersistentVolume():
                return _Said.NOTHING if fact.claim_ref == self.key else _Said.BAD
            case _:
                return _Said.BAD


def _usable(key: ObjectKey, raw: KubePersistentVolumeClaim | None) -> facts.PersistentVolumeClaim:
    """The claim as a fact. Raises _Hopeless if it is gone, being deleted or lost."""
    if raw is None:
        raise _Unusable(f"claim {key} is gone")
    claim = read_volume_claim(raw)
    if claim.deleting:
        raise _Unusable(f"claim {key} is being deleted")
    if claim.lost:
        raise _Unusable(f"claim {key} has lost its volume {claim.volume}")
    return claim
