"""One simulated machine: its GPUs, its agent, and whether that is heard of."""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from ullage.act.sweep import Broom
from ullage.agent.kubelet import Kubelet
from ullage.agent.loop import Agent, AgentPace, Eyes, Voice
from ullage.agent.processes import ProcFolder
from ullage.agent.publishing import Publisher
from ullage.agent.rounds import Rounds
from ullage.clock import Clock, Instant
from ullage.decide.inventory.kind import Mode
from ullage.kube.api import KubeApi
from ullage.model.device import GpuNodeKind, Health, Inventory
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod
from ullage.observe.agent_metrics import AgentMetrics
from ullage.observe.events import EventRecorder
from ullage.sim.agents.hardware import Bench

FRESH_FOR_EVER = Instant(253_402_300_799.0)
"""9999-12-31T23:59:59Z: the time of a report that nobody has to repeat."""

TICKLESS = AgentPace(look=math.inf, report=math.inf)
"""Looks when something happened, tells when something changed, and is silent otherwise."""

_LAST_WORDS_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What all machines share."""

    api: KubeApi
    clock: Clock
    events: EventRecorder
    lease_namespace: str
    heartbeats: bool
    """Agents look and report as often as real ones do, with the time that it is."""


class Machine:
    """The GPUs of one node, and the agent that speaks for them. `run` until cancelled."""

    def __init__(self, inventory: Inventory, around: Surroundings, pods: Mapping[ObjectKey, Pod]) -> None:
        """`pods` are those on this node, kept up to date by whoever hears of them."""
        self.node = inventory.node
        self._pods = pods
        self._bench = Bench(inventory)
        self._mode = Mode.COUNTED if inventory.kind is GpuNodeKind.COUNTED else Mode.LEASED
        self._around = around
        self._silent = False
        self._turn = asyncio.Event()

    async def run(self) -> None:
        """Agents come and go here as on a real node; the GPUs stay."""
        while True:
            self._turn.clear()
            agent = asyncio.ensure_future(self._silenced() if self._silent else self._agent(self._silent).run())
            turned = asyncio.ensure_future(self._turn.wait())
            try:
                await asyncio.wait((agent, turned), return_when=asyncio.FIRST_COMPLETED)
                if agent.done():
                    agent.result()
                    await turned
            finally:
                for task in (agent, turned):
                    task.cancel()
                await asyncio.gather(agent, turned, return_exceptions=True)

    def silence(self) -> None:
        """The agent dies: what it said last gets old from now on."""
        self._silent = True
        self._turn.set()

    def resume(self) -> None:
        """Another one starts."""
        self._silent = False
        self._turn.set()

    def set_health(self, gpu: int, health: Health) -> None:
        """A GPU breaks, or is as new again. What an agent holds against a GPU, only the next agent forgets."""
        self._bench.becomes(gpu, health)
        if health is Health.HEALTHY:
            self._turn.set()

    def pods_changed(self) -> None:
        """Whether a broken GPU is held decides whether it is still counted."""
        if self._bench.ill:
            self._bench.nudge()

    def _agent(self, silent: bool) -> Agent:
        around = self._around
        clock = around.clock if around.heartbeats or silent else _ForEver(around.clock)
        voice = Voice(
            Publisher(around.api, self.node, around.clock),
            Broom(around.api, around.lease_namespace),
            around.events,
            AgentMetrics(CollectorRegistry()),
        )
        eyes = Eyes(self._bench, Rounds(self._bench, ProcFolder(), clock), Kubelet(None), self._pods)
        pace = AgentPace() if around.heartbeats else TICKLESS
        return Agent(self.node, eyes, voice, around.clock, mode=self._mode, pace=pace)

    async def _silenced(self) -> None:
        """With heartbeats the last report has its time already. Without, one more has to be dated."""
        if self._around.heartbeats:
            return
        agent = self._agent(True)
        speaking = asyncio.ensure_future(agent.run())
        try:
            await asyncio.wait((speaking,), timeout=_LAST_WORDS_SECONDS)
        finally:
            speaking.cancel()
            await asyncio.gather(speaking, return_exceptions=True)


class _ForEver:
    """A clock whose moments do not pass, for reports that need no repeating. What lasts, lasts as long as it does."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> Instant:
        return FRESH_FOR_EVER

    def steady(self) -> float:
        return self._clock.steady()

    async def charge(self, cpu_seconds: float) -> None:
        await self._clock.charge(cpu_seconds)
