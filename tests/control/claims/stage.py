"""A claim keeper with its informers and picture, and short ways to make the things it looks at."""

import asyncio
import random
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from ullage.clock import Clock
from ullage.control.claims.loop import ClaimController
from ullage.kube.client.api import DELETE_NOW, Binding, KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import GPU_CLAIMS, GPU_QUOTAS, PODS
from ullage.kube.client.rest import RestApi
from ullage.kube.client.transport import Request
from ullage.kube.crds.install import install
from ullage.kube.objects.gpu import GpuClaim, GpuQuota
from ullage.kube.read.gpu import read_claim
from ullage.model.allocation import ALLOCATED, CLAIM, CLAIM_TEMPLATE
from ullage.model.claim import Claim, copy_key
from ullage.model.fact_event import FactEvent, ObjectKey
from ullage.model.pod import Pod
from ullage.model.refusal import SchedulingFailure
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.network_faults import NetworkConditions
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.state.snapshot import ClusterSnapshot
from ullage.testing.builders import a_pod
from ullage.watch.informer import Informer, run_all, wait_all_synced
from ullage.watch.sources import sources_served

NS = "default"
OURS = "gpu-scheduler"
FULL = SchedulingFailure(word="TooFewGpus", message="0/3 nodes fit: 3 TooFewGpus")


@dataclass
class Kept:
    """A keeper at work, and the picture it shares."""

    keeper: ClaimController
    snapshot: ClusterSnapshot

    def pod(self, name: str, namespace: str = NS) -> Pod:
        return self.snapshot.state.pods[ObjectKey(namespace, name)]

    def refuse(self, name: str, why: SchedulingFailure = FULL, namespace: str = NS) -> None:
        pod = self.pod(name, namespace)
        self.keeper.refused(pod.key, pod.uid, why)


@asynccontextmanager
async def kept(api: KubeApi, clock: Clock, *, names: tuple[str, ...] = (OURS,), seed: int = 1) -> AsyncIterator[Kept]:
    """A keeper runs during the block, and has heard everything there was."""
    snapshot = ClusterSnapshot()
    keeper = ClaimController(api, clock, snapshot, names=names)

    def hear(event: FactEvent[Any]) -> None:
        snapshot.apply(event)
        keeper.observe(event)

    rng = random.Random(seed)
    informers = [Informer(api, one, hear, rng=rng, clock=clock) for one in await sources_served(api)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run_all(*informers)), group.create_task(keeper.run())]
        await wait_all_synced(*informers)
        yield Kept(keeper, snapshot)
        for task in tasks:
            task.cancel()


@dataclass
class Scene:
    """Claims and pods of one namespace."""

    api: KubeApi
    ns: str = NS

    async def claim(self, name: str, count: int = 1, **spec: Any) -> GpuClaim:
        body = {"metadata": {"name": name}, "spec": {"devices": {"count": count} | spec.pop("devices", {})} | spec}
        return await self.api.create(GPU_CLAIMS, body, self.ns)

    async def pod(self, name: str, claim: str = "", *, template: str = "", **spec: Any) -> str:
        """Its uid."""
        notes = {key: value for key, value in ((CLAIM, claim), (CLAIM_TEMPLATE, template)) if value}
        body = a_pod(name, annotations=notes, **({"schedulerName": OURS} | spec))
        return (await self.api.create(PODS, body, self.ns)).metadata.uid

    async def bind(self, name: str, node: str, *gpus: int) -> None:
        notes = {ALLOCATED: f"{node}:{','.join(map(str, gpus))}"} if gpus else {}
        await self.api.bind(name, self.ns, Binding(node, annotations=notes))

    async def finish(self, name: str, phase: str = "Succeeded") -> None:
        await self.api.patch(PODS, name, MergePatch({"status": {"phase": phase}}), self.ns, subresource="status")

    async def remove(self, name: str) -> None:
        await self.api.delete(PODS, name, self.ns, how=DELETE_NOW)

    async def quota(self, name: str, **spec: Any) -> None:
        await self.api.create(GPU_QUOTAS, {"metadata": {"name": name}, "spec": spec}, self.ns)

    async def said(self, name: str) -> tuple[str, str, str]:
        """Phase, reason and what is held, as a claim's status says it."""
        claim = await self.fact(name)
        status = (await self.api.get(GPU_CLAIMS, name, self.ns)).status
        return status.phase, claim.word, status.allocated or status.node_name

    async def fact(self, name: str) -> Claim:
        return read_claim(await self.api.get(GPU_CLAIMS, name, self.ns))

    async def copy(self, pod: str, uid: str) -> JsonObject:
        return await self.api.get(GPU_CLAIMS.whole(), copy_key(ObjectKey(self.ns, pod), uid).name, self.ns)

    async def quota_status(self, name: str) -> GpuQuota:
        return await self.api.get(GPU_QUOTAS, name, self.ns)


@dataclass
class World:
    """A simulated API server, and all writes that a keeper sent to it."""

    seed: int = 1
    writes: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = loop_clock()
        self.server = SimulatedApiServer(self.clock, seed=self.seed)
        self.network = NetworkConditions(seed=self.seed)
        self.network.script(self._note)

    def _note(self, request: Request) -> None:
        if request.method != "GET":
            self.writes.append((request.method, request.path.rpartition("gpuclaims/")[2]))

    @property
    def keepers_api(self) -> KubeApi:
        return RestApi(InMemoryTransport(self.server, network=self.network), rng=random.Random(self.seed))

    async def scene(self) -> Scene:
        api = RestApi(InMemoryTransport(self.server), rng=random.Random(self.seed))
        await install(api)
        return Scene(api)


def told(story: Coroutine[Any, Any, None]) -> None:
    """A story in virtual time."""
    run_virtual(story)
