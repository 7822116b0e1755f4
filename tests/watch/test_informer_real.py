"""Informers on a real API server that is killed under them, and one that gives up on a slow reader."""

import asyncio
import itertools
import random
import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ullage.clock import WallClock
from ullage.errors import ApiError, Forbidden, Unreachable
from ullage.kube.auth.connect import connect, find_access
from ullage.kube.client.api import Binding, MergePatch
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import NAMESPACES, PODS
from ullage.kube.client.rest import RestApi
from ullage.kube.client.transport import Request, Response, Transport
from ullage.kube.http.http import HttpTransport, TransportOptions
from ullage.kube.objects.pod import KubePod
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Updated
from ullage.testing.builders import a_pod
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec, GoProgram
from ullage.watch.informer import Informer, InformerSpec, InformerTiming

pytestmark = pytest.mark.real

Fact = tuple[str, str, str]
ROLE_BINDINGS = Resource[JsonObject](
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False, dict
)


def fact_of(pod: KubePod) -> Fact:
    """uid, resourceVersion, node: equal only if nothing at all happened in between."""
    return pod.metadata.uid, pod.metadata.resource_version, pod.spec.node_name


async def for_each(names: Sequence[str], call: Callable[[str], Coroutine[Any, Any, None]]) -> None:
    """Call it for all of them, 32 at a time."""
    turn = asyncio.Semaphore(32)

    async def one(name: str) -> None:
        async with turn:
            await call(name)

    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(one(name))


class Handler:
    """Fails on a pod that is new twice, and on any event that does not follow from the ones before."""

    def __init__(self) -> None:
        self.view: dict[ObjectKey, Fact] = {}
        self.uids: set[str] = set()
        self.bound = 0

    def deliver(self, event: FactEvent[Fact]) -> None:
        match event:
            case Added(key, new):
                assert new[0] not in self.uids, f"{key} was seen as new twice"
                assert key not in self.view
                self.uids.add(new[0])
                self.view[key] = new
            case Updated(key, old, new):
                assert self.view[key] == old
                self.bound += new[2] != old[2]
                self.view[key] = new
            case Deleted(key, old):
                assert self.view.pop(key) == old


@asynccontextmanager
async def listening(transport: Transport, namespace: str, handler: Handler) -> AsyncIterator[Informer[KubePod, Fact]]:
    rng = random.Random(7)
    interest = InformerSpec(PODS, fact_of, namespace=namespace, chunk=100)
    informer = Informer(RestApi(transport, rng=rng), interest, handler.deliver, rng=rng, clock=WallClock())
    task = asyncio.create_task(informer.run())
    try:
        await asyncio.wait_for(informer.wait_synced(), 30)
        yield informer
    finally:
        task.cancel()
        await asyncio.wait((task,))
        await transport.close()
        if not task.cancelled():
            task.result()


async def until(condition: Callable[[], bool], seconds: float) -> float:
    """Wait for something to become true; how long it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, "it did not come true in time"
        await asyncio.sleep(0.05)
    return time.monotonic() - began


async def fresh_list(api: RestApi, namespace: str) -> dict[ObjectKey, Fact]:
    page = await api.list(PODS, namespace)
    return {ObjectKey(pod.metadata.namespace, pod.metadata.name): fact_of(pod) for pod in page.items}


async def agreed(handler: Handler, api: RestApi, namespace: str, seconds: float) -> dict[ObjectKey, Fact]:
    """Wait until the view equals a fresh list. Listed anew each time: a write whose caller gave up may still happen."""
    async with asyncio.timeout(seconds):
        while handler.view != (truth := await fresh_list(api, namespace)):  # noqa: ASYNC110 - a server is asked
            await asyncio.sleep(0.1)
        return truth


def http(plane: ControlPlane) -> HttpTransport:
    entry = find_access(plane.kubeconfig)
    return HttpTransport(entry.endpoint, entry.credentials, TransportOptions())


async def churn(api: RestApi, namespace: str, seed: int) -> None:
    """Create, change and delete pods for ever, whatever the answers."""
    rng = random.Random(seed)
    for number in itertools.count():
        name = f"pod-{seed}-{rng.randrange(60)}"
        try:
            match rng.randrange(4):
                case 0 | 1:
                    await api.create(PODS, a_pod(name), namespace)
                case 2:
                    patch = MergePatch({"metadata": {"annotations": {"turn": str(number)}}})
                    await api.patch(PODS, name, patch, namespace)
                case _:
                    await api.delete(PODS, name, namespace)
        except ApiError:
            await asyncio.sleep(0.02)


class Wire:
    """A transport with a plug, and with streams that are not read while nobody is awake."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.plugged = True
        self.awake = asyncio.Event()
        self.awake.set()

    async def send(self, request: Request) -> Response:
        self._check()
        return await self._inner.send(request)

    async def stream(self, request: Request) -> AsyncIterator[Sequence[bytes]]:
        self._check()
        async for batch in self._inner.stream(request):
            self._check()
            yield batch
            await self.awake.wait()

    async def close(self) -> None:
        await self._inner.close()

    def _check(self) -> None:
        if not self.plugged:
            raise Unreachable("the wire is unplugged")


