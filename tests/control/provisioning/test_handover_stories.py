"""Two controllers, of which one leads: frozen, cut off and killed at any moment, only the leader asks the cloud."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol, TypeVar

import pytest

from tests.control.provisioning.stage import CountingCloud, Stage, play
from tests.control.provisioning.test_stories import names
from tests.control.scheduling.stage import LATENCY, LEASE_NAMESPACE
from ullage.clock import Clock
from ullage.cloud.api import CreateRequest, CreateResult, PoolRef
from ullage.cloud.kwok.provider import KwokProvider
from ullage.config.settings import DrainingSettings, Settings
from ullage.control.draining.wiring import DrainController
from ullage.control.leader.cloud_guard import GuardedProvider
from ullage.control.leader.election import ElectionLease, LeaderElector
from ullage.control.leader.guard import GuardedTransport
from ullage.control.leader.leadership import Leadership, lead
from ullage.control.provisioning.wiring import ControllerEnvironment, ProvisioningController
from ullage.errors import ApiError, LeadershipLost
from ullage.kube.client.calling import RetryPolicy
from ullage.kube.client.resources import LEASES
from ullage.kube.client.rest import RestApi
from ullage.kube.client.transport import Request
from ullage.model.instance import Instance
from ullage.model.provisioner import NodeTemplate
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.network_faults import NetworkConditions
from ullage.sim.process import ProcessRun, SimulatedProcess
from ullage.sim.renewal import SimulatedRenewal

pytestmark = [pytest.mark.story, pytest.mark.fault]

ELECTION = "ullage-controller"

T = TypeVar("T")


class Place(Protocol):
    """What a story of two controllers plays in."""

    server: SimulatedApiServer
    clock: Clock
    cloud: CountingCloud
    controller: SimulatedProcess

    @property
    def now(self) -> float: ...


class FarCloud:
    """A cloud that does what it was asked for, whatever becomes of who asked; and sees who did."""

    name = "kwok"
    staleness = 0.0

    def __init__(self, inner: KwokProvider, who: str, near: "Switchboard") -> None:
        self._inner = inner
        self._who = who
        self._near = near

    async def create(self, request: CreateRequest) -> CreateResult:
        return await self._near.changes(self._who, f"create {request.token}", partial(self._inner.create, request))

    async def delete(self, ids: Sequence[str]) -> None:
        await self._near.changes(self._who, f"delete {ids}", partial(self._inner.delete, ids))

    async def list(self, pools: Sequence[PoolRef]) -> Sequence[Instance]:
        return await self._near.ask(partial(self._inner.list, pools))

    async def templates(self, pool: PoolRef) -> Sequence[NodeTemplate]:
        return await self._inner.templates(pool)

    async def run(self) -> None:
        return None

    async def close(self) -> None:
        return None


class Switchboard:
    """Carries out calls outside the processes that make them."""

    def __init__(self, stage: Place) -> None:
        self._stage = stage
        self._calls: asyncio.Queue[tuple[Callable[[], Awaitable[Any]], asyncio.Future[Any]]] = asyncio.Queue()
        self.fouls: list[str] = []
        self.asked: list[str] = []

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._carry_out(*await self._calls.get()))

    async def ask(self, call: Callable[[], Awaitable[T]]) -> T:
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._calls.put_nowait((call, answer))
        return await answer

    async def changes(self, who: str, what: str, call: Callable[[], Awaitable[T]]) -> T:
        self.asked.append(who)
        if self.holder != who:
            self.fouls.append(f"{self._stage.now:.1f} {who} asked to {what} while {self.holder!r} led")
        return await self.ask(call)

    @property
    def holder(self) -> str:
        found = self._stage.server.handle(Request("GET", LEASES.path(LEASE_NAMESPACE, ELECTION)))
        return str(json.loads(found.body).get("spec", {}).get("holderIdentity", ""))

    async def _carry_out(self, call: Callable[[], Awaitable[Any]], answer: asyncio.Future[Any]) -> None:
        try:
            result = await call()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
            if not answer.done():
                answer.set_exception(error)
        else:
            if not answer.done():
                answer.set_result(result)


def a_replica(
    stage: Place,
    name: str,
    near: Switchboard,
    network: NetworkConditions,
    seed: int,
    draining: DrainingSettings | None = None,
) -> SimulatedProcess:
    """A controller that stands for election, and drains where that is said."""
    rng = random.Random(f"{seed} {name}")

    async def program(life: ProcessRun) -> None:
        lease = ElectionLease(LEASE_NAMESPACE, ELECTION, name)
        own = RestApi(life.transport, rng=random.Random(rng.random()), patience=RetryPolicy(attempts=1))
        candidate = SimulatedRenewal(
            life, LeaderElector(own, lease, clock=stage.clock, rng=random.Random(rng.random()))
        )

        async def term(leadership: Leadership) -> None:
            api = RestApi(GuardedTransport(life.transport, leadership), rng=random.Random(rng.random()))
            cloud = FarCloud(stage.cloud, name, near)
            host = ControllerEnvironment(
                instance=name, providers={"kwok": cloud}, guard=partial(GuardedProvider, leadership=leadership)
            )
            seeded = rng.getrandbits(32)
            provisioning = ProvisioningController(api, Settings(), life.clock, seed=seeded, host=host)
            if draining is not None:
                DrainController(provisioning, Settings(draining=draining))
            await provisioning.run()

        while True:
            try:
                await lead(candidate, term)
            except* (LeadershipLost, ApiError):
                await asyncio.sleep(1.0)

    return SimulatedProcess(name, lambda: InMemoryTransport(stage.server, user=name, network=network), program)


@asynccontextmanager
async def two_replicas(
    stage: Place, seed: int, draining: DrainingSettings | None = None
) -> AsyncIterator[tuple[Switchboard, list[SimulatedProcess], list[NetworkConditions]]]:
    stage.controller.crash()
    near = Switchboard(stage)
    carrying = asyncio.ensure_future(near.run())
    weathers = [NetworkConditions(seed=seed + place, latency=LATENCY) for place in range(2)]
    pair = [a_replica(stage, f"c{place}", near, weathers[place], seed, draining) for place in range(2)]
    for one in pair:
        one.start()
    try:
        yield near, pair, weathers
    finally:
        for one in pair:
            one.crash()
        carrying.cancel()
        await asyncio.gather(carrying, return_exceptions=True)


def freeze_before_the_cloud_is_asked(one: SimulatedProcess, network: NetworkConditions, rng: random.Random) -> None:
    """The worst moment: a purchase has been written down, or a node was found empty, and the answer is on its way."""

    def script(request: Request) -> None:
        buys = request.method == "PATCH" and b'"purchase":{' in (request.body or b"")
        deletes = request.method == "GET" and "spec.nodeName" in str(request.query.get("fieldSelector", ""))
        if (buys or deletes) and one.alive and rng.random() < 0.3:
            one.life.freeze(rng.uniform(16, 40))

    network.script(script)


async def trouble(pair: list[SimulatedProcess], weathers: list[NetworkConditions], rng: random.Random) -> None:
    """Again and again something happens to one of them."""
    while True:
        await asyncio.sleep(rng.uniform(5, 40))
        place = rng.randrange(2)
        match rng.randrange(3):
            case 0:
                if pair[place].alive:
                    pair[place].life.freeze(rng.uniform(5, 40))
            case 1:
                weathers[place].partitioned = True
                await asyncio.sleep(rng.uniform(5, 30))
                weathers[place].partitioned = False
            case _:
                pair[place].crash()
                await asyncio.sleep(rng.uniform(1, 20))
                pair[place].start()


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.full) for n in range(1, 30))])
def test_only_the_leader_buys_and_deletes(seed: int) -> None:
    async def story(stage: Stage) -> None:
        rng = random.Random(seed)
        async with two_replicas(stage, seed) as (near, pair, weathers):
            troubling = asyncio.ensure_future(trouble(pair, weathers, rng))
            for one, network in zip(pair, weathers, strict=True):
                freeze_before_the_cloud_is_asked(one, network, rng)
            await stage.pool(scaleDownDelay="1m", bootDeadline="10m")
            await stage.pods(names(8))
            await stage.served(1800)
            await stage.leave(*names(8)[2:])
            await stage.has(2, 3600)
            troubling.cancel()
            await asyncio.gather(troubling, return_exceptions=True)
            assert (len(stage.cloud.made), len(await stage.nodes())) == (8, 2)
            assert near.fouls == []
            assert near.asked

    play(story, seed=seed + 1)
