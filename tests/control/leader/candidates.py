"""Candidates on the simulated API server, and a server that notices when somebody acts who does not lead."""

import asyncio
import json
import random
from dataclasses import dataclass, field

from ullage.clock import Clock
from ullage.control.leader.election import ElectionLease, LeaderElector
from ullage.control.leader.guard import GuardedTransport
from ullage.control.leader.leadership import ElectionTiming, LeaderCandidate, Leadership, lead
from ullage.errors import ApiError, LeadershipLost
from ullage.kube.client.api import MergePatch
from ullage.kube.client.calling import RetryPolicy
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import CONFIG_MAPS, LEASES
from ullage.kube.client.rest import RestApi
from ullage.kube.client.transport import Request, Response, Transport
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.network_faults import NetworkConditions
from ullage.sim.process import ProcessRun, SimulatedProcess
from ullage.sim.renewal import SimulatedRenewal

SPACE, LEASE, BOARD = "default", "ullage", "board"
LEASE_PATH = LEASES.path(SPACE, LEASE)
BOARD_PATH = CONFIG_MAPS.path(SPACE, BOARD)


def api_over(transport: Transport, seed: int = 1, attempts: int = 5) -> RestApi:
    return RestApi(transport, rng=random.Random(seed), patience=RetryPolicy(attempts=attempts))


@dataclass(frozen=True)
class Act:
    """One write on the board that took effect."""

    at: float
    who: str
    holder: str
    """Whom the lease named at that moment."""
    term: int


class Referee(SimulatedApiServer):
    """Notes every write on the board together with who held the lease when it took effect."""

    def __init__(self, clock: Clock, seed: int) -> None:
        super().__init__(clock, seed)
        self._time = clock
        self.acts: list[Act] = []

    def handle(self, request: Request, user: str = "admin") -> Response:
        response = super().handle(request, user)
        if request.method == "PATCH" and request.path == BOARD_PATH and response.status == 200:
            term = int(json.loads(request.body or b"{}")["data"]["term"])
            self.acts.append(Act(self._time.steady(), user, self.holder, term))
        return response

    @property
    def lease(self) -> JsonObject:
        found: JsonObject = json.loads(super().handle(Request("GET", LEASE_PATH)).body)
        return found

    @property
    def holder(self) -> str:
        """Whom the lease names; nobody if it is empty, and `-` if there is none."""
        return str(self.lease["spec"].get("holderIdentity", "")) if "spec" in self.lease else "-"

    @property
    def fouls(self) -> list[Act]:
        """Acts of somebody the lease did not name, or of an earlier term than one seen before."""
        highest, found = 0, []
        for act in self.acts:
            if act.holder not in (act.who, "-") or act.term < highest:
                found.append(act)
            highest = max(highest, act.term)
        return found


@dataclass
class Team:
    """Replicas of one controller that writes on the board as often as it can while it leads."""

    clock: Clock
    seed: int = 1
    timing: ElectionTiming = field(default_factory=ElectionTiming)
    guarded: bool = True
    thinks: float = 0.0
    """Up to so many seconds before each write."""

    def __post_init__(self) -> None:
        self.server = Referee(self.clock, self.seed)
        self.network: dict[str, NetworkConditions] = {}
        self.log: list[str] = []
        self._starts = 0

    def replica(self, name: str, network: NetworkConditions | None = None) -> SimulatedProcess:
        self.network[name] = network or NetworkConditions(seed=self.seed)
        return SimulatedProcess(
            name,
            lambda: InMemoryTransport(self.server, user=name, network=self.network[name]),
            self._run,
        )

    async def prepare(self) -> None:
        await api_over(InMemoryTransport(self.server)).create(CONFIG_MAPS, {"metadata": {"name": BOARD}}, SPACE)

    def elector(self, transport: Transport, identity: str) -> LeaderElector:
        self._starts += 1
        rng = random.Random(self.seed * 1000 + self._starts)
        lease = ElectionLease(SPACE, LEASE, identity)
        return LeaderElector(api_over(transport, attempts=1), lease, clock=self.clock, rng=rng, timing=self.timing)

    async def _run(self, life: ProcessRun) -> None:
        candidate: LeaderCandidate = SimulatedRenewal(life, self.elector(life.transport, life.name))
        dice = random.Random(self.seed + self._starts)

        async def act(leadership: Leadership) -> None:
            self.log.append(f"{self.clock.steady():.3f} {life.name} leads term {leadership.term}")
            api = api_over(GuardedTransport(life.transport, leadership) if self.guarded else life.transport)
            while True:
                await life.charge(dice.uniform(0, self.thinks))
                await write(api, leadership.term)
                await asyncio.sleep(0.25)

        while True:
            try:
                await lead(candidate, act)
            except LeadershipLost:
                self.log.append(f"{self.clock.steady():.3f} {life.name} lost it")


async def write(api: RestApi, term: int) -> None:
    try:
        await api.patch(CONFIG_MAPS, BOARD, MergePatch({"data": {"term": str(term)}}), SPACE)
    except ApiError:
        return
