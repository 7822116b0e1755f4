"""The loop of owners and children, with caches fed by hand: how old may a picture be that is acted on?"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import pytest

from ullage.clock import Instant
from ullage.kube.client.resources import REPLICA_SETS
from ullage.kube.client.rest import RestApi
from ullage.kube.objects.workload import KubeWorkload
from ullage.model.fact_event import Added, ObjectKey, Updated
from ullage.model.selector import Selector, parse_selector
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.controllers import object_cache as indexed
from ullage.sim.controllers.object_cache import ObjectCache
from ullage.sim.controllers.objects import PODS, ActorPod
from ullage.sim.controllers.owner_controller import ControllerSpec, OwnerController
from ullage.sim.controllers.ownership import controller_reference, pod_from_template
from ullage.sim.controllers.writes import ControllerPlan, CreateObject, merge_status
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.testing.builders import a_pod, a_workload

pytestmark = pytest.mark.story

KEY = ObjectKey("default", "web")


@dataclass(slots=True)
class Bench:
    """A Tending whose caches know only what they are told."""

    api: RestApi
    owners: ObjectCache[KubeWorkload]
    pods: ObjectCache[ActorPod]
    looks: list[bool] = field(default_factory=list)
    """Whether things were settled, at each look."""
    plan: Callable[[KubeWorkload], ControllerPlan] = lambda _: ControllerPlan()

    def look(self, owner: KubeWorkload, _children: Sequence[ActorPod], settled: bool, _now: Instant) -> ControllerPlan:
        self.looks.append(settled)
        return self.plan(owner) if settled else ControllerPlan()

    async def make_owner(self) -> KubeWorkload:
        made = await self.api.create(REPLICA_SETS, a_workload("web", replicas=1), "default")
        self.owners.take_in(Added(KEY, made))
        await asyncio.sleep(1)
        return made


def at_the_bench(
    story: Callable[[Bench], Awaitable[None]],
    plan: Callable[[KubeWorkload], ControllerPlan] = lambda _: ControllerPlan(),
) -> None:
    async def told() -> None:
        clock = loop_clock()
        api = RestApi(InMemoryTransport(SimulatedApiServer(clock, seed=1)), rng=random.Random(1))
        children = {"controller": indexed.by_controller, "orphan": indexed.by_orphan_labels}
        owners: ObjectCache[KubeWorkload] = ObjectCache(REPLICA_SETS, {"namespace": indexed.by_namespace})
        bench = Bench(api, owners, ObjectCache(PODS, children), plan=plan)
        selector: Selector = parse_selector("app=web")
        trade: ControllerSpec[KubeWorkload, ActorPod] = ControllerSpec("bench", bench.look, lambda _: selector)
        tending = OwnerController(api, clock, trade, owners, bench.pods)
        task = asyncio.create_task(tending.actor.run())
        await story(bench)
        task.cancel()

    run_virtual(told())


def test_an_owner_is_not_looked_at_again_until_our_own_write_has_come_back() -> None:
    def report(owner: KubeWorkload) -> ControllerPlan:
        wanted = {"replicas": 0, "observedGeneration": 1}
        return (
            ControllerPlan()
            if owner.status.observed_generation
            else ControllerPlan((merge_status(REPLICA_SETS, owner.metadata, wanted),))
        )

    async def story(bench: Bench) -> None:
        old = await bench.make_owner()
        assert bench.looks == [True]
        pod = await bench.api.create(PODS, a_pod("stray", labels={"app": "other"}), "default")
        bench.owners.take_in(Updated(KEY, old, old))
        bench.pods.take_in(Added(ObjectKey("default", "stray"), pod))
        await asyncio.sleep(1)
        assert bench.looks == [True], "acted on a picture older than its own write"
        new = await bench.api.get(REPLICA_SETS, "web", "default")
        bench.owners.take_in(Updated(KEY, old, new))
        await asyncio.sleep(1)
        assert bench.looks == [True, True]

    at_the_bench(story, report)


def test_nothing_is_settled_until_a_pod_that_was_made_has_been_seen() -> None:
    def make_one(owner: KubeWorkload) -> ControllerPlan:
        body = pod_from_template(
            owner.spec.template, controller_reference(REPLICA_SETS, owner.metadata), generate_name="web-"
        )
        return ControllerPlan((CreateObject(PODS, "default", body),))

    async def story(bench: Bench) -> None:
        owner = await bench.make_owner()
        bench.owners.take_in(Updated(KEY, owner, owner))
        await asyncio.sleep(1)
        assert bench.looks == [True, False]
        (made,) = (await bench.api.list(PODS)).items
        bench.pods.take_in(Added(ObjectKey("default", made.metadata.name), made))
        await asyncio.sleep(1)
        assert bench.looks == [True, False, True]

    at_the_bench(story, make_one)


def test_an_owner_that_was_replaced_by_a_namesake_adopts_nobody() -> None:
    async def story(bench: Bench) -> None:
        await bench.make_owner()
        await bench.api.delete(REPLICA_SETS, "web", "default")
        await bench.api.create(REPLICA_SETS, a_workload("web", replicas=1), "default")
        orphan = await bench.api.create(PODS, a_pod("orphan", labels={"app": "web"}), "default")
        bench.pods.take_in(Added(ObjectKey("default", "orphan"), orphan))
        await asyncio.sleep(1)
        assert (await bench.api.get(PODS, "orphan", "default")).metadata.owner_references == ()

    at_the_bench(story)


def test_an_owner_that_stands_adopts() -> None:
    async def story(bench: Bench) -> None:
        owner = await bench.make_owner()
        orphan = await bench.api.create(PODS, a_pod("orphan", labels={"app": "web"}), "default")
        bench.pods.take_in(Added(ObjectKey("default", "orphan"), orphan))
        await asyncio.sleep(1)
        (reference,) = (await bench.api.get(PODS, "orphan", "default")).metadata.owner_references
        assert reference.uid == owner.metadata.uid

    at_the_bench(story)
