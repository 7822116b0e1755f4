"""The two worlds the contract holds in: how each is entered, and how each is made to forget its history."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp

from tests.contract.expect import eventually
from tests.contract.kinds import CRD, NAMESPACE, WIDGET
from tests.contract.steps import ended, widgets_served
from ullage.clock import WallClock
from ullage.errors import Gone, NotFound, TooManyRequests
from ullage.kube.auth.access import ClusterAccess
from ullage.kube.auth.connect import find_access, open_api
from ullage.kube.client.api import JsonPatch, KubeApi
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import NODES
from ullage.kube.client.rest import RestApi
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.release import MINOR
from ullage.sim.apiserver.request.authorization import ADMIN
from ullage.testing.controlplane import ControlPlane
from ullage.testing.controlplane.versions import chosen_minor

Forget = Callable[[], Awaitable[None]]
EnterAs = Callable[[str], KubeApi]


@dataclass(frozen=True, slots=True)
class World:
    """An API server, a namespace of one's own in it, and a way to make it forget the past of widgets."""

    api: KubeApi
    namespace: str
    forget_history: Forget
    enter_as: EnterAs
    """The same server for a user who may do nothing."""
    minor: int
    """Of its Kubernetes: 37 for 1.37."""


def _number(minor: str) -> int:
    return int(minor.rpartition(".")[2])


async def fresh_namespace(api: KubeApi) -> str:
    """A namespace nobody else uses."""
    made = await api.create(NAMESPACE, {"metadata": {"generateName": "contract-"}})
    return str(made["metadata"]["name"])


@asynccontextmanager
async def memory_world() -> AsyncIterator[World]:
    """An API server of our own in this process, without latency; new for each test."""
    server = SimulatedApiServer(WallClock(), seed=1, authorise=lambda asked: asked.user == ADMIN)

    def enter_as(user: str) -> KubeApi:
        return RestApi(InMemoryTransport(server, user=user), rng=random.Random(1))

    async def forget() -> None:
        server.compact()

    api = enter_as(ADMIN)
    yield World(api, await fresh_namespace(api), forget, enter_as, _number(MINOR))
    await api.close()


@asynccontextmanager
async def real_world(plane: ControlPlane, access: ClusterAccess) -> AsyncIterator[World]:
    """A kube-apiserver with etcd behind it."""
    api = open_api(access, seed=0)
    try:

        async def forget() -> None:
            await widgets_served(api)
            before = (await api.list(WIDGET)).resource_version
            await compact(plane.etcd)
            await renew_definition(api, before)
            await eventually(lambda: is_forgotten(api, before), until=bool)

        def enter_as(user: str) -> KubeApi:
            return open_api(find_access(plane.kubeconfig_for(user)), seed=0)

        world = World(api, await fresh_namespace(api), forget, enter_as, _number(chosen_minor()))
        yield world
        await remove_nodes(world)
    finally:
        await api.close()


async def remove_nodes(world: World) -> None:
    """Namespaces keep what is in them apart; nodes would be seen by whoever uses the server next."""
    for node in (await world.api.list(NODES)).items:
        if node.metadata.name.startswith(world.namespace):
            await world.api.delete(NODES, node.metadata.name)


async def compact(etcd: str) -> None:
    """Drop every revision but the latest, as kube-apiserver does by itself every five minutes."""
    async with aiohttp.ClientSession(etcd) as session:

        async def ask(path: str, body: JsonObject) -> JsonObject:
            async with session.post(path, json=body, raise_for_status=True) as response:
                return dict(await response.json())

        revision = (await ask("/v3/kv/range", {"key": "AA=="}))["header"]["revision"]
        await ask("/v3/kv/compaction", {"revision": revision})


async def renew_definition(api: KubeApi, mark: str) -> None:
    """Change the definition of widgets: their watch cache, which still knew the past, is then built anew."""
    described = {"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/description", "value": mark}
    await api.patch(CRD, WIDGET.id, JsonPatch([described]))


async def is_forgotten(api: KubeApi, since: str) -> bool:
    """Whether a watch of widgets from that moment is Gone."""
    try:
        async with ended(api.watch(WIDGET, since=since, seconds=1)) as stream:
            async for _ in stream:
                pass
    except Gone:
        return True
    except (NotFound, TooManyRequests):
        return False
    return False
