"""The loop of owners and children, with caches fed by hand: how old may a picture be that is acted on?"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import pytest

from ullage.clock import Instant
from ullage.kube.objects.workload import Workload
from ullage.kube.resources import REPLICA_SETS
from ullage.kube.rest import RestApi
from ullage.model.event import Appeared, Changed, ObjectKey
from ullage.model.selector import Selector, parse_selector
from ullage.sim.actors import cache as indexed
from ullage.sim.actors.cache import Cache
from ullage.sim.actors.ownership import controller_reference, pod_from_template
from ullage.sim.actors.shapes import PODS, ActorPod
from ullage.sim.actors.tending import Tending, Trade
from ullage.sim.actors.writes import Create, Plan, merge_status
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.time import loop_clock, run_virtual
from ullage.testing.builders import a_pod, a_workload

pytestmark = pytest.mark.story

KEY = ObjectKey("default", "web")


@dataclass(slots=True)
class Bench:
    """A Tending whose caches know only what they are told."""

    api: RestApi
    owners: Cache[Workload]
    pods: Cache[ActorPod]
    looks: list[bool] = field(default_factory=list)
    """Whether things were settled, at each look."""
    plan: Callable[[Workload], Plan] = lambda _: Plan()

    def look(self, owner: Workload, _children: Sequence[ActorPod], settled: bool, _now: Instant) -> Plan:
        self.looks.append(settled)
        return self.plan(owner) if settled else Plan()

    async def make_owner(self) -> Workload:
        made = await self.api.create(REPLICA_SETS, a_workload("web", replicas=1), "default")
        self.owners.take_in(Appeared(KEY, made))
        await asyncio.sleep(1)
        return made


def at_the_bench(
    story: Callable[[Bench], Awaitable[None]], plan: Callable[[Workload], Plan] = lambda _: Plan()
) -> None:
    async def told() -> None:
        clock = loop_clock()
        api = RestApi(InMemoryTransport(SimulatedApiServer(clock, seed=1)), rng=random.Random(1))
        children = {"controller": indexed.by_controller, "orphan": indexed.by_orphan_labels}
        owners: Cache[Workload] = Cache(REPLICA_SETS, {"namespace": indexed.by_namespace})
        bench = Bench(api, owners, Cache(PODS, children), plan=plan)
        selector: Selector = parse_selector("app=web")
        trade: Trade[Workload, ActorPod] = Trade("bench", bench.look, lambda _: selector)
        tending = Tending(api, clock, trade, owners, bench.pods)
        task = asyncio.create_task(tending.actor.run())
        await story(bench)
        task.cancel()

    run_virtual(told())


def test_an_owner_is_not_looked_at_again_until_our_own_write_has_come_back() -> None:
    def report(owner: Workload) -> Plan:
        wanted = {"replicas": 0, "observedGeneration": 1}
        return (
            Plan() if owner.status.observed_generation else Plan((merge_status(REPLICA_SETS, owner.metadata, wanted),))
        )

    async def story(bench: Bench) -> None:
        old = await bench.make_owner()
        assert bench.looks == [True]
        pod = await bench.api.create(PODS, a_pod("stray", labels={"app": "other"}), "default")
        bench.owners.take_in(Changed(KEY, old, old))
        bench.pods.take_in(Appeared(ObjectKey("default", "stray"), pod))
        await asyncio.sleep(1)
        assert bench.looks == [True], "acted on a picture older than its own write"
        new = await bench.api.get(REPLICA_SETS, "web", "default")
        bench.owners.take_in(Changed(KEY, old, new))
        await asyncio.sleep(1)
        assert bench.looks == [True, True]

    at_the_bench(story, report)


def test_nothing_is_settled_until_a_pod_that_was_made_has_been_seen() -> None:
    def make_one(owner: Workload) -> Plan:
        body = pod_from_template(
            owner.spec.template, controller_reference(REPLICA_SETS, owner.metadata), generate_name="web-"
        )
        return Plan((Create(PODS, "default", body),))

    async def story(bench: Bench) -> None:
        owner = await bench.make_owner()
        bench.owners.take_in(Changed(KEY, owner, owner))
        await asyncio.sleep(1)
        assert bench.looks == [True, False]
        (made,) = (await bench.api.list(PODS)).items
        bench.pods.take_in(Appeared(ObjectKey("default", made.metadata.name), made))
        await asyncio.sleep(1)
        assert bench.looks == [True, False, True]

    at_the_bench(story, make_one)


def test_an_owner_that_was_replaced_by_a_namesake_adopts_nobody() -> None:
    async def story(bench: Bench) -> None:
        await bench.make_owner()
        await bench.api.delete(REPLICA_SETS, "web", "default")
        await bench.api.create(REPLICA_SETS, a_workload("web", replicas=1), "default")
        orphan = await bench.api.create(PODS, a_pod("orphan", labels={"app": "web"}), "default")
        bench.pods.take_in(Appeared(ObjectKey("default", "orphan"), orphan))
        await asyncio.sleep(1)
        assert (await bench.api.get(PODS, "orphan", "default")).metadata.owner_references == ()

    at_the_bench(story)


def test_an_owner_that_stands_adopts() -> None:
    async def story(bench: Bench) -> None:
        owner = await bench.make_owner()
        orphan = await bench.api.create(PODS, a_pod("orphan", labels={"app": "web"}), "default")
        bench.pods.take_in(Appeared(ObjectKey("default", "orphan"), orphan))
        await asyncio.sleep(1)
        (reference,) = (await bench.api.get(PODS, "orphan", "default")).metadata.owner_references
        assert reference.uid == owner.metadata.uid

    at_the_bench(story)