@pytest.mark.fault
async def test_killing_the_api_server_and_etcd_loses_nothing(
    start_control_plane: Callable[[ControlPlaneSpec], ControlPlane],
) -> None:
    plane = await asyncio.to_thread(start_control_plane, ControlPlaneSpec())
    api, handler, wire = connect(plane.kubeconfig, seed=1), Handler(), Wire(http(plane))
    await api.create(NAMESPACES, {"metadata": {"name": "churn"}})
    try:
        async with listening(wire, "churn", handler) as informer, asyncio.TaskGroup() as group:
            churning = [group.create_task(churn(api, "churn", seed)) for seed in range(4)]
            # The second time we are away from before the end until after the new start: what we knew last is forgotten.
            for victims, away in (((GoProgram.APISERVER, GoProgram.ETCD), False), ((GoProgram.APISERVER,), True)):
                await asyncio.sleep(1.0)
                wire.plugged = not away
                await asyncio.sleep(0.5)
                for program in victims:
                    await asyncio.to_thread(plane.kill, program)
                await asyncio.sleep(1.0)
                for program in reversed(victims):
                    await asyncio.to_thread(plane.start, program)
                await asyncio.sleep(1.0)
                wire.plugged = True
            await asyncio.sleep(1.0)
            for task in churning:
                task.cancel()
            truth = await agreed(handler, api, "churn", 30)
            assert truth
            assert dict(informer.facts) == truth
            assert informer.counts.failures >= 2
            assert informer.counts.gaps >= 1
            assert informer.health.trouble is None
    finally:
        await api.close()


def watchers_given_up(plane: ControlPlane) -> int:
    """How many watchers of pods the API server has closed because they did not read."""
    _, body = plane.probe.request("GET", plane.server + "/metrics")
    found = re.search(rb'^apiserver_terminated_watchers_total\{[^}]*resource="pods"[^}]*\} (\d+)', body, re.MULTILINE)
    return int(found[1]) if found else 0


async def test_a_reader_the_server_gives_up_on_misses_nothing(control_plane: ControlPlane) -> None:
    plane, namespace = control_plane, "slow-reader"
    api, handler, wire = connect(plane.kubeconfig, seed=1), Handler(), Wire(http(plane))
    names = [f"pod-{number}" for number in range(600)]
    given_up = await asyncio.to_thread(watchers_given_up, plane)

    async def create(name: str) -> None:
        # Wide enough that the lines fill every buffer between the server and us.
        await api.create(PODS, a_pod(name, annotations={"padding": "x" * 40_000}), namespace)

    async def bind(name: str) -> None:
        await api.bind(name, namespace, Binding(node="somewhere"))

    try:
        await api.create(NAMESPACES, {"metadata": {"name": namespace}})
        async with listening(wire, namespace, handler) as informer:
            wire.awake.clear()
            await for_each(names, create)
            await for_each(names, bind)
            await until(lambda: watchers_given_up(plane) > given_up, 30)
            wire.awake.set()
            truth = await fresh_list(api, namespace)
            await until(lambda: handler.view == truth, 30)
            assert len(truth) == len(handler.uids) == len(names)
            assert all(node == "somewhere" for _, _, node in truth.values())
            assert informer.counts.resumes + informer.counts.gaps >= 1
    finally:
        await api.close()


async def test_a_missing_role_is_named_and_healed_when_it_is_given(control_plane: ControlPlane) -> None:
    admin, handler, troubles = connect(control_plane.kubeconfig, seed=1), Handler(), list[ApiError]()
    rng = random.Random(7)
    api = connect(control_plane.kubeconfig_for("newcomer"), seed=1)
    interest = InformerSpec(PODS, fact_of, pace=InformerTiming(longest_wait=0.5))
    informer = Informer(api, interest, handler.deliver, rng=rng, clock=WallClock(), on_trouble=troubles.append)
    task = asyncio.create_task(informer.run())
    try:
        await until(lambda: len(troubles) >= 2, 60)
        assert isinstance(informer.health.trouble, Forbidden)
        assert 'User "newcomer" cannot list resource "pods"' in str(troubles[0])
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:kube-scheduler"}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "newcomer"}
        await admin.create(
            ROLE_BINDINGS, {"metadata": {"name": "newcomer-may-watch"}, "roleRef": role, "subjects": [subject]}
        )
        await asyncio.wait_for(informer.wait_synced(), 60)
        assert informer.health.trouble is None
    finally:
        task.cancel()
        await asyncio.wait((task,))
        await api.close()
        await admin.close()
