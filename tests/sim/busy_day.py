"""A simulated day's worth of trouble, written down line by line: `python -m tests.sim.busy_day SEED` prints it.

Three replicas of a small scheduler elect a leader, watch pods and nodes, and bind; somebody creates and deletes pods;
and calls get lost, watches break, history is compacted, replicas freeze, crash and are cut off.
"""

import asyncio
import hashlib
import json
import logging
import random
import sys
from collections.abc import Callable

import structlog

from ullage.clock import Clock
from ullage.control.leader.election import ElectionLease, LeaderElector
from ullage.control.leader.guard import GuardedTransport
from ullage.control.leader.leadership import Leadership, lead
from ullage.errors import ApiError, LeadershipLost
from ullage.kube.client.api import DELETE_NOW, Binding
from ullage.kube.client.resources import NODES, PODS
from ullage.kube.client.rest import RestApi
from ullage.kube.client.transport import Request, Response
from ullage.kube.objects.pod import KubePod
from ullage.model.fact_event import FactEvent
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.network_faults import FaultRates, Latency, NetworkConditions, NetworkFault
from ullage.sim.process import ProcessRun, SimulatedProcess
from ullage.sim.renewal import SimulatedRenewal
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.watch.informer import Informer, InformerSpec, run_all, wait_all_synced

Log = Callable[[str], None]
SPACE = "default"
DURATION = 400.0


class WritingServer(SimulatedApiServer):
    """Writes every call and its answer down."""

    def __init__(self, clock: Clock, seed: int, log: Log) -> None:
        super().__init__(clock, seed, history=60, watch_buffer=20)
        self._log = log

    def handle(self, request: Request, user: str = "admin") -> Response:
        response = super().handle(request, user)
        digest = hashlib.sha256(response.body).hexdigest()[:12]
        query = "&".join(f"{key}={value}" for key, value in request.query.items())
        self._log(f"{user} {request.method} {request.path}?{query} {response.status} {digest}")
        return response


class Scheduler:
    """One replica: watches always, binds while it leads."""

    def __init__(self, life: ProcessRun, seed: int, log: Log) -> None:
        self._life = life
        self._log = log
        self._rng = random.Random(f"{life.name} {seed}")
        self._changed = asyncio.Event()
        api = RestApi(life.transport, rng=self._rng)
        self._pods = Informer(
            api, InformerSpec(PODS, _place, chunk=7), self._hear, rng=self._rng, clock=life.clock, on_trouble=self._note
        )
        self._nodes = Informer(api, InformerSpec(NODES, _name), self._hear, rng=self._rng, clock=life.clock)

    async def run(self) -> None:
        identity = f"{self._life.name}-{self._rng.randrange(10_000)}"
        lease = ElectionLease(SPACE, "scheduler", identity)
        elector = LeaderElector(
            RestApi(self._life.transport, rng=self._rng), lease, clock=self._life.clock, rng=self._rng
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(run_all(self._pods, self._nodes))
            while True:
                try:
                    await lead(SimulatedRenewal(self._life, elector), self._bind)
                except LeadershipLost as lost:
                    self._log(f"{self._life.name}: {lost}")

    async def _bind(self, leadership: Leadership) -> None:
        self._log(f"{leadership.identity} leads term {leadership.term}")
        api = RestApi(GuardedTransport(self._life.transport, leadership), rng=self._rng)
        await wait_all_synced(self._pods, self._nodes)
        while True:
            self._changed.clear()
            waiting = sorted(key for key, node in self._pods.facts.items() if not node)
            nodes = sorted(key.name for key in self._nodes.facts)
            await self._life.charge(0.05 * len(waiting))
            if not waiting or not nodes:
                await self._changed.wait()
                continue
            try:
                await api.bind(waiting[0].name, SPACE, Binding(node=self._rng.choice(nodes)))
            except ApiError as error:
                self._log(f"{self._life.name}: {error}")
            await asyncio.sleep(0.5)

    def _hear(self, event: FactEvent[str]) -> None:
        self._log(f"{self._life.name} hears {event}")
        self._changed.set()

    def _note(self, error: ApiError) -> None:
        self._log(f"{self._life.name} is troubled: {error}")


def _place(pod: KubePod) -> str:
    return pod.spec.node_name


def _name(thing: object) -> str:
    return type(thing).__name__


async def users(api: RestApi, rng: random.Random) -> None:
    """Create and delete pods for ever."""
    spec = {"containers": [{"name": "main", "image": "none"}]}
    while True:
        await asyncio.sleep(rng.uniform(0.2, 4))
        pods = (await api.list(PODS, SPACE)).items
        if len(pods) > 5 and rng.random() < 0.45:
            await api.delete(PODS, rng.choice(pods).metadata.name, SPACE, how=DELETE_NOW)
        else:
            await api.create(PODS, {"metadata": {"generateName": "job-"}, "spec": spec}, SPACE)


async def trouble(
    server: WritingServer, replicas: list[tuple[SimulatedProcess, NetworkConditions]], rng: random.Random, log: Log
) -> None:
    """Something goes wrong every few seconds."""
    while True:
        await asyncio.sleep(rng.uniform(2, 15))
        victim, network = rng.choice(replicas)
        what = rng.choice(("crash", "freeze", "partition", "heal", "compact"))
        log(f"{victim.name}: {what}")
        match what:
            case "crash":
                victim.restart()
            case "freeze":
                victim.life.freeze(rng.uniform(1, 30))
            case "compact":
                server.compact()
            case _:
                network.partitioned = what == "partition"


async def day(seed: int, write: Callable[[str], None]) -> None:
    clock, rng = loop_clock(), random.Random(seed)
    server = WritingServer(clock, seed, lambda line: write(f"{clock.steady():.6f} {line}"))
    log: Log = server._log
    api = RestApi(InMemoryTransport(server), rng=random.Random(seed + 1))
    for number in range(3):
        await api.create(NODES, {"metadata": {"name": f"node-{number}"}})
    odds = FaultRates(
        {NetworkFault.LOST: 0.03, NetworkFault.REFUSED: 0.03, NetworkFault.UNAVAILABLE: 0.02}, stream_cut=0.01
    )
    replicas: list[tuple[SimulatedProcess, NetworkConditions]] = []
    for number in range(3):
        network = NetworkConditions(
            seed=seed + number, latency=Latency(default=0.05, spread=4.0, watch=0.02), odds=odds
        )

        def connect(name: str = f"replica-{number}", network: NetworkConditions = network) -> InMemoryTransport:
            return InMemoryTransport(server, user=name, network=network)

        replicas.append(
            (
                SimulatedProcess(f"replica-{number}", connect, lambda life: Scheduler(life, seed, log).run()),
                network,
            )
        )
        replicas[-1][0].start()
    others = [asyncio.create_task(users(api, rng)), asyncio.create_task(trouble(server, replicas, rng, log))]
    await asyncio.sleep(DURATION)
    for task in others:
        task.cancel()
    pods = [(pod.metadata.name, pod.metadata.uid, pod.spec.node_name) for pod in (await api.list(PODS)).items]
    write(json.dumps(pods))


if __name__ == "__main__":
    # What is logged bears the time of the world outside.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    run_virtual(day(int(sys.argv[1]), lambda line: print(line)))  # noqa: T201 - printing is what it is for
