"""Volumes that wait for their first consumer: told the node or promised, and bound before the pod is."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.act.gangs import a_gang, a_member, holders, leases_of, nodes_of, setbacks
from tests.act.storage import NODE, Storage, selector
from ullage.act.bind import PodBinder
from ullage.act.gang_bind import GangBinder
from ullage.act.leases import LeaseClient
from ullage.act.volumes import VolumesNotReady
from ullage.clock import WallClock
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resources import PERSISTENT_VOLUMES, VOLUME_CLAIMS
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import BindGang, VolumeAssignment
from ullage.model.outcomes import BindFailure, PodBound, PodNotBound

Step = Callable[[Storage], Awaitable[None]]


@pytest.fixture
async def storage(api: KubeApi, ns: str) -> AsyncIterator[Storage]:
    storage = Storage(api, ns)
    await storage.prepare()
    yield storage
    await storage.clear()


async def ready(storage: Storage, *claims: str, volume_assignments: tuple[VolumeAssignment, ...] = ()) -> str:
    """Why they are not ready; empty if they are."""
    async with selector(storage.api, wait=10) as hands:
        answer = await hands.ready(storage.ns, claims, NODE, volume_assignments)
    return "" if answer is None else answer.detail


async def test_claims_are_told_the_node_and_waited_for(storage: Storage) -> None:
    await storage.claim("a")
    await storage.claim("b")
    async with storage.working():
        assert await ready(storage, "a", "b") == ""
    assert [await storage.selected(claim) for claim in "ab"] == [NODE, NODE]
    assert (await storage.read("a"))["spec"]["volumeName"] == f"{storage.ns}-made-a"


async def test_a_volume_that_is_there_is_promised_and_its_claim_is_told_nothing(storage: Storage) -> None:
    claim, volume = await storage.claim("a", local=True), await storage.volume("v")
    async with storage.working():
        assert await ready(storage, "a", volume_assignments=(VolumeAssignment("a", volume),)) == ""
    assert await storage.promise(volume) == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": storage.ns,
        "name": "a",
        "uid": claim["metadata"]["uid"],
    }
    notes = (await storage.api.get(PERSISTENT_VOLUMES.whole(), volume))["metadata"]["annotations"]
    assert notes["pv.kubernetes.io/bound-by-controller"] == "yes"
    assert await storage.selected("a") == ""
    assert (await storage.read("a"))["spec"]["volumeName"] == volume


async def test_a_volume_its_owner_has_promised_stays_the_owners_promise(storage: Storage) -> None:
    claim = await storage.claim("a", local=True)
    named = {"metadata": {key: claim["metadata"][key] for key in ("namespace", "name")} | {"uid": ""}}
    volume = await storage.volume("v", named)
    async with storage.working():
        assert await ready(storage, "a", volume_assignments=(VolumeAssignment("a", volume),)) == ""
    assert (await storage.promise(volume))["uid"] == claim["metadata"]["uid"]
    assert "annotations" not in (await storage.api.get(PERSISTENT_VOLUMES.whole(), volume))["metadata"]


async def test_claims_that_are_bound_are_ready_at_once(storage: Storage) -> None:
    await storage.claim("a")
    async with storage.working():
        await ready(storage, "a")
    before = await storage.read("a")
    assert await ready(storage, "a") == ""
    assert await storage.read("a") == before


async def test_what_was_begun_before_a_crash_is_gone_on_with(storage: Storage) -> None:
    await storage.claim("a", node=NODE)
    claim = await storage.claim("b", local=True)
    volume = await storage.volume("v", claim)
    async with storage.working():
        assert await ready(storage, "a", "b", volume_assignments=(VolumeAssignment("b", volume),)) == ""


async def test_a_volume_that_is_being_made_for_another_node_is_not_for_this_one(storage: Storage) -> None:
    await storage.claim("a", node="node-b")
    assert "is being made for node-b" in await ready(storage, "a")
    assert await storage.selected("a") == "node-b"


async def test_a_volume_that_cannot_be_made_here_is_not_waited_for(storage: Storage) -> None:
    await storage.claim("a")
    await storage.claim("slow")
    storage.refuses = {"a"}
    async with storage.working(binding=False):
        assert "could not be made for node-a" in await ready(storage, "slow", "a")


async def test_a_volume_of_somebody_else_is_not_to_be_had(storage: Storage) -> None:
    await storage.claim("a", local=True)
    volume = await storage.volume("v", await storage.claim("other", local=True))
    before = await storage.promise(volume)
    assert "is not to be had" in await ready(storage, "a", volume_assignments=(VolumeAssignment("a", volume),))
    assert await storage.promise(volume) == before


async def test_of_two_who_want_a_volume_one_gets_it(storage: Storage) -> None:
    await storage.claim("a", local=True)
    await storage.claim("b", local=True)
    volume = await storage.volume("v")
    async with storage.working():
        answers = await asyncio.gather(
            *(ready(storage, one, volume_assignments=(VolumeAssignment(one, volume),)) for one in "ab")
        )
    assert sorted(answers).count("") == 1
    assert (await storage.read("ab"[answers.index("")]))["spec"]["volumeName"] == volume


async def claim_deleted(storage: Storage) -> None:
    await storage.api.patch(VOLUME_CLAIMS, "a", MergePatch({"metadata": {"finalizers": None}}), storage.ns)
    await storage.api.delete(VOLUME_CLAIMS, "a", storage.ns)


async def volume_taken_back(storage: Storage) -> None:
    await storage.api.patch(PERSISTENT_VOLUMES, f"{storage.ns}-v", MergePatch({"spec": {"claimRef": None}}))


@pytest.mark.parametrize(
    ("meanwhile", "said"),
    [
        pytest.param(claim_deleted, "claim", id="its-claim-goes"),
        pytest.param(volume_taken_back, "no longer there", id="its-volume-is-taken-back"),
    ],
)
async def test_a_promise_that_comes_to_nothing_is_not_waited_for(storage: Storage, meanwhile: Step, said: str) -> None:
    await storage.claim("a", local=True)
    volume = await storage.volume("v")
    async with asyncio.timeout(8):
        waiting = asyncio.create_task(ready(storage, "a", volume_assignments=(VolumeAssignment("a", volume),)))
        while await storage.promise(volume) is None:  # noqa: ASYNC110 - nobody tells when it is written
            await asyncio.sleep(0.01)
        await meanwhile(storage)
        assert said in await waiting


async def test_patience_has_an_end(storage: Storage) -> None:
    await storage.claim("a")
    async with selector(storage.api, wait=0.2) as hands:
        answer = await hands.ready(storage.ns, ["a"], NODE)
    assert answer == VolumesNotReady("no volume within 0.2 s for all of a")


async def test_a_claim_that_is_missing_is_not_ready(storage: Storage) -> None:
    assert "not found" in await ready(storage, "a")


async def test_a_pod_is_bound_after_its_volumes(storage: Storage) -> None:
    api, ns = storage.api, storage.ns
    await storage.claim("a")
    place = await a_member(api, ns, "p", NODE, (0,), volumes=("a",))
    async with storage.working(), selector(api) as volumes:
        assert await PodBinder(api, LeaseClient(api, ns, WallClock()), volumes).perform(place) == PodBound(place)
    assert await holders(api, ns) == leases_of([place])


async def test_a_pod_whose_volume_is_not_ready_holds_nothing(storage: Storage) -> None:
    api, ns = storage.api, storage.ns
    await storage.claim("a", node="node-b")
    place = await a_member(api, ns, "p", NODE, (0,), volumes=("a",))
    async with selector(api) as volumes:
        outcome = await PodBinder(api, LeaseClient(api, ns, WallClock()), volumes).perform(place)
    assert isinstance(outcome, PodNotBound)
    assert (outcome.setback, outcome.leaked) == (BindFailure.VOLUME_NOT_READY, False)
    assert await holders(api, ns) == {}


async def test_a_gang_falls_apart_over_one_volume_and_waits_for_no_other(storage: Storage) -> None:
    api, ns = storage.api, storage.ns
    await storage.claim("slow")
    await storage.claim("a", node="node-b")
    places = [
        await a_member(api, ns, "p0", NODE, (0,), volumes=("slow",)),
        await a_member(api, ns, "p1", NODE, (1,), volumes=("a",)),
    ]
    gang = BindGang(gang=ObjectKey(ns, "g"), places=tuple(places), why="a test")
    async with asyncio.timeout(8), selector(api) as volumes:
        outcome = await GangBinder(api, LeaseClient(api, ns, WallClock()), volumes).perform(gang)
    assert setbacks(outcome) == ["GangFellApart", "VolumeNotReady"]
    assert await holders(api, ns) == {}


async def test_a_gang_with_volumes_is_placed(storage: Storage) -> None:
    api, ns = storage.api, storage.ns
    await storage.claim("a")
    gang = await a_gang(api, ns, {"p0": (NODE, (0,)), "p1": (NODE, (1,))}, volumes=("a",))
    async with storage.working(), selector(api) as volumes:
        assert setbacks(await GangBinder(api, LeaseClient(api, ns, WallClock()), volumes).perform(gang)) == ["", ""]
    assert await nodes_of(api, ns) == {"p0": NODE, "p1": NODE}
