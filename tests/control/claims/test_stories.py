"""The status of claims in virtual time: true whatever happens to pods, and written no oftener than needed."""

import asyncio

import pytest

from tests.control.claims.stage import FULL, NS, World, kept, told
from ullage.errors import AlreadyExists
from ullage.kube.client.api import MergePatch
from ullage.kube.client.resources import GPU_CLAIMS, PODS
from ullage.model.allocation import CLAIM, Allocation
from ullage.model.fact_event import ObjectKey
from ullage.model.refusal import SchedulingFailure
from ullage.sim.apiserver.network_faults import Latency

pytestmark = pytest.mark.story

POD = ObjectKey(NS, "p")
NEVER = SchedulingFailure(word="NodeTooSmall", message="no node has 16 GPUs", permanent=True)


def test_a_claim_follows_its_pod_from_the_cradle_to_the_grave() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        async with kept(world.keepers_api, world.clock) as keeping:
            await scene.claim("c")
            await asyncio.sleep(2)
            assert await scene.said("c") == ("Pending", "Unused", "")
            await scene.pod("p", "c")
            await asyncio.sleep(0)
            keeping.refuse("p")
            await asyncio.sleep(2)
            assert await scene.said("c") == ("Pending", "TooFewGpus", "")
            await scene.bind("p", "node-a", 0, 1)
            await asyncio.sleep(0.1)
            assert await scene.said("c") == ("Bound", "Bound", "node-a:0,1")
            await scene.finish("p")
            await asyncio.sleep(2)
            assert await scene.said("c") == ("Pending", "PodFinished", "")
            await scene.remove("p")
            await asyncio.sleep(2)
            assert await scene.said("c") == ("Pending", "Unused", "")

    told(story())


def test_a_bound_claim_costs_two_writes_and_no_read() -> None:
    """One protects it, one says how it stands."""

    async def story() -> None:
        world = World()
        scene = await world.scene()
        asked: list[str] = []
        world.network.script(lambda request: asked.append(request.method) if "/gpuclaims/c" in request.path else None)
        async with kept(world.keepers_api, world.clock) as keeping:
            await scene.claim("c")
            await scene.pod("p", "c")
            await asyncio.sleep(0.5)
            keeping.keeper.reserved(POD, Allocation("node-a", (0,)))
            await asyncio.sleep(0.5)
            await scene.bind("p", "node-a", 0)
            keeping.keeper.reserved(POD, None)
            await asyncio.sleep(60)
        assert await scene.said("c") == ("Bound", "Bound", "node-a:0")
        assert asked == ["PATCH", "PATCH"]

    told(story())


def test_a_queue_of_pods_costs_two_writes_for_each() -> None:
    """Claims and pods made beforehand, each pod leased and bound in its turn, over ten seconds."""

    async def story() -> None:
        world = World()
        scene = await world.scene()
        world.network.latency = Latency(default=0.01, watch=0.02)
        for number in range(100):
            await scene.claim(f"c{number}")
            await scene.pod(f"p{number}", f"c{number}")
        async with kept(world.keepers_api, world.clock) as keeping:
            for number in range(100):
                keeping.keeper.reserved(ObjectKey(NS, f"p{number}"), Allocation("node-a", (number % 8,)))
                await asyncio.sleep(0.1)
                await scene.bind(f"p{number}", "node-a", number % 8)
            await asyncio.sleep(60)
        paths = (path for number in range(100) for path in (f"c{number}", f"c{number}/status"))
        assert sorted(world.writes) == sorted(("PATCH", path) for path in paths)

    told(story())


def test_leases_held_for_long_without_a_bind_are_told() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        async with kept(world.keepers_api, world.clock) as keeping:
            await scene.claim("c")
            await scene.pod("p", "c")
            await asyncio.sleep(0.1)
            keeping.keeper.reserved(POD, Allocation("node-a", (3, 2)))
            await asyncio.sleep(1.5)
            assert await scene.said("c") == ("Reserved", "Reserved", "node-a:2,3")
            keeping.keeper.reserved(POD, None)
            await asyncio.sleep(1.5)
            assert await scene.said("c") == ("Pending", "Waiting", "")

    told(story())


def test_a_pod_that_is_never_tried_is_said_to_wait_in_the_end() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        async with kept(world.keepers_api, world.clock):
            await scene.claim("c")
            await scene.pod("p", "c")
            await asyncio.sleep(29)
            assert world.writes == [("PATCH", "c")], "it is protected from its first pod on"
            await asyncio.sleep(2)
            assert await scene.said("c") == ("Pending", "Waiting", "")

    told(story())


def test_what_cannot_be_had_is_failed_until_something_else_is_asked_for() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        async with kept(world.keepers_api, world.clock) as keeping:
            await scene.claim("c", 16)
            await scene.pod("p", "c")
            await asyncio.sleep(0.1)
            keeping.refuse("p", NEVER)
            await asyncio.sleep(2)
            assert await scene.said("c") == ("Failed", "NodeTooSmall", "")
            await scene.api.patch(GPU_CLAIMS, "c", MergePatch({"spec": {"devices": {"count": 8}}}), NS)
            await asyncio.sleep(2)
            assert await scene.said("c") == ("Pending", "Waiting", "")
            assert (await scene.fact("c")).observed == 2

    told(story())


