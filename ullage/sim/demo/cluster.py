"""World of a story: nodes run the real agents' code, and the API server calls the real webhook's code."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from ullage.clock import Clock
from ullage.decide.admission.policy import AdmissionPolicy
from ullage.kube.client.rest import RestApi
from ullage.sim.admission import post_webhook
from ullage.sim.agents.fleet import SimulatedAgents, SimulatedAgentSettings
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.demo.captions import Caption, CaptionFeed
from ullage.sim.demo.manifests import ordinary_nodes
from ullage.sim.demo.story import Story
from ullage.sim.demo.story_player import StoryPlayer
from ullage.sim.world.admin_client import AdminClient
from ullage.sim.world.processes import CONTROLLER
from ullage.sim.world.spec import SCHEDULER, WorldSpec
from ullage.sim.world.world import World, started_world

_DENIED = "admission webhook"
"""Prefix of the API server's message for a request that a webhook denied."""


@asynccontextmanager
async def staged(story: Story, seed: int) -> AsyncIterator[World]:
    """World at the story's beginning, with every loop started. Runs on a virtual or scaled loop."""
    spec = story.world(seed)
    # Pods of one's own have a scheduler and a place, too. Nodes of VMs are open to them.
    more = ordinary_nodes() if spec.vms is None else ()
    spec = replace(spec, kube_scheduler=True, nodes=(*spec.nodes, *more))
    parts = _Parts(spec)
    async with started_world(spec, agents=parts.agents, admission=parts.admission) as world:
        yield world


async def play(world: World, programme: CaptionFeed) -> None:
    """Play the feed's story to its end."""

    def note(text: str) -> None:
        who, word = ("webhook", "Refused") if text.startswith(_DENIED) else ("demo", "Skipped")
        programme.record(Caption(at=world.elapsed, who=who, word=word, text=text, warning=True))

    player = StoryPlayer(world, programme.story, lambda story_step: programme.begin(story_step, world.elapsed), note)
    await player.play()


class _Parts:
    """Agents and admission of a story's world, in place of the simpler defaults."""

    def __init__(self, spec: WorldSpec) -> None:
        self._spec = spec
        self._server: SimulatedApiServer | None = None

    def admission(self, server: SimulatedApiServer) -> None:
        self._server = server
        server.serve_metrics()
        post_webhook(server, AdmissionPolicy(identities=(SCHEDULER,), controllers=(CONTROLLER,)))

    def agents(self, _hand: AdminClient, clock: Clock, heartbeats: bool) -> SimulatedAgents:
        if self._server is None:
            raise RuntimeError("agents come after the server they speak to")
        seed = self._spec.seed + 2
        wire = InMemoryTransport(self._server, user="agents")
        api = RestApi(wire, rng=random.Random(seed), lossless=not self._spec.faults)
        settings = SimulatedAgentSettings(
            lease_namespace=self._spec.settings.scheduling.lease_namespace, heartbeats=heartbeats, seed=seed
        )
        return SimulatedAgents(api, clock, settings)
