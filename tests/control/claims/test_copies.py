"""Claims made from templates, in virtual time: one for each pod of ours, kept like any claim, gone with its pod."""

import asyncio

import pytest

from tests.control.claims.stage import FULL, NS, OURS, Kept, Scene, World, kept, told
from ullage.decide.placement.prefilter import claim_of, owner_of, with_claim
from ullage.errors import NotFound
from ullage.kube.client.api import MergePatch
from ullage.kube.client.resources import GPU_CLAIMS, JOBS, PODS
from ullage.model.allocation import CLAIM_TEMPLATE
from ullage.model.claim import TEMPLATE, copy_key
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.verdict import Reason, Verdict
from ullage.sim.controllers.wiring import ControllerManagerSettings, start_actors
from ullage.testing.builders import a_job, a_pod_spec

pytestmark = pytest.mark.story


async def claims(scene: Scene) -> set[str]:
    return {claim.metadata.name for claim in (await scene.api.list(GPU_CLAIMS, NS)).items}


def named(pod: str, uid: str) -> str:
    return copy_key(ObjectKey(NS, pod), uid).name


def asked(keeping: Kept, pod: str) -> int:
    found = with_claim(keeping.pod(pod), keeping.snapshot)
    assert isinstance(found, Pod)
    assert found.shape.devices is not None
    return found.shape.devices.count


def test_a_pod_gets_a_claim_of_its_own_as_the_template_says() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        await scene.claim("t", 2, devices={"model": "H100"}, selector={"matchLabels": {"zone": "b"}})
        async with kept(world.keepers_api, world.clock):
            uid = await scene.pod("p", template="t")
            await asyncio.sleep(1)
            copy, template = await scene.copy("p", uid), await scene.api.get(GPU_CLAIMS.whole(), "t", NS)
        assert copy["spec"] == template["spec"]
        meta = copy["metadata"]
        assert (meta["name"], meta["labels"], meta["annotations"]) == (f"p-{uid[:8]}", {TEMPLATE: "t"}, {TEMPLATE: "t"})
        assert meta["ownerReferences"] == [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": "p",
                "uid": uid,
                "controller": True,
                "blockOwnerDeletion": False,
            }
        ]

    told(story())


def test_the_copy_follows_its_pod_and_the_template_says_what_it_is() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        await scene.claim("t", 2)
        async with kept(world.keepers_api, world.clock) as keeping:
            uid = await scene.pod("p", template="t")
            await asyncio.sleep(1)
            copy = named("p", uid)
            keeping.refuse("p")
            await asyncio.sleep(2)
            assert await scene.said(copy) == ("Pending", "TooFewGpus", "")
            await scene.bind("p", "node-a", 4, 5)
            await asyncio.sleep(1)
            assert await scene.said(copy) == ("Bound", "Bound", "node-a:4,5")
            await asyncio.sleep(40)
            assert await scene.said("t") == ("Pending", "Unused", "")
            assert "a template" in (await scene.fact("t")).message
            await scene.remove("p")
            await asyncio.sleep(40)
            assert await scene.said(copy) == ("Pending", "Unused", "")
            assert (await scene.fact("t")).message == "no pod uses it"

    told(story())


def test_the_claim_a_pod_was_refused_with_is_still_refused_when_its_copy_comes() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        await scene.claim("t")
        async with kept(world.keepers_api, world.clock) as keeping:
            uid = await scene.pod("p", template="t")
            while ObjectKey(NS, "p") not in keeping.snapshot.state.pods:  # noqa: ASYNC110 - heard between two steps
                await asyncio.sleep(0)
            keeping.refuse("p", FULL)
            await asyncio.sleep(3)
            assert await scene.said(named("p", uid)) == ("Pending", "TooFewGpus", "")

    told(story())


def test_a_pod_asks_by_its_copy_once_that_is_there() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        await scene.claim("t", 2)
        async with kept(world.keepers_api, world.clock) as keeping:
            uid = await scene.pod("p", template="t")
            await asyncio.sleep(1)
            changed = MergePatch({"spec": {"devices": {"count": 4}}})
            await scene.api.patch(GPU_CLAIMS, "t", changed, NS)
            await asyncio.sleep(1)
            assert asked(keeping, "p") == 2
            await scene.api.patch(GPU_CLAIMS, named("p", uid), changed, NS)
            await asyncio.sleep(1)
            assert asked(keeping, "p") == 4
            later = await scene.pod("q", template="t")
            await asyncio.sleep(1)
            assert (await scene.copy("q", later))["spec"]["devices"]["count"] == 4

    told(story())