def test_changing_words_are_written_now_and_then() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        async with kept(world.keepers_api, world.clock) as keeping:
            await scene.claim("c")
            await scene.pod("p", "c")
            for second in range(120):
                await asyncio.sleep(1)
                keeping.refuse("p", SchedulingFailure(word="TooFewGpus", message=f"0/{second} nodes fit"))
        assert 4 <= len(world.writes) <= 6

    told(story())


def test_another_pod_of_the_same_name_inherits_nothing() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        async with kept(world.keepers_api, world.clock) as keeping:
            await scene.claim("c")
            first = await scene.pod("p", "c")
            await asyncio.sleep(0.1)
            keeping.refuse("p", NEVER)
            await asyncio.sleep(2)
            await scene.remove("p")
            await scene.pod("p", "c")
            keeping.keeper.refused(POD, first, NEVER)
            await asyncio.sleep(40)
            keeping.keeper.refused(POD, first, NEVER)
            await asyncio.sleep(40)
            assert await scene.said("c") == ("Pending", "Waiting", "")

    told(story())


def test_no_other_claim_has_its_name_while_its_pod_is_there() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        async with kept(world.keepers_api, world.clock):
            await scene.claim("c")
            await scene.pod("p", "c")
            await scene.bind("p", "node-a", 0)
            await asyncio.sleep(1)
            await scene.api.delete(GPU_CLAIMS, "c", NS)
            with pytest.raises(AlreadyExists):
                await scene.claim("c")
            await asyncio.sleep(60)
            assert await scene.said("c") == ("Bound", "Bound", "node-a:0")
            await scene.remove("p")
            await asyncio.sleep(10)
            await scene.claim("c")
            await asyncio.sleep(2)
            assert await scene.said("c") == ("Pending", "Unused", "")

    told(story())


def test_a_claim_two_pods_name_speaks_of_its_owner() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        async with kept(world.keepers_api, world.clock) as keeping:
            await scene.claim("c")
            await scene.pod("p", "c")
            await asyncio.sleep(1)
            await scene.pod("q", "c")
            await scene.bind("p", "node-a", 0)
            await asyncio.sleep(1)
            keeping.refuse("q", SchedulingFailure(word="ClaimInUse", message="it belongs to p"))
            await asyncio.sleep(40)
            assert await scene.said("c") == ("Bound", "Bound", "node-a:0")
            await scene.remove("p")
            await asyncio.sleep(2)
            # The next in line has it now; what it was refused for is over.
            assert await scene.said("c") == ("Pending", "Waiting", "")

    told(story())


def test_a_claim_that_comes_after_its_pod_is_not_said_to_be_missing() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        async with kept(world.keepers_api, world.clock) as keeping:
            await scene.pod("p", "c")
            await asyncio.sleep(0.1)
            keeping.refuse("p", SchedulingFailure(word="ClaimMissing", message="GpuClaim c is not there"))
            await scene.claim("c")
            await asyncio.sleep(40)
            assert await scene.said("c") == ("Pending", "Waiting", "")

    told(story())


def test_gates_and_other_schedulers_are_named() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        async with kept(world.keepers_api, world.clock):
            for name in ("gated", "theirs", "bound"):
                await scene.claim(name)
            await scene.pod("a", "gated", schedulingGates=[{"name": "example.com/wait"}])
            await scene.pod("b", "theirs", schedulerName="default-scheduler")
            await scene.pod("c", "bound", schedulerName="default-scheduler")
            await scene.bind("c", "node-c")
            await asyncio.sleep(2)
            assert await scene.said("gated") == ("Pending", "SchedulingGated", "")
            assert await scene.said("theirs") == ("Pending", "OtherScheduler", "")
            assert await scene.said("bound") == ("Bound", "Bound", "node-c")

    told(story())


def test_a_pod_that_names_another_claim_leaves_the_first() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        async with kept(world.keepers_api, world.clock) as keeping:
            await scene.claim("c")
            await scene.claim("d")
            await scene.pod("p", "c")
            await asyncio.sleep(0.1)
            keeping.refuse("p", FULL)
            await asyncio.sleep(2)
            await scene.api.patch(PODS, "p", MergePatch({"metadata": {"annotations": {CLAIM: "d"}}}), NS)
            await asyncio.sleep(40)
            assert await scene.said("c") == ("Pending", "Unused", "")
            assert await scene.said("d") == ("Pending", "Waiting", "")

    told(story())


def test_a_quiet_cluster_costs_nothing() -> None:
    async def story() -> None:
        world = World()
        scene = await world.scene()
        asked: list[str] = []
        for number in range(5):
            await scene.claim(f"c{number}")
            await scene.pod(f"p{number}", f"c{number}")
            await scene.bind(f"p{number}", "node-a", number)
        async with kept(world.keepers_api, world.clock):
            await asyncio.sleep(10)
            world.network.script(lambda request: asked.append(request.path) if "watch" not in request.query else None)
            await asyncio.sleep(600)
        assert asked == []

    told(story())
