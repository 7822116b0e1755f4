"""Cloud in memory: instances take time to boot, run out, are listed late, and fail on demand.

Runs on any event loop, virtual ones included. Pass `on_boot` to make nodes of its instances. Parameters of a pool
(`bootSeconds`, `capacity`) take precedence over those of the cloud as a whole.
"""

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from ullage.clock import Clock
from ullage.cloud.api import CreateRequest, CreateResult, NoCapacity, PoolRef, QuotaReached, RequestRejected
from ullage.cloud.faults import CloudFaults
from ullage.model.instance import Instance, InstanceState
from ullage.model.provisioner import NodeTemplate
from ullage.model.units import Instant

OnBoot = Callable[[Instance, CreateRequest], Awaitable[None]]


@dataclass(slots=True, kw_only=True)
class CloudBehaviour:
    """Latency, boot time, list lag and limits of this cloud. May be changed while it runs."""

    latency: float = 0.0
    """Seconds every call takes."""
    boot: float = 0.0
    """Seconds from creation to being a node."""
    list_lag: float = 0.0
    """Age of lists in seconds."""
    capacity: dict[str, int] = field(default_factory=dict)
    """Largest number of instances by pool; a pool without an entry is not limited."""
    quota: int | None = None
    """Largest number of instances of the account."""


@dataclass(slots=True)
class _Machine:
    id: str
    request: CreateRequest
    since: float
    boots_at: float
    joins: bool
    gone_at: float | None = None


