"""Bind a gang: the Leases of all GPUs of all members are taken before the first member is bound.

Leases are taken one after another in the order of their names, the same order in every gang. A gang does not wait for a
taken GPU: it releases what it holds. So of gangs that want overlapping GPUs at once, one always succeeds: a gang that
failed met one that was further along in that order. Nothing is decided here.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from ullage import errors
from ullage.act.bind import BindStep, PodBinder, api_setback, holder_of, taken
from ullage.act.claim_protection import ClaimProtection
from ullage.act.concurrency import each, ended
from ullage.act.fence import look
from ullage.act.leases import DeviceTaken, HeldLease, LeaseClient, LeaseRequest
from ullage.act.volumes import VolumeBinder, prepare_volumes
from ullage.kube.client.api import KubeApi
from ullage.model.allocation import lease_name
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import BindGang, BindPod
from ullage.model.outcomes import BindFailure, GangBindOutcome, PlaceOutcome, PodNotBound
from ullage.model.units import Seconds
from ullage.observe.traces import PlacementStep, step

Held = tuple[list[HeldLease], ...]
"""Leases held by each member, in the order of the members."""


HOLD_WITHIN = Seconds(30.0)
"""Limit in seconds from the first Lease of a gang to the last. The LeaseGarbageCollector treats a Lease as abandoned
after twice that, and a gang must still hold its first Lease when it takes its last."""


class GangBinder:
    """Actuator of `BindGang`. Safe to run for many gangs at once, and twice for the same gang."""

    def __init__(
        self,
        api: KubeApi,
        book: LeaseClient,
        volumes: VolumeBinder | None = None,
        protection: ClaimProtection | None = None,
        *,
        members_at_once: int = 16,
        hold_within: float = HOLD_WITHIN,
    ) -> None:
        self._api = api
        self._book = book
        self._binder = BindStep(api, book, protection)
        self._placer = PodBinder(api, book, None, protection)
        self._volumes = volumes
        self._at_once = members_at_once
        self._hold_within = hold_within

    async def perform(self, action: BindGang) -> GangBindOutcome:
        """Bind the gang. Every end is an outcome."""
        culprits = await self._unready(action.places)
        places, changed = await self._as_they_are(action.places)
        held: Held = tuple([] for _ in places)
        culprits = culprits or changed
        if not culprits:
            with step(PlacementStep.LEASE, members=len(places)):
                culprits = await self._hold(places, held)
            culprits = culprits or await self._secure(places, held)
            culprits = culprits or await self._gone(places) or await self._alone(action)
        outcomes = await (self._give_back(places, held, culprits) if culprits else self._bind(places, held))
        asked = zip(outcomes, action.places, strict=True)
        return GangBindOutcome(action, tuple(replace(outcome, action=place) for outcome, place in asked))

    async def _unready(self, places: Sequence[BindPod]) -> dict[int, PodNotBound]:
        """Failures of the first members whose volumes cannot be prepared, by number. The others are not waited for."""
        tasks = {
            asyncio.create_task(prepare_volumes(self._volumes, place)): number
            for number, place in enumerate(places)
            if place.volumes
        }
        pending = set(tasks)
        try:
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                setbacks = {tasks[task]: task.result() for task in done}
                culprits = {number: setback for number, setback in setbacks.items() if setback is not None}
                if culprits:
                    return culprits
        finally:
            await ended(*tasks)
        return {}

    async def _as_they_are(self, places: Sequence[BindPod]) -> tuple[tuple[BindPod, ...], dict[int, PodNotBound]]:
        """Actions with the members' current resourceVersions, and failures of members that are not pending any more.

        A write on a member, one of ours included, must not leave the gang partly bound.
        """
        looked = await each(places, self._binder.as_it_is, at_once=self._at_once)
        changed = {number: one for number, one in enumerate(looked) if isinstance(one, PodNotBound)}
        return tuple(one.action if isinstance(one, PodNotBound) else one for one in looked), changed

    async def _hold(self, places: Sequence[BindPod], held: Held) -> dict[int, PodNotBound]:
        """Take the Leases and add them to `held`. Returns the failed member, by number, if one failed."""
        number = 0
        try:
            async with asyncio.timeout(self._hold_within):
                for _, number, device in _in_order(places):
                    place = places[number]
                    got = await self._book.take(holder_of(place), LeaseRequest.of(place), device)
                    if isinstance(got, DeviceTaken):
                        return {number: taken(place, got)}
                    held[number].append(got)
        except errors.ApiError as error:
            return {number: PodNotBound(places[number], api_setback(error), str(error), leaked=True)}
        except TimeoutError:
            why = f"the gang's GPUs could not all be leased within {self._hold_within:.0f} s"
            return {number: PodNotBound(places[number], BindFailure.API_FAILED, why, leaked=True)}
        return {}

    async def _secure(self, places: Sequence[BindPod], held: Held) -> dict[int, PodNotBound]:
        """Failures of members whose claim could not be protected, or their GPUs withheld from DRA, by number."""

        async def secure(member: tuple[BindPod, Sequence[HeldLease]]) -> PodNotBound | None:
            return await self._binder.secure(*member)

        found = await each(list(zip(places, held, strict=True)), secure, at_once=self._at_once)
        return {number: one for number, one in enumerate(found) if one is not None}

    async def _gone(self, places: Sequence[BindPod]) -> dict[int, PodNotBound]:
        """Failures of members that do not wait any more, by number.

        Leases and claims take seconds when calls are retried. A member deleted meanwhile has lost its Leases, and the
        others would be bound as a part of the gang. The actions keep their resourceVersions, see `as_it_is`.
        """
        _, changed = await self._as_they_are(places)
        return changed

    async def _alone(self, action: BindGang) -> dict[int, PodNotBound]:
        """Failure of the first member if too few of the members bound earlier are left: the rest were no gang."""
        if not action.beside_needed:
            return {}
        try:
            there = sum(await each(action.beside, self._stays, at_once=self._at_once))
        except errors.ApiError as error:
            return {0: PodNotBound(action.places[0], BindFailure.API_FAILED, str(error))}
        if there >= action.beside_needed:
            return {}
        why = f"{there} of {action.beside_needed} bound members that it needs are left"
        return {0: PodNotBound(action.places[0], BindFailure.GANG_FELL_APART, why)}

    async def _stays(self, member: tuple[ObjectKey, str]) -> bool:
        key, uid = member
        pod = await look(self._api, key)
        return pod is not None and pod.metadata.uid == uid and pod.metadata.deletion_timestamp is None

    async def _bind(self, places: Sequence[BindPod], held: Held) -> tuple[PlaceOutcome, ...]:
        """Bind each member by itself. A failed one releases its Leases; the gang's timeout handles a partial gang."""

        async def bind(member: tuple[BindPod, Sequence[HeldLease]]) -> PlaceOutcome:
            place, holdings = member
            return await self._placer.persist(place, await self._binder.bind(place, holdings))

        return await each(list(zip(places, held, strict=True)), bind, at_once=self._at_once)

    async def _give_back(
        self, places: Sequence[BindPod], held: Held, culprits: dict[int, PodNotBound]
    ) -> tuple[PlaceOutcome, ...]:
        first = culprits[min(culprits)]
        why = f"{first.action.pod}: {first.detail}"
        setbacks = (
            culprits.get(number) or PodNotBound(place, BindFailure.GANG_FELL_APART, why)
            for number, place in enumerate(places)
        )
        members = list(zip(setbacks, held, strict=True))
        return await each(members, lambda member: self._binder.give_back(*member), at_once=self._at_once)


def _in_order(places: Sequence[BindPod]) -> list[tuple[str, int, int]]:
    """Lease name, member number and device, in the order Leases are taken."""
    return sorted(
        (lease_name(place.node, device), number, device)
        for number, place in enumerate(places)
        for device in dict.fromkeys(place.devices)
    )
