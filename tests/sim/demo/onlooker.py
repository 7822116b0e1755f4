"""Looks on while a story is told in virtual time, at the objects on the API server, and notes when it saw what."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ullage.kube.client.resources import BUDGETS, EVENTS, GPU_CLAIMS, GPU_NODE_STATUSES, LEASES, NODES, PODS
from ullage.kube.objects.gpu import GpuClaim
from ullage.kube.objects.node import KubeNode
from ullage.kube.objects.pod import KubePod
from ullage.kube.read.gpu import read_inventory
from ullage.model.device import Device
from ullage.model.draining import DRAINING_TAINT
from ullage.model.provisioner import PROVISIONER_LABEL
from ullage.sim.demo.captions import Caption, CaptionFeed
from ullage.sim.demo.cluster import play, staged
from ullage.sim.demo.informers import TerminalInformers
from ullage.sim.demo.story import Story
from ullage.sim.demo.terminal_model import ORDINARY_LABEL
from ullage.sim.virtual_time import run_virtual
from ullage.sim.world.world import World

NS = "default"


class Onlooker:
    """Reads the API, never the captions."""

    def __init__(self, world: World, spoken: list[Caption]) -> None:
        self.world = world
        self.spoken = spoken
        self.most_draining = 0
        """Nodes that were seen with the draining taint at the same time."""

    async def until(self, holds: Callable[[], Awaitable[Any]], within: float) -> float:
        """Wait until it holds; returns when that was, in seconds since the beginning."""
        deadline = self.world.elapsed + within
        while not await holds():
            assert self.world.elapsed < deadline, f"not within {within:g} s: {holds.__name__}"
            await asyncio.sleep(1.0)
        return self.world.elapsed

    async def claim(self, name: str) -> GpuClaim:
        return await self.world.api.get(GPU_CLAIMS, name, NS)

    async def pod(self, name: str) -> KubePod:
        return await self.world.api.get(PODS, name, NS)

    async def pods(self, app: str) -> list[KubePod]:
        """Of a Deployment or Job, those that are not on their way out."""
        found = (await self.world.api.list(PODS, NS)).items
        return [one for one in found if one.metadata.labels.get("app") == app and not one.metadata.deletion_timestamp]

    async def nodes(self, pool: str = "") -> list[KubeNode]:
        """GPU nodes: those for ordinary pods are no part of a story."""
        listed = (await self.world.api.list(NODES)).items
        found = [one for one in listed if ORDINARY_LABEL not in one.metadata.labels]
        return [one for one in found if pool in ("", one.metadata.labels.get(PROVISIONER_LABEL))]

    async def draining(self) -> list[str]:
        names = [
            node.metadata.name
            for node in await self.nodes()
            if any(taint.key == DRAINING_TAINT for taint in node.spec.taints)
        ]
        self.most_draining = max(self.most_draining, len(names))
        return names

    async def devices(self, node: str) -> tuple[Device, ...]:
        return read_inventory(await self.world.api.get(GPU_NODE_STATUSES, node)).devices

    async def leased_to(self, *pods: KubePod) -> list[str]:
        """Names of the Leases these pods hold."""
        uids = {pod.metadata.uid for pod in pods}
        leases = (await self.world.api.list(LEASES, "ullage-system")).items
        return sorted(one.metadata.name for one in leases if one.spec.holder_identity in uids)

    async def events(self, reason: str) -> list[dict[str, Any]]:
        return [one for one in (await self.world.api.list(EVENTS)).items if one.get("reason") == reason]

    async def budgets_kept(self) -> bool:
        """No budget is below what it wants, of the pods that are Ready by their own word."""
        for budget in (await self.world.api.list(BUDGETS, NS)).items:
            if budget.status.current_healthy < budget.status.desired_healthy:
                return False
        return True


def look_on(story: Story, seen: Callable[[Onlooker], Awaitable[None]], *, seed: int = 1) -> list[Caption]:
    """Tell a story while somebody looks on. Returns all that was told."""
    spoken: list[Caption] = []

    async def live() -> None:
        async with staged(story, seed) as world:
            programme = CaptionFeed(story)
            programme.listen(spoken.append)
            began = world.clock.now() - world.elapsed
            watching = TerminalInformers(world.api, world.clock, programme.record, seed=seed, began=began)
            beside = [asyncio.ensure_future(watching.run()), asyncio.ensure_future(play(world, programme))]
            try:
                await seen(Onlooker(world, spoken))
            finally:
                for task in beside:
                    task.cancel()
                ended = await asyncio.gather(*beside, return_exceptions=True)
            broken = [one for one in ended if isinstance(one, Exception)]
            assert not broken, broken
            assert world.violation is None, world.violation

    run_virtual(live())
    return spoken