class SimulatedCloud:
    """CloudProvider in memory. Remembers deleted instances for as long as old lists may have them."""

    name = "simulated"

    def __init__(self, clock: Clock, behaviour: CloudBehaviour | None = None, *, on_boot: OnBoot | None = None) -> None:
        self.behaviour = behaviour or CloudBehaviour()
        self.faults = CloudFaults()
        self.made = 0
        """Instances ever made."""
        self.on_made: Callable[[Instance, CreateRequest], None] = lambda _instance, _request: None
        self.on_gone: Callable[[str], None] = lambda _id: None
        """Called for an instance that was given back."""
        self.on_lost: Callable[[str], None] = lambda _id: None
        """Called for an instance that the cloud took."""
        self._clock = clock
        self._on_boot = on_boot
        self._machines: dict[str, _Machine] = {}
        self._gone: dict[str, _Machine] = {}
        self._purchases: dict[str, tuple[CreateRequest, CreateResult]] = {}
        self._booting: list[tuple[float, int, _Machine]] = []
        self._changed = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []

    @property
    def staleness(self) -> float:
        return self.behaviour.list_lag

    def machine_ids(self) -> list[str]:
        """Instances that exist now, whatever lists say."""
        return sorted(self._machines)

    def listen(self, on_change: Callable[[], None]) -> None:
        """Register a callback for every change of the lists."""
        self._listeners.append(on_change)

    def adopt(self, name: str, request: CreateRequest) -> None:
        """Add an instance that is a node already."""
        now = self._clock.now()
        self._add(_Machine(name, request, now, now, joins=True))

    async def create(self, request: CreateRequest) -> CreateResult:
        await asyncio.sleep(self.behaviour.latency / 2)
        fault = self.faults.before("create")
        created = self._create(request)
        await asyncio.sleep(self.behaviour.latency / 2)
        self.faults.after(fault)
        return created

    async def delete(self, ids: Sequence[str]) -> None:
        await asyncio.sleep(self.behaviour.latency / 2)
        fault = self.faults.before("delete")
        for one in ids:
            if self._end(one):
                self.on_gone(one)
                self._notify()
        await asyncio.sleep(self.behaviour.latency / 2)
        self.faults.after(fault)

    def take_back(self, name: str) -> None:
        """End an instance that nobody gave back, as a cloud does with spot instances."""
        if self._end(name):
            self.on_lost(name)
            self._notify()

    def _end(self, name: str) -> bool:
        machine = self._machines.pop(name, None)
        if machine is not None:
            machine.gone_at = self._clock.now()
            self._gone[name] = machine
        return machine is not None

    async def list(self, pools: Sequence[PoolRef]) -> Sequence[Instance]:  # noqa: ARG002 - it sees all of them
        await asyncio.sleep(self.behaviour.latency)
        fault = self.faults.before("list")
        moment = self._clock.now() - self.behaviour.list_lag
        self.faults.after(fault)
        self._gone = {one.id: one for one in self._gone.values() if one.gone_at is not None and one.gone_at > moment}
        known = [*self._machines.values(), *self._gone.values()] if self._gone else self._machines.values()
        return [self._seen(machine) for machine in known if machine.since <= moment]

    async def templates(self, pool: PoolRef) -> Sequence[NodeTemplate]:
        """Templates of the pool's purchases: this cloud makes every template it is asked for."""
        known = {id(one.template): one.template for one, _ in self._purchases.values() if one.pool.name == pool.name}
        return list(known.values())

    async def run(self) -> None:
        """Boot instances when they are due, and call `on_boot`."""
        while True:
            self._changed.clear()
            while self._booting and self._booting[0][0] <= self._clock.now():
                machine = heapq.heappop(self._booting)[2]
                if machine.gone_at is None:
                    self._notify()
                    if self._on_boot is not None:
                        await self._on_boot(self._seen(machine), machine.request)
            delay = self._booting[0][0] - self._clock.now() if self._booting else None
            try:
                async with asyncio.timeout(delay):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def close(self) -> None:
        """Nothing to close."""

    def _create(self, request: CreateRequest) -> CreateResult:
        if known := self._purchases.get(request.token):
            if (known[0].count, known[0].pool.name) != (request.count, request.pool.name):
                raise RequestRejected(f"token {request.token} was used for another purchase")
            return known[1]
        count = request.count
        shortfall: NoCapacity | QuotaReached | None = None
        if (most := self._capacity(request.pool)) is not None:
            left = most - sum(one.request.pool.name == request.pool.name for one in self._machines.values())
            if left < count:
                count, shortfall = left, NoCapacity(f"{max(left, 0)} left of {request.pool.name}")
        if self.behaviour.quota is not None and self.behaviour.quota - len(self._machines) < count:
            count = self.behaviour.quota - len(self._machines)
            shortfall = QuotaReached(f"the account may have {self.behaviour.quota} machines")
        if shortfall is not None and count < max(1, request.least):
            raise shortfall
        created = CreateResult(tuple(self._make(request) for _ in range(count)), shortfall)
        self._purchases[request.token] = request, created
        self._changed.set()
        return created

    def _capacity(self, pool: PoolRef) -> int | None:
        said = pool.parameters.get("capacity")
        return self.behaviour.capacity.get(pool.name) if said is None else int(said)

    def _make(self, request: CreateRequest) -> Instance:
        name, now = f"{request.pool.name}-{self.made:04}", self._clock.now()
        boot = float(request.pool.parameters.get("bootSeconds", self.behaviour.boot))
        machine = _Machine(name, request, now, now + boot, self.faults.joins())
        if machine.joins:
            heapq.heappush(self._booting, (machine.boots_at, self.made, machine))
        self._add(machine)
        return self._seen(machine)

    def _add(self, machine: _Machine) -> None:
        self.made += 1
        self._machines[machine.id] = machine
        self.on_made(self._seen(machine), machine.request)
        self._notify()

    def _notify(self) -> None:
        """Call the listeners: now, or when lists have the change."""
        for listener in self._listeners:
            if self.behaviour.list_lag > 0:
                asyncio.get_running_loop().call_later(self.behaviour.list_lag, listener)
            else:
                listener()

    def _seen(self, machine: _Machine) -> Instance:
        up = machine.boots_at <= self._clock.now()
        return Instance(
            id=machine.id,
            pool=machine.request.pool.name,
            since=Instant(machine.since),
            state=InstanceState.RUNNING if up else InstanceState.PENDING,
            token=machine.request.token,
            node=machine.id if up and machine.joins else "",
            provider_id=f"simulated:///{machine.id}",
            zone=machine.request.zone,
        )