def test_a_copy_belongs_to_its_pod_whoever_names_it() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        await scene.claim("t")
        async with kept(world.keepers_api, world.clock) as keeping:
            uid = await scene.pod("p", template="t")
            await scene.pod("thief", named("p", uid))
            await asyncio.sleep(1)
            owner = owner_of(ObjectKey(NS, named("p", uid)), keeping.snapshot)
            assert owner is not None
            assert owner.key.name == "p"
            refusal = with_claim(keeping.pod("thief"), keeping.snapshot)
            assert isinstance(refusal, Verdict)
            assert refusal.reason is Reason.CLAIM_IN_USE

    told(story())


def test_no_template_no_copy_until_it_comes() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        async with kept(world.keepers_api, world.clock):
            uid = await scene.pod("p", template="t")
            await asyncio.sleep(5)
            assert await claims(scene) == set()
            await scene.claim("t")
            await asyncio.sleep(1)
            assert await claims(scene) == {"t", named("p", uid)}

    told(story())


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"schedulerName": "default-scheduler"}, id="of-another-scheduler"),
        pytest.param({"claim": "t"}, id="that-names-a-claim-too"),
    ],
)
def test_pods_that_get_no_copy(spec: dict[str, str]) -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        await scene.claim("t")
        async with kept(world.keepers_api, world.clock):
            await scene.pod("p", template="t", **spec)
            await asyncio.sleep(5)
            assert await claims(scene) == {"t"}

    told(story())


def test_a_copy_that_was_deleted_is_made_again_while_its_pod_lives() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        await scene.claim("t")
        async with kept(world.keepers_api, world.clock):
            uid = await scene.pod("p", template="t")
            await scene.bind("p", "node-a", 0)
            await asyncio.sleep(1)
            await scene.api.delete(GPU_CLAIMS, named("p", uid), NS)
            await asyncio.sleep(1)
            assert await scene.said(named("p", uid)) == ("Bound", "Bound", "node-a:0")

    told(story())


def test_a_pod_bound_while_nobody_looked_gets_its_copy_at_the_start() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        await scene.claim("t")
        uid = await scene.pod("p", template="t")
        await scene.bind("p", "node-a", 0)
        async with kept(world.keepers_api, world.clock):
            await asyncio.sleep(1)
            assert await scene.said(named("p", uid)) == ("Bound", "Bound", "node-a:0")

    told(story())


def test_two_keepers_make_one_copy() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        await scene.claim("t")
        async with kept(world.keepers_api, world.clock), kept(world.keepers_api, world.clock, seed=2):
            uids = {f"p{number}": await scene.pod(f"p{number}", template="t") for number in range(10)}
            await asyncio.sleep(5)
            assert await claims(scene) == {"t", *(named(pod, uid) for pod, uid in uids.items())}

    told(story())


def test_the_pods_of_a_job_have_claims_that_go_with_them() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        await scene.claim("t")
        job = a_job("train", pod=a_pod_spec(schedulerName=OURS), parallelism=3, completions=3)
        job["spec"]["template"]["metadata"]["annotations"] = {CLAIM_TEMPLATE: "t"}
        async with (
            start_actors(scene.api, world.clock, ControllerManagerSettings(custom=(GPU_CLAIMS,))),
            kept(world.keepers_api, world.clock) as keeping,
        ):
            await scene.api.create(JOBS, job, NS)
            await asyncio.sleep(2)
            pods = list(keeping.snapshot.state.pods.values())
            assert len(pods) == 3
            assert {claim_of(pod, keeping.snapshot.state) is not None for pod in pods} == {True}
            assert await claims(scene) == {"t", *(named(pod.key.name, pod.uid) for pod in pods)}
            await scene.api.delete(PODS, pods[0].key.name, NS)
            await asyncio.sleep(60)
            with pytest.raises(NotFound):
                await scene.copy(pods[0].key.name, pods[0].uid)
            assert len(await claims(scene)) == 4

    told(story())
