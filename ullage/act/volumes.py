"""Gets the volumes of a pod ready that wait for their first consumer, as kube-scheduler does before it binds a pod.

A claim whose volume has to be made is told the node, and whoever makes volumes of its class does the rest. A volume
that is there already is promised to its claim. Then the volume controller has to bind the two. Which volume goes to
which claim is not decided here, nor is it checked that the node reaches what was made for it.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from ullage import errors
from ullage.act.together import ended
from ullage.act.until import until
from ullage.kube.api import KubeApi, MergePatch
from ullage.kube.edit import edit
from ullage.kube.objects.storage import Volume, VolumeClaim
from ullage.kube.read import read_volume, read_volume_claim
from ullage.kube.resources import PERSISTENT_VOLUMES, VOLUME_CLAIMS
from ullage.model import volume as facts
from ullage.model.action import Place, VolumePromise
from ullage.model.event import ObjectKey
from ullage.model.outcome import NotPlaced, Setback

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
"""On a volume that was not promised to its claim by its owner: the promise ends with the claim."""
VOLUME_WAIT = 600.0
"""Seconds a volume may take to be made, as kube-scheduler has it."""

_ATTEMPTS = 6


@dataclass(frozen=True, slots=True)
class NotReady:
    """The pod cannot be bound to the node: this claim gets no volume there."""

    detail: str


class _Hopeless(Exception):
    """This claim gets no volume here."""


class VolumeSelector:
    """Hands for the volumes of a placement. Safe to run for many pods at once, and twice for the same claim."""

    def __init__(self, api: KubeApi, *, wait: float = VOLUME_WAIT) -> None:
        self._api = api
        self._wait = wait

    async def prepare(self, action: Place) -> NotPlaced | None:
        """None where nothing stands in the way of the bind. Every other way this can end is an outcome, too."""
        if not action.volumes:
            return None
        try:
            ready = await self.ready(action.pod.namespace, action.volumes, action.node, action.promises)
        except errors.ApiError as error:
            return NotPlaced(action, Setback.API_FAILED, str(error))
        return None if ready is None else NotPlaced(action, Setback.VOLUME_NOT_READY, ready.detail)

    async def ready(
        self, namespace: str, claims: Sequence[str], node: str, promises: Sequence[VolumePromise] = ()
    ) -> NotReady | None:
        """None once all claims are bound. Raises ApiError where the API could not be asked."""
        promised = {promise.claim: promise.volume for promise in promises}
        keys = [ObjectKey(namespace, claim) for claim in claims]
        try:
            for key in keys:
                await (self._promise(key, promised[key.name]) if key.name in promised else self._select(key, node))
            async with asyncio.timeout(self._wait):
                await _all_of([self._bound(key, node, promised.get(key.name, "")) for key in keys])
        except _Hopeless as hopeless:
            return NotReady(str(hopeless))
        except TimeoutError:
            return NotReady(f"no volume within {self._wait:g} s for all of {', '.join(claims)}")
        return None

    async def _select(self, key: ObjectKey, node: str) -> None:
        """Tell the claim for which node its volume is to be made, unless it has one."""

        def selected(raw: VolumeClaim) -> VolumeClaim:
            claim = _usable(key, raw)
            if claim.bound or claim.selected_node == node:
                return raw
            if claim.selected_node:
                raise _Hopeless(f"the volume of claim {key} is being made for {claim.selected_node}")
            notes = {**raw.metadata.annotations, SELECTED_NODE: node}
            return replace(raw, metadata=replace(raw.metadata, annotations=notes))

        try:
            await edit(self._api, VOLUME_CLAIMS, key.name, key.namespace, selected)
        except errors.NotFound as error:
            raise _Hopeless(str(error)) from error

    async def _promise(self, key: ObjectKey, name: str) -> None:
        """Write on the volume whose it is, unless the claim has one."""
        refusal: errors.ApiError = errors.Conflict(f"volume {name}: others were always faster")
        for _ in range(_ATTEMPTS):
            try:
                claim = _usable(key, await self._api.get(VOLUME_CLAIMS, key.name, key.namespace))
                raw = await self._api.get(PERSISTENT_VOLUMES, name)
                if not claim.bound:
                    await self._write_promise(raw, claim)
            except errors.NotFound as error:
                raise _Hopeless(str(error)) from error
            except errors.Conflict as error:
                refusal = error
            else:
                return
        raise refusal

    async def _write_promise(self, raw: Volume, claim: facts.VolumeClaim) -> None:
        volume = read_volume(raw)
        if volume.deleting or (volume.promised_to is not None and not volume.belongs_to(claim)):
            raise _Hopeless(f"volume {volume.name} is not to be had for claim {claim.key}")
        if volume.promised_uid:
            return
        reference = {"kind": VOLUME_CLAIMS.kind, "apiVersion": VOLUME_CLAIMS.api_version, "uid": claim.uid}
        where = {"namespace": claim.key.namespace, "name": claim.key.name}
        meta: dict[str, object] = {"resourceVersion": raw.metadata.resource_version}
        if volume.promised_to is None:
            meta["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
        body = {"metadata": meta, "spec": {"claimRef": reference | where}}
        await self._api.patch(PERSISTENT_VOLUMES, volume.name, MergePatch(body))

    async def _bound(self, key: ObjectKey, node: str, volume: str) -> None:
        """Until the claim is bound. Raises where that is not going to happen."""

        def claim_is_bound(raw: VolumeClaim | None) -> bool | None:
            claim = _usable(key, raw)
            if not (claim.bound or volume or claim.selected_node == node):
                raise _Hopeless(f"the volume of claim {key} could not be made for {node}")
            return claim.bound or None

        def promise_is_void(raw: Volume | None) -> str | None:
            promised_to = None if raw is None else read_volume(raw).promised_to
            return None if promised_to == key else f"volume {volume} is no longer there for claim {key}"

        if not volume:
            await until(self._api, VOLUME_CLAIMS, key, claim_is_bound)
            return
        void = asyncio.create_task(until(self._api, PERSISTENT_VOLUMES, ObjectKey("", volume), promise_is_void))
        bound = asyncio.create_task(until(self._api, VOLUME_CLAIMS, key, claim_is_bound))
        try:
            await asyncio.wait((bound, void), return_when=asyncio.FIRST_COMPLETED)
            if not bound.done():
                raise _Hopeless(await void)
            await bound
        finally:
            await ended(bound, void)


def _usable(key: ObjectKey, raw: VolumeClaim | None) -> facts.VolumeClaim:
    """The claim's facts. Raises where nothing can come of it any more."""
    if raw is None:
        raise _Hopeless(f"claim {key} is gone")
    claim = read_volume_claim(raw)
    if claim.deleting:
        raise _Hopeless(f"claim {key} is being deleted")
    if claim.lost:
        raise _Hopeless(f"claim {key} has lost its volume {claim.volume}")
    return claim


async def _all_of(waits: Sequence[Coroutine[None, None, None]]) -> None:
    """Until all are through, or the first one fails: then the others are not waited for."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.gather(*tasks)
    finally:
        await ended(*tasks)
