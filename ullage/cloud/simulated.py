"""A cloud in memory: machines take their time to boot, run out, are slow to be listed, and fail on demand.

Runs on any event loop, virtual ones included. Whoever wants nodes to come of its machines passes `on_boot`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from ullage.clock import Clock
from ullage.cloud.api import Created, CreateRequest, NoCapacity, PoolRef, QuotaReached, Refused
from ullage.cloud.faults import Faults
from ullage.model.instance import Instance, InstanceState
from ullage.model.provisioner import NodeTemplate

OnBoot = Callable[[Instance, CreateRequest], Awaitable[None]]


@dataclass(slots=True, kw_only=True)
class Behaviour:
    """How this cloud is. May be changed while it runs."""

    latency: float = 0.0
    """Seconds every call takes."""
    boot: float = 0.0
    """Seconds from being made to being a node."""
    list_lag: float = 0.0
    """Seconds by which lists are old."""
    capacity: dict[str, int] = field(default_factory=dict)
    """Machines there are at most of a pool; as many as you like where it says nothing."""
    quota: int | None = None
    """Machines the account may have."""


@dataclass(slots=True)
class _Machine:
    id: str
    request: CreateRequest
    since: float
    joins: bool
    gone_at: float | None = None
    booted: bool = False


class SimulatedCloud:
    """Remembers every machine there ever was, so that old lists can be told."""

    name = "simulated"

    def __init__(self, clock: Clock, behaviour: Behaviour | None = None, *, on_boot: OnBoot | None = None) -> None:
        self.behaviour = behaviour or Behaviour()
        self.faults = Faults()
        self._clock = clock
        self._on_boot = on_boot
        self._machines: dict[str, _Machine] = {}
        self._purchases: dict[str, tuple[CreateRequest, Created]] = {}
        self._changed = asyncio.Event()

    @property
    def staleness(self) -> float:
        return self.behaviour.list_lag

    @property
    def made(self) -> int:
        """Machines ever made."""
        return len(self._machines)

    async def create(self, request: CreateRequest) -> Created:
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
            machine = self._machines.get(one)
            if machine is not None and machine.gone_at is None:
                machine.gone_at = self._clock.now()
        await asyncio.sleep(self.behaviour.latency / 2)
        self.faults.after(fault)

    async def list(self, pools: Sequence[PoolRef]) -> Sequence[Instance]:  # noqa: ARG002 - it sees all of them
        await asyncio.sleep(self.behaviour.latency)
        fault = self.faults.before("list")
        moment = self._clock.now() - self.behaviour.list_lag
        self.faults.after(fault)
        return [
            self._seen(machine)
            for machine in self._machines.values()
            if machine.since <= moment and (machine.gone_at is None or machine.gone_at > moment)
        ]

    async def templates(self, pool: PoolRef) -> Sequence[NodeTemplate]:
        """Of those asked for before: it makes whatever is asked of it."""
        known = {id(one.template): one.template for one, _ in self._purchases.values() if one.pool.name == pool.name}
        return list(known.values())

    async def run(self) -> None:
        """Boots machines when their time has come, and tells `on_boot`."""
        while True:
            self._changed.clear()
            due = [machine for machine in self._machines.values() if self._boots(machine)]
            for machine in due:
                if self._boots_at(machine) <= self._clock.now():
                    machine.booted = True
                    if self._on_boot is not None:
                        await self._on_boot(self._seen(machine), machine.request)
            waiting = [self._boots_at(machine) for machine in due if not machine.booted]
            delay = min(waiting) - self._clock.now() if waiting else None
            try:
                async with asyncio.timeout(delay):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def close(self) -> None:
        """It has no connections."""

    def _create(self, request: CreateRequest) -> Created:
        if known := self._purchases.get(request.token):
            if (known[0].count, known[0].pool.name) != (request.count, request.pool.name):
                raise Refused(f"token {request.token} was used for another purchase")
            return known[1]
        running = [machine for machine in self._machines.values() if machine.gone_at is None]
        count = request.count
        shortfall: NoCapacity | QuotaReached | None = None
        if (most := self.behaviour.capacity.get(request.pool.name)) is not None:
            left = most - sum(machine.request.pool.name == request.pool.name for machine in running)
            if left < count:
                count, shortfall = left, NoCapacity(f"{max(left, 0)} left of {request.pool.name}")
        if self.behaviour.quota is not None and self.behaviour.quota - len(running) < count:
            count = self.behaviour.quota - len(running)
            shortfall = QuotaReached(f"the account may have {self.behaviour.quota} machines")
        if shortfall is not None and count < max(1, request.least):
            raise shortfall
        created = Created(tuple(self._make(request) for _ in range(count)), shortfall)
        self._purchases[request.token] = request, created
        self._changed.set()
        return created

    def _make(self, request: CreateRequest) -> Instance:
        name = f"{request.pool.name}-{len(self._machines):04}"
        machine = _Machine(name, request, self._clock.now(), self.faults.joins())
        self._machines[name] = machine
        return self._seen(machine)

    def _boots(self, machine: _Machine) -> bool:
        return machine.joins and not machine.booted and machine.gone_at is None

    def _boots_at(self, machine: _Machine) -> float:
        return machine.since + self.behaviour.boot

    def _seen(self, machine: _Machine) -> Instance:
        up = self._boots_at(machine) <= self._clock.now()
        return Instance(
            id=machine.id,
            pool=machine.request.pool.name,
            since=machine.since,
            state=InstanceState.RUNNING if up else InstanceState.PENDING,
            token=machine.request.token,
            node=machine.id if up and machine.joins else "",
            provider_id=f"simulated:///{machine.id}",
            zone=machine.request.zone,
        )
