"""A cluster in which workloads run, in either world: simulated actors on virtual time, or the real controllers.

Stories ask for `Cluster` and cannot tell which it is. Nobody schedules in either, so the cluster brings its own binder.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.contract.kinds import NAMESPACE, NODE, POD
from ullage.errors import ApiError, Conflict, NotFound
from ullage.kube.auth.connect import connect
from ullage.kube.client.api import Binding, Deletion, KubeApi, ListSelector, MergePatch
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.rest import RestApi
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.network_faults import Latency, NetworkConditions
from ullage.sim.controllers.objects import ActorNode
from ullage.sim.controllers.wiring import ControllerManagerSettings, start_actors
from ullage.sim.virtual_time import loop_clock
from ullage.testing.builders import a_node
from ullage.testing.controlplane import ControlPlane

T = TypeVar("T")

PAUSE_SECONDS = 0.05
PATIENCE_SECONDS = 30.0

RUNS_A_SECOND = {"sim.ullage/duration-seconds": "1", "testing.ullage.dev/runs-for": "1s"}
"""Annotations of a pod that succeeds after a second: one for the simulated kubelet, one for KWOK."""
FAILS_AFTER_A_SECOND = {
    "sim.ullage/duration-seconds": "1",
    "sim.ullage/exit-codes": "1",
    "testing.ullage.dev/fails-after": "1s",
}
STOPS_SLOWLY = {"sim.ullage/stop-seconds": "2", "testing.ullage.dev/stops-after": "2s"}


@dataclass(slots=True)
class Cluster:
    """An API, a namespace and two nodes of its own."""

    api: KubeApi
    namespace: str
    nodes: tuple[str, ...]
    schedules: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while the binder binds."""

    async def create(self, resource: Resource[JsonObject], body: Mapping[str, Any]) -> JsonObject:
        return await self.api.create(resource, body, self.namespace)

    async def get(self, resource: Resource[JsonObject], name: str) -> JsonObject:
        return await self.api.get(resource, name, self.namespace)

    async def find(self, resource: Resource[JsonObject], name: str) -> JsonObject | None:
        """The object, or None."""
        with suppress(NotFound):
            return await self.get(resource, name)
        return None

    async def patch(self, resource: Resource[JsonObject], name: str, body: Mapping[str, Any]) -> JsonObject:
        return await self.api.patch(resource, name, MergePatch(body), self.namespace)

    async def delete(self, resource: Resource[JsonObject], name: str, how: Deletion | None = None) -> None:
        await self.api.delete(resource, name, self.namespace, how=how or Deletion())

    async def all(self, resource: Resource[JsonObject], labels: str = "") -> list[JsonObject]:
        return list((await self.api.list(resource, self.namespace, selection=ListSelector(labels=labels))).items)

    async def pods(self, labels: str = "") -> list[JsonObject]:
        """Those that are not going."""
        return [pod for pod in await self.all(POD, labels) if "deletionTimestamp" not in pod["metadata"]]

    async def ready_pods(self, labels: str = "") -> list[JsonObject]:
        return [pod for pod in await self.pods(labels) if is_ready(pod)]

    async def become(
        self, attempt: Callable[[], Awaitable[T]], until: Callable[[T], bool], seconds: float = PATIENCE_SECONDS
    ) -> T:
        """Ask until the answer will do; what it was last is said when it never does."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while not until(answer := await attempt()):
            assert loop.time() < end, f"still not so after {seconds:g} s: {answer}"
            await asyncio.sleep(PAUSE_SECONDS)
        return answer

    async def stays(self, attempt: Callable[[], Awaitable[T]], so: Callable[[T], bool], seconds: float = 2.0) -> None:
        """It is so, and is still so after a while."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while loop.time() < end:
            answer = await attempt()
            assert so(answer), f"no longer so: {answer}"
            await asyncio.sleep(PAUSE_SECONDS)

    async def has_ready_pods(self, count: int, labels: str = "") -> list[JsonObject]:
        """Exactly so many pods, all of them ready."""
        await self.become(lambda: self._counts(labels), lambda counts: counts == (count, count))
        return await self.ready_pods(labels)

    async def _counts(self, labels: str) -> tuple[int, int]:
        pods = await self.pods(labels)
        return len(pods), sum(map(is_ready, pods))

    async def is_gone(self, resource: Resource[JsonObject], name: str, seconds: float = PATIENCE_SECONDS) -> None:
        await self.become(lambda: self.find(resource, name), lambda found: found is None, seconds)

    async def has_status(
        self, resource: Resource[JsonObject], name: str, seconds: float = PATIENCE_SECONDS, **wanted: object
    ) -> JsonObject:
        """The object, once its status has these fields; an absent number is zero."""

        async def look() -> JsonObject:
            status: JsonObject = (await self.get(resource, name)).get("status", {})
            return {key: status.get(key, type(value)()) for key, value in wanted.items()}

        await self.become(look, lambda seen: seen == wanted, seconds)
        return await self.get(resource, name)


