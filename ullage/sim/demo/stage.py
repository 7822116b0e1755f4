"""The world of a story: with real agents' code on its nodes and the webhook at its door."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ullage.clock import Clock
from ullage.decide.admit.policy import AdmissionPolicy
from ullage.kube.rest import RestApi
from ullage.sim.admission import post_webhook
from ullage.sim.agents.fleet import AgentSettings, SimulatedAgents
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.demo.programme import Programme, Told
from ullage.sim.demo.story import Story
from ullage.sim.demo.telling import Telling
from ullage.sim.world.hand import Hand
from ullage.sim.world.spec import SCHEDULER, WorldSpec
from ullage.sim.world.world import World, started_world

_DENIED = "admission webhook"
"""How the API server begins to say that it was not its own idea."""


@asynccontextmanager
async def staged(story: Story, seed: int) -> AsyncIterator[World]:
    """The world at the story's beginning, everybody at work. On a virtual or scaled loop."""
    spec = story.world(seed)
    parts = _Parts(spec)
    async with started_world(spec, agents=parts.agents, admission=parts.admission) as world:
        yield world


async def play(world: World, programme: Programme) -> None:
    """Tell the programme's story to its end."""

    def note(text: str) -> None:
        who, word = ("webhook", "Refused") if text.startswith(_DENIED) else ("demo", "Skipped")
        programme.tell(Told(at=world.elapsed, who=who, word=word, text=text, warning=True))

    telling = Telling(world, programme.story, lambda moment: programme.begin(moment, world.elapsed), note)
    await telling.tell()


class _Parts:
    """What a story's world has in place of the plain parts."""

    def __init__(self, spec: WorldSpec) -> None:
        self._spec = spec
        self._server: SimulatedApiServer | None = None

    def admission(self, server: SimulatedApiServer) -> None:
        self._server = server
        post_webhook(server, AdmissionPolicy(identities=(SCHEDULER,)))

    def agents(self, _hand: Hand, clock: Clock, heartbeats: bool) -> SimulatedAgents:
        if self._server is None:
            raise RuntimeError("agents come after the server they speak to")
        seed = self._spec.seed + 2
        wire = InMemoryTransport(self._server, user="agents")
        api = RestApi(wire, rng=random.Random(seed), lossless=not self._spec.faults)
        settings = AgentSettings(lease_namespace=self._spec.scheduler.lease_namespace, heartbeats=heartbeats, seed=seed)
        return SimulatedAgents(api, clock, settings)
