"""Performs the placement of a gang: every GPU of every member is held before the first of them is bound.

GPUs are taken one after the other in the order of their Leases' names, the same order for everybody, and nobody waits
for one that is taken: he gives back what he has. So of gangs that reach for crossing sets at once, one always gets
through: whoever lost did so to a gang that was further along in that order. Nothing is decided here.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from ullage import errors
from ullage.act.bind import Binder, holder_of
from ullage.act.leases import Holding, LeaseBook, Taken, Want
from ullage.act.place import Placer, taken
from ullage.act.together import each, ended
from ullage.act.volumes import VOLUME_WAIT, VolumeSelector
from ullage.kube.api import KubeApi
from ullage.model.action import Place, PlaceGang
from ullage.model.allocation import lease_name
from ullage.model.outcome import GangOutcome, NotPlaced, PlaceOutcome, Setback

Held = tuple[list[Holding], ...]
"""What each member holds, in the order of the members."""


HOLD_WITHIN = 30.0
"""Seconds from the first Lease of a gang to the last. Sweepers take a Lease for abandoned after twice that, and a gang
must still hold its first one when it has its last."""


class GangPlacer:
    """Hands for `PlaceGang`. Safe to run for many gangs at once, and twice for the same gang."""

    def __init__(
        self,
        api: KubeApi,
        book: LeaseBook,
        *,
        volume_wait: float = VOLUME_WAIT,
        members_at_once: int = 16,
        hold_within: float = HOLD_WITHIN,
    ) -> None:
        self._book = book
        self._binder = Binder(api, book)
        self._placer = Placer(api, book)
        self._volumes = VolumeSelector(api, wait=volume_wait)
        self._at_once = members_at_once
        self._hold_within = hold_within

    async def perform(self, action: PlaceGang) -> GangOutcome:
        """Every way this can end is an outcome."""
        culprits = await self._unready(action.places)
        places, changed = await self._as_they_are(action.places)
        held: Held = tuple([] for _ in places)
        culprits = culprits or changed
        if not culprits:
            culprits = await self._hold(places, held)
        outcomes = await (self._give_back(places, held, culprits) if culprits else self._bind(places, held))
        asked = zip(outcomes, action.places, strict=True)
        return GangOutcome(action, tuple(replace(outcome, action=place) for outcome, place in asked))

    async def _unready(self, places: Sequence[Place]) -> dict[int, NotPlaced]:
        """The first member whose volumes cannot be had, by number; the others are not waited for then."""
        tasks = {
            asyncio.create_task(self._volumes.prepare(place)): number
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

    async def _as_they_are(self, places: Sequence[Place]) -> tuple[tuple[Place, ...], dict[int, NotPlaced]]:
        """The members as they are now, and those that no longer wait. A write on one of them, our own among them, must
        not leave the gang in part."""
        looked = await each(places, self._binder.as_it_is, at_once=self._at_once)
        changed = {number: one for number, one in enumerate(looked) if isinstance(one, NotPlaced)}
        return tuple(one.action if isinstance(one, NotPlaced) else one for one in looked), changed

    async def _hold(self, places: Sequence[Place], held: Held) -> dict[int, NotPlaced]:
        """Fill `held`; or the member whose GPU was not to be had, by number."""
        number = 0
        try:
            async with asyncio.timeout(self._hold_within):
                for _, number, device in _in_order(places):
                    place = places[number]
                    want = Want(place.node, place.devices, place.milli)
                    got = await self._book.take(holder_of(place), want, device)
                    if isinstance(got, Taken):
                        return {number: taken(place, got)}
                    held[number].append(got)
        except errors.ApiError as error:
            return {number: NotPlaced(places[number], Setback.API_FAILED, str(error), leaked=True)}
        except TimeoutError:
            why = f"the gang's GPUs could not all be leased within {self._hold_within:.0f} s"
            return {number: NotPlaced(places[number], Setback.API_FAILED, why, leaked=True)}
        return {}

    async def _bind(self, places: Sequence[Place], held: Held) -> tuple[PlaceOutcome, ...]:
        """Each by itself: what fails gives back its own, and the gang's timeout deals with a gang in part."""

        async def bind(member: tuple[Place, Sequence[Holding]]) -> PlaceOutcome:
            place, holdings = member
            return await self._placer.persist(place, await self._binder.bind(place, holdings))

        return await each(list(zip(places, held, strict=True)), bind, at_once=self._at_once)

    async def _give_back(
        self, places: Sequence[Place], held: Held, culprits: dict[int, NotPlaced]
    ) -> tuple[PlaceOutcome, ...]:
        first = culprits[min(culprits)]
        why = f"{first.action.pod}: {first.detail}"
        setbacks = (
            culprits.get(number) or NotPlaced(place, Setback.GANG_FELL_APART, why)
            for number, place in enumerate(places)
        )
        members = list(zip(setbacks, held, strict=True))
        return await each(members, lambda member: self._binder.give_back(*member), at_once=self._at_once)


def _in_order(places: Sequence[Place]) -> list[tuple[str, int, int]]:
    """Name of the Lease, number of the member, device: as they are taken."""
    return sorted(
        (lease_name(place.node, device), number, device)
        for number, place in enumerate(places)
        for device in place.devices
    )