def is_ready(pod: JsonObject) -> bool:
    """Running, and saying so."""
    return pod["status"].get("phase") == "Running" and has_condition(pod, "Ready")


def has_condition(thing: JsonObject, kind: str, status: str = "True", reason: str | None = None) -> bool:
    return any(
        each["type"] == kind and each["status"] == status and reason in (None, each.get("reason"))
        for each in thing.get("status", {}).get("conditions", ())
    )


def names(things: list[JsonObject]) -> list[str]:
    return sorted(thing["metadata"]["name"] for thing in things)


def has_kubelet(node: ActorNode) -> bool:
    """KWOK's rule: it plays the kubelet of nodes that ask for it."""
    return node.metadata.annotations.get("kwok.x-k8s.io/node") == "fake"


@asynccontextmanager
async def simulated_cluster(
    settings: ControllerManagerSettings = ControllerManagerSettings(),  # noqa: B008 - frozen
) -> AsyncIterator[Cluster]:
    """Everything in memory. Calls and watches take their time, so that caches lag as they do in the world."""
    clock = loop_clock()
    server = SimulatedApiServer(clock, seed=7)

    def connected(user: str) -> RestApi:
        latency = Latency(default=0.004, spread=0.5, watch=0.02)
        transport = InMemoryTransport(server, user=user, network=NetworkConditions(seed=7, latency=latency))
        return RestApi(transport, rng=random.Random(7))

    async with (
        start_actors(connected("actors"), clock, settings, has_kubelet),
        _furnished(connected("story")) as cluster,
    ):
        yield cluster


@asynccontextmanager
async def real_cluster(plane: ControlPlane) -> AsyncIterator[Cluster]:
    """kube-controller-manager and KWOK."""
    api = connect(plane.kubeconfig, rate=None, seed=0)
    try:
        async with _furnished(api) as cluster:
            yield cluster
    finally:
        await api.close()


@asynccontextmanager
async def _furnished(api: KubeApi) -> AsyncIterator[Cluster]:
    made = await api.create(NAMESPACE, {"metadata": {"generateName": "workloads-"}})
    namespace = str(made["metadata"]["name"])
    cluster = Cluster(api, namespace, (f"{namespace}-a", f"{namespace}-b"))
    for name in cluster.nodes:
        node = a_node(name)
        node["metadata"]["annotations"] = {"kwok.x-k8s.io/node": "fake"}
        await api.create(NODE, node)
    cluster.schedules.set()
    binder = asyncio.create_task(_bind_pods(cluster), name="binder")
    try:
        yield cluster
    finally:
        binder.cancel()
        await asyncio.gather(binder, return_exceptions=True)
        for resource, name in ((NAMESPACE, namespace), *((NODE, name) for name in cluster.nodes)):
            with suppress(ApiError):
                await api.delete(resource, name)


async def _bind_pods(cluster: Cluster) -> None:
    """The simplest scheduler there is: in turns, or where a pod is pinned."""
    turn = 0
    while True:
        await cluster.schedules.wait()
        waiting = ListSelector(fields="spec.nodeName=")
        for pod in (await cluster.api.list(POD, cluster.namespace, selection=waiting)).items:
            if "deletionTimestamp" in pod["metadata"]:
                continue
            node = _pinned_to(pod) or cluster.nodes[turn % len(cluster.nodes)]
            turn += 1
            with suppress(Conflict, NotFound):
                await cluster.api.bind(pod["metadata"]["name"], cluster.namespace, Binding(node))
        await asyncio.sleep(PAUSE_SECONDS)


def _pinned_to(pod: JsonObject) -> str | None:
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    for term in required.get("nodeSelectorTerms", ()):
        for each in term.get("matchFields", ()):
            return str(each["values"][0])
    return None
