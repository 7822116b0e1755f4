"""Placing a gang: all GPUs before the first bind, or nothing is held."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.act.gangs import (
    Listening,
    a_gang,
    a_member,
    breaches,
    holders,
    leaked,
    leases_of,
    nodes_of,
    setbacks,
)
from ullage.act.gang_bind import GangBinder
from ullage.act.leases import LeaseClient, LeaseHolder, LeaseRequest
from ullage.clock import WallClock
from ullage.errors import Unreachable
from ullage.kube.client.api import DELETE_NOW, Binding, KubeApi, MergePatch
from ullage.kube.client.resources import PODS
from ullage.model.claim import ClaimInUse
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import BindGang, BindPod
from ullage.model.outcomes import GangBindOutcome, PodBound, PodNotBound

THREE = {"p0": ("node-b", (0, 1)), "p1": ("node-a", (3, 2)), "p2": ("node-a", (0, 1))}


def hands(api: Any, ns: str) -> GangBinder:
    return GangBinder(api, LeaseClient(api, ns, WallClock()))


async def test_a_gang_is_bound_told_and_leased(api: KubeApi, ns: str) -> None:
    gang = await a_gang(api, ns, THREE)
    outcome = await hands(api, ns).perform(gang)
    assert outcome == GangBindOutcome(gang, tuple(PodBound(place) for place in gang.places))
    assert await nodes_of(api, ns) == {"p0": "node-b", "p1": "node-a", "p2": "node-a"}
    assert await holders(api, ns) == leases_of(gang.places)
    assert await breaches(api, ns) == []


async def test_every_gpu_is_held_before_the_first_bind_in_the_order_of_names(api: KubeApi, ns: str) -> None:
    gang, ear = await a_gang(api, ns, THREE), Listening(api)
    await hands(ear, ns).perform(gang)
    assert ear.heard[:6] == [f"lease {name}" for name in sorted(leases_of(gang.places))]
    assert sorted(ear.heard[6:]) == ["bind p0", "bind p1", "bind p2"]


async def test_one_taken_gpu_leaves_nothing_held_and_nobody_bound(api: KubeApi, ns: str) -> None:
    gang = await a_gang(api, ns, THREE)
    rival = LeaseHolder(ObjectKey(ns, "q"), "other-uid")
    await LeaseClient(api, ns, WallClock()).reserve(rival, LeaseRequest("node-b", (1,)))
    outcome = await hands(api, ns).perform(gang)
    assert setbacks(outcome) == ["GpuTaken", "GangFellApart", "GangFellApart"]
    assert leaked(outcome) == [False, False, False]
    culprit = outcome.outcomes[0]
    assert isinstance(culprit, PodNotBound)
    assert culprit.device == 1
    assert await holders(api, ns) == {"gpu-node-b-1": "other-uid"}
    assert set((await nodes_of(api, ns)).values()) == {""}


async def test_what_a_dead_scheduler_held_for_the_gang_is_given_back_too(api: KubeApi, ns: str) -> None:
    gang = await a_gang(api, ns, THREE)
    last = gang.places[2]
    book = LeaseClient(api, ns, WallClock())
    await book.reserve(LeaseHolder(last.pod, last.uid), LeaseRequest("node-a", (0, 1)))
    await book.reserve(LeaseHolder(ObjectKey(ns, "q"), "other-uid"), LeaseRequest("node-b", (1,)))
    assert leaked(await hands(api, ns).perform(gang)) == [False, False, False]
    assert await holders(api, ns) == {"gpu-node-b-1": "other-uid"}


class Tardy:
    """An API that takes its time over every Lease."""

    def __init__(self, api: KubeApi, seconds: float) -> None:
        self._api = api
        self._seconds = seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    async def create(self, *what: Any, **how: Any) -> Any:
        await asyncio.sleep(self._seconds)
        return await self._api.create(*what, **how)


async def test_leases_that_come_too_slowly_are_given_back_before_a_sweeper_takes_them(api: KubeApi, ns: str) -> None:
    gang = await a_gang(api, ns, THREE)
    slow: Any = Tardy(api, 0.2)
    outcome = await GangBinder(slow, LeaseClient(slow, ns, WallClock()), hold_within=0.7).perform(gang)
    assert sorted(setbacks(outcome)) == ["ApiFailed", "GangFellApart", "GangFellApart"]
    assert await holders(api, ns) == {}
    assert set((await nodes_of(api, ns)).values()) == {""}


async def test_placing_twice_is_placing_once(api: KubeApi, ns: str) -> None:
    gang = await a_gang(api, ns, THREE)
    assert setbacks(await hands(api, ns).perform(gang)) == ["", "", ""]
    assert setbacks(await hands(api, ns).perform(gang)) == ["", "", ""]
    assert await holders(api, ns) == leases_of(gang.places)


async def test_two_schedulers_with_one_gang_place_it_once(api: KubeApi, ns: str) -> None:
    gang = await a_gang(api, ns, THREE)
    both = await asyncio.gather(hands(api, ns).perform(gang), hands(api, ns).perform(gang))
    assert [setbacks(outcome) for outcome in both] == [["", "", ""], ["", "", ""]]
    assert await holders(api, ns) == leases_of(gang.places)
    assert await breaches(api, ns) == []


async def test_a_failed_gang_does_not_undo_a_gang_that_is_bound(api: KubeApi, ns: str) -> None:
    """A second scheduler with an old picture wants one more GPU for a gang that is there already."""
    gang = await a_gang(api, ns, THREE)
    await hands(api, ns).perform(gang)
    await LeaseClient(api, ns, WallClock()).reserve(
        LeaseHolder(ObjectKey(ns, "q"), "other-uid"), LeaseRequest("node-z", (0,))
    )
    late = await a_member(api, ns, "p3", "node-z", (0,))
    again = BindGang(gang=gang.gang, places=(*gang.places, late), why="a test")
    outcome = await hands(api, ns).perform(again)
    assert setbacks(outcome) == ["GangFellApart", "GangFellApart", "GangFellApart", "GpuTaken"]
    assert await holders(api, ns) == leases_of(gang.places) | {"gpu-node-z-0": "other-uid"}
    assert await breaches(api, ns) == []


async def changed(api: KubeApi, place: BindPod) -> None:
    await api.patch(PODS, place.pod.name, MergePatch({"metadata": {"labels": {"x": "y"}}}), place.pod.namespace)


async def gone(api: KubeApi, place: BindPod) -> None:
    await api.delete(PODS, place.pod.name, place.pod.namespace, how=DELETE_NOW)


async def elsewhere(api: KubeApi, place: BindPod) -> None:
    await api.bind(place.pod.name, place.pod.namespace, Binding("node-z"))


class JustBefore:
    """An API on which something happens to one pod just before it is bound."""

    def __init__(self, api: KubeApi, place: BindPod, happens: Callable[[KubeApi, BindPod], Awaitable[None]]) -> None:
        self._api = api
        self._place = place
        self._happens = happens

    async def bind(self, pod: str, namespace: str, binding: Binding) -> None:
        if pod == self._place.pod.name:
            await self._happens(self._api, self._place)
        await self._api.bind(pod, namespace, binding)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)


@pytest.mark.parametrize(
    ("meanwhile", "setback"),
    [
        pytest.param(gone, "PodGone", id="gone"),
        pytest.param(elsewhere, "PodChanged", id="bound-elsewhere"),
    ],
)
async def test_a_member_that_cannot_be_bound_gives_back_its_own_gpus_only(
    api: KubeApi, ns: str, meanwhile: Callable[[KubeApi, BindPod], Awaitable[None]], setback: str
) -> None:
    gang = await a_gang(api, ns, THREE)
    through: Any = JustBefore(api, gang.places[1], meanwhile)
    outcome = await GangBinder(through, LeaseClient(api, ns, WallClock())).perform(gang)
    assert setbacks(outcome) == ["", setback, ""]
    assert leaked(outcome) == [False, False, False]
    assert await holders(api, ns) == leases_of((gang.places[0], gang.places[2]))


async def test_a_member_that_is_only_written_to_does_not_leave_the_gang_in_part(api: KubeApi, ns: str) -> None:
    gang = await a_gang(api, ns, THREE)
    times = iter(range(2))

    async def once(api: KubeApi, place: BindPod) -> None:
        if next(times) == 0:
            await changed(api, place)

    through: Any = JustBefore(api, gang.places[1], once)
    outcome = await GangBinder(through, LeaseClient(api, ns, WallClock())).perform(gang)
    assert setbacks(outcome) == ["", "", ""]
    assert await holders(api, ns) == leases_of(gang.places)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        pytest.param(changed, ["", "", ""], id="only-written-to"),
        pytest.param(gone, ["GangFellApart", "PodGone", "GangFellApart"], id="gone"),
        pytest.param(elsewhere, ["GangFellApart", "PodChanged", "GangFellApart"], id="bound-elsewhere"),
    ],
)
async def test_a_gang_is_looked_at_before_anything_is_held(
    api: KubeApi, ns: str, before: Callable[[KubeApi, BindPod], Awaitable[None]], expected: list[str]
) -> None:
    gang = await a_gang(api, ns, THREE)
    await before(api, gang.places[1])
    assert setbacks(await hands(api, ns).perform(gang)) == expected
    assert await holders(api, ns) == ({} if "GangFellApart" in expected else leases_of(gang.places))


class AfterTheLastLease(JustBefore):
    """An API on which something happens to one pod once as many Leases are made as the gang needs."""

    def __init__(
        self, api: KubeApi, gang: BindGang, place: BindPod, happens: Callable[[KubeApi, BindPod], Awaitable[None]]
    ) -> None:
        super().__init__(api, place, happens)
        self._missing = len(leases_of(gang.places))

    async def create(self, *what: Any, **how: Any) -> Any:
        made = await self._api.create(*what, **how)
        self._missing -= 1
        if not self._missing:
            await self._happens(self._api, self._place)
        return made

    async def bind(self, pod: str, namespace: str, binding: Binding) -> None:
        await self._api.bind(pod, namespace, binding)


@pytest.mark.parametrize(
    ("meanwhile", "expected"),
    [
        pytest.param(changed, ["", "", ""], id="only-written-to"),
        pytest.param(gone, ["GangFellApart", "PodGone", "GangFellApart"], id="gone"),
        pytest.param(elsewhere, ["GangFellApart", "PodChanged", "GangFellApart"], id="bound-elsewhere"),
    ],
)
async def test_a_gang_that_loses_a_member_while_leases_are_taken_is_not_bound_in_part(
    api: KubeApi, ns: str, meanwhile: Callable[[KubeApi, BindPod], Awaitable[None]], expected: list[str]
) -> None:
    gang = await a_gang(api, ns, THREE)
    through: Any = AfterTheLastLease(api, gang, gang.places[1], meanwhile)
    assert setbacks(await hands(through, ns).perform(gang)) == expected
    assert await holders(api, ns) == ({} if "GangFellApart" in expected else leases_of(gang.places))


class SlowProtection:
    """Protection of claims, during which something happens to one pod."""

    def __init__(self, happens: Callable[[], Awaitable[None]]) -> None:
        self._happens = happens

    async def ensure(self, claim: ClaimInUse) -> None:
        if claim.key.name == "last":
            await self._happens()


async def test_a_gang_that_loses_a_member_while_claims_are_protected_is_not_bound_in_part(
    api: KubeApi, ns: str
) -> None:
    gang = await a_gang(api, ns, THREE)
    *others, last = gang.places
    claim = ClaimInUse(ObjectKey(ns, "last"), "u", protected=False)
    gang = replace(gang, places=(*others, replace(last, claim=claim)))
    slow: Any = SlowProtection(lambda: gone(api, gang.places[1]))
    binder = GangBinder(api, LeaseClient(api, ns, WallClock()), None, slow)
    assert setbacks(await binder.perform(gang)) == ["GangFellApart", "PodGone", "GangFellApart"]
    assert await holders(api, ns) == {}


async def being_deleted(api: KubeApi, place: BindPod) -> None:
    await api.patch(
        PODS, place.pod.name, MergePatch({"metadata": {"finalizers": ["example.com/stay"]}}), place.pod.namespace
    )
    await api.delete(PODS, place.pod.name, place.pod.namespace)


@pytest.mark.parametrize(
    ("meanwhile", "needed", "expected"),
    [
        pytest.param(changed, 2, ["", ""], id="only-written-to"),
        pytest.param(gone, 2, ["GangFellApart", "GangFellApart"], id="gone"),
        pytest.param(being_deleted, 2, ["GangFellApart", "GangFellApart"], id="being-deleted"),
        pytest.param(gone, 1, ["", ""], id="gone-and-enough-are-left"),
    ],
)
async def test_late_members_are_not_bound_when_those_beside_them_have_left(
    api: KubeApi,
    ns: str,
    meanwhile: Callable[[KubeApi, BindPod], Awaitable[None]],
    needed: int,
    expected: list[str],
) -> None:
    earlier = await a_gang(api, ns, {"b0": ("node-b", (6,)), "b1": ("node-b", (7,))})
    await hands(api, ns).perform(earlier)
    beside = tuple((place.pod, place.uid) for place in earlier.places)
    late = replace(
        await a_gang(api, ns, {"p0": ("node-a", (0,)), "p1": ("node-a", (1,))}), beside=beside, beside_needed=needed
    )
    through: Any = AfterTheLastLease(api, late, earlier.places[0], meanwhile)
    assert setbacks(await hands(through, ns).perform(late)) == expected
    held = leases_of(late.places) if expected == ["", ""] else {}
    assert {name: uid for name, uid in (await holders(api, ns)).items() if "node-a" in name} == held


async def test_members_may_share_a_gpu(api: KubeApi, ns: str) -> None:
    gang = await a_gang(api, ns, {"p0": ("node-a", (0,)), "p1": ("node-a", (0,))}, milli=500)
    assert setbacks(await hands(api, ns).perform(gang)) == ["", ""]
    assert await holders(api, ns) == {"gpu-node-a-0": "shared"}
    third = await a_gang(api, ns, {"q0": ("node-b", (0,)), "q1": ("node-a", (0,))}, milli=500)
    assert setbacks(await hands(api, ns).perform(third)) == ["GangFellApart", "GpuTaken"]
    assert await holders(api, ns) == {"gpu-node-a-0": "shared"}


async def test_members_without_gpus_are_bound_with_the_others(api: KubeApi, ns: str) -> None:
    gang = await a_gang(api, ns, {"p0": ("node-a", ()), "p1": ("node-a", (0,))})
    assert setbacks(await hands(api, ns).perform(gang)) == ["", ""]
    assert await holders(api, ns) == leases_of(gang.places)


async def test_of_crossing_gangs_at_once_one_gets_through(api: KubeApi, ns: str) -> None:
    first = await a_gang(api, ns, {"p0": ("node-a", (0, 1)), "p1": ("node-b", (0, 1))}, name="first")
    second = await a_gang(api, ns, {"q0": ("node-b", (1, 2)), "q1": ("node-a", (1, 2))}, name="second")
    outcomes = await asyncio.gather(*(hands(api, ns).perform(gang) for gang in (first, second)))
    (winner,) = [outcome.action for outcome in outcomes if not any(setbacks(outcome))]
    assert await holders(api, ns) == leases_of(winner.places)


class Silent:
    """An API that answers nothing once a Lease of this name is asked for."""

    def __init__(self, api: KubeApi, lease: str) -> None:
        self._api = api
        self._lease = lease
        self._dead = False

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._api, name)

        async def asked(*args: Any, **how: Any) -> Any:
            self._dead = self._dead or (name == "create" and args[1].metadata.name == self._lease)
            if self._dead:
                raise Unreachable("nobody there")
            return await real(*args, **how)

        return asked


async def test_what_could_not_be_given_back_is_said(api: KubeApi, ns: str) -> None:
    gang = await a_gang(api, ns, THREE)
    outcome = await hands(Silent(api, "gpu-node-b-0"), ns).perform(gang)
    assert setbacks(outcome) == ["ApiFailed", "GangFellApart", "GangFellApart"]
    assert leaked(outcome) == [True, True, True]
    assert await holders(api, ns) == leases_of(gang.places[1:])
    assert set((await nodes_of(api, ns)).values()) == {""}
