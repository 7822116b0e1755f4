"""Gangs in virtual time: rivals, bad weather, and two schedulers with different plans for one gang."""

import asyncio
import random
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.act.gangs import a_gang, breaches, holders, leaked, leases_of, nodes_of, setbacks
from ullage.act.gang_bind import GangBinder
from ullage.act.leases import LeaseClient
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import PODS
from ullage.kube.client.rest import RestApi
from ullage.kube.client.transport import Request
from ullage.model.intents import BindGang, BindPod
from ullage.model.outcomes import GangBindOutcome, PodBound
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.network_faults import FaultRates, Latency, NetworkConditions, NetworkFault
from ullage.sim.virtual_time import loop_clock, run_virtual

pytestmark = pytest.mark.story

NS = "default"
SPREAD = Latency(default=0.004, spread=3.0, watch=0.01)


class World:
    """One API server; each client has its own weather."""

    def __init__(self) -> None:
        self.server = SimulatedApiServer(loop_clock(), seed=1)
        self.calm = self.client()

    def client(self, network: NetworkConditions | None = None, seed: int = 1) -> KubeApi:
        return RestApi(InMemoryTransport(self.server, network=network), rng=random.Random(seed))

    def hands(self, network: NetworkConditions | None = None, seed: int = 1) -> GangBinder:
        api = self.client(network, seed)
        return GangBinder(api, LeaseClient(api, NS, loop_clock()))


def told(story: Coroutine[Any, Any, None]) -> None:
    run_virtual(story)


async def fresh(api: KubeApi, gang: BindGang) -> BindGang:
    """The same plan for those members who still wait, as they are now."""
    versions = {
        pod.metadata.uid: pod.metadata.resource_version
        for pod in (await api.list(PODS, NS)).items
        if not pod.spec.node_name
    }
    places = [replace(place, resource_version=versions[place.uid]) for place in gang.places if place.uid in versions]
    return replace(gang, places=tuple(places))


def test_in_each_round_of_a_ring_of_rivals_somebody_gets_through() -> None:
    """Each gang wants what is its own and what its neighbour wants, all at once, round after round."""

    async def story(seed: int) -> None:
        world, count = World(), 5
        waiting = [
            await a_gang(
                world.calm,
                NS,
                {f"g{n}-a": (f"node-{n}", (0, 1)), f"g{n}-b": (f"node-{(n + 1) % count}", (1, 2))},
                name=f"g{n}",
            )
            for n in range(count)
        ]
        placed: list[BindPod] = []
        for turn in range(count):
            hands = [
                world.hands(NetworkConditions(seed=seed * 100 + turn * 10 + n, latency=SPREAD))
                for n in range(len(waiting))
            ]
            outcomes = await asyncio.gather(*(hand.perform(gang) for hand, gang in zip(hands, waiting, strict=True)))
            winners = [outcome.action for outcome in outcomes if not any(setbacks(outcome))]
            assert winners or placed, f"seed {seed}: all of {len(waiting)} gave way to each other"
            placed += [place for gang in winners for place in gang.places]
            waiting = [gang for gang in waiting if gang not in winners]
            assert await holders(world.calm, NS) == leases_of(placed)
        assert await breaches(world.calm, NS) == []

    for seed in range(12):
        told(story(seed))


def is_bind(request: Request) -> bool:
    return request.path.endswith("/binding")


@pytest.mark.parametrize(
    "fault", [pytest.param(NetworkFault.LOST, id="done"), pytest.param(NetworkFault.REFUSED, id="not-done")]
)
def test_a_bind_without_an_answer_is_settled_for_its_member_alone(fault: NetworkFault) -> None:
    async def story() -> None:
        world, network = World(), NetworkConditions()
        gang = await a_gang(world.calm, NS, {"p0": ("node-a", (0,)), "p1": ("node-b", (0,))})
        network.next_calls(fault, where=lambda request: is_bind(request) and "/p0/" in request.path)
        outcome = await world.hands(network).perform(gang)
        done = fault is NetworkFault.LOST
        assert setbacks(outcome) == (["", ""] if done else ["ApiFailed", ""])
        assert leaked(outcome) == [False, False]
        assert await holders(world.calm, NS) == leases_of(gang.places if done else gang.places[1:])
        assert await nodes_of(world.calm, NS) == {"p0": "node-a" if done else "", "p1": "node-b"}

    told(story())


def test_a_lease_whose_making_got_no_answer_is_found_and_kept() -> None:
    async def story() -> None:
        world, network = World(), NetworkConditions()
        gang = await a_gang(world.calm, NS, {"p0": ("node-a", (0, 1)), "p1": ("node-b", (0,))})
        network.next_calls(
            NetworkFault.LOST, where=lambda request: request.method == "POST" and "leases" in request.path
        )
        assert setbacks(await world.hands(network).perform(gang)) == ["", ""]
        assert await holders(world.calm, NS) == leases_of(gang.places)

    told(story())


STORM = FaultRates(
    {NetworkFault.LOST: 0.08, NetworkFault.REFUSED: 0.05, NetworkFault.BROKEN: 0.03, NetworkFault.THROTTLED: 0.02}
)


@pytest.mark.fault
def test_whatever_the_weather_a_failed_gang_leaves_no_lease_unless_it_says_so() -> None:
    async def story(seed: int) -> None:
        world = World()
        gangs = [
            await a_gang(world.calm, NS, _placements(random.Random(seed * 7 + n), f"g{n}"), name=f"g{n}")
            for n in range(4)
        ]
        hands = [
            world.hands(NetworkConditions(seed=seed * 10 + n, latency=SPREAD, odds=STORM), seed=n) for n in range(4)
        ]
        outcomes = await asyncio.gather(*(hand.perform(gang) for hand, gang in zip(hands, gangs, strict=True)))
        held = await holders(world.calm, NS)
        for outcome in outcomes:
            for one in outcome.outcomes:
                mine = {name for name, uid in held.items() if uid == one.action.uid}
                if isinstance(one, PodBound):
                    assert mine == set(leases_of([one.action]))
                elif not one.leaked:
                    assert mine == set(), f"seed {seed}: {one}"
        assert await breaches(world.calm, NS) == []

    for seed in range(40):
        told(story(seed))


@pytest.mark.fault
def test_two_schedulers_with_different_plans_never_give_a_gpu_twice() -> None:
    """Each adopts what the other took for the same pods, gives up, and gives back: none of it under a running pod."""

    async def story(seed: int) -> None:
        world, rng = World(), random.Random(seed)
        gangs = [await a_gang(world.calm, NS, _placements(rng, f"g{n}"), name=f"g{n}") for n in range(3)]
        alarm = list[str]()

        async def scheduler(number: int) -> None:
            network = NetworkConditions(seed=seed * 2 + number, latency=SPREAD, odds=STORM)
            hands, choice = world.hands(network, seed=number), random.Random(seed * 2 + number)
            for _ in range(6):
                gang = await fresh(world.calm, choice.choice(gangs))
                outcome = await hands.perform(_moved(gang, choice))
                _check_words(outcome)
                alarm.extend(await breaches(world.calm, NS))
                await asyncio.sleep(choice.random() * 0.02)

        await asyncio.gather(scheduler(0), scheduler(1))
        assert alarm == [], f"seed {seed}"

    for seed in range(60):
        told(story(seed))


def _placements(rng: random.Random, gang: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Three members on two small nodes that everybody wants."""
    return {f"{gang}-{n}": (rng.choice(("node-a", "node-b")), tuple(rng.sample(range(4), 2))) for n in range(3)}


def _moved(gang: BindGang, rng: random.Random) -> BindGang:
    """Another scheduler's idea of where the gang should be."""
    places = [
        replace(place, node=rng.choice(("node-a", "node-b")), devices=tuple(rng.sample(range(4), 2)))
        for place in gang.places
    ]
    return replace(gang, places=tuple(_apart(places)))


def _apart(places: Sequence[BindPod]) -> list[BindPod]:
    """Those whose GPUs no earlier member has."""
    kept: list[BindPod] = []
    for place in places:
        if not leases_of([place]).keys() & leases_of(kept).keys():
            kept.append(place)
    return kept


def _check_words(outcome: GangBindOutcome) -> None:
    assert [one.action for one in outcome.outcomes] == list(outcome.action.places)
