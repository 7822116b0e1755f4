"""The lossy proxy: what passes arrives whole, and what is lost is lost where it says."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contract.expect import eventually
from ullage.clock import WallClock
from ullage.errors import NotFound, Unreachable
from ullage.kube.auth.connect import find_access
from ullage.kube.client.api import Binding, KubeApi
from ullage.kube.client.resources import NODES, PODS
from ullage.kube.client.rest import RestApi
from ullage.kube.client.transport import Request, Response
from ullage.kube.http.http import HttpTransport
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.testing.builders import a_node, a_pod
from ullage.testing.lossy_proxy import Loss, LossyProxy, RequestFate, is_bind, is_write


class JsonOnly(HttpTransport):
    """The simulated server does not read the binary form of objects."""

    async def send(self, request: Request) -> Response:
        return await super().send(replace(request, compact=None))


class Scene:
    """The same server twice: straight, and through the proxy."""

    def __init__(self, straight: KubeApi, through: KubeApi, proxy: LossyProxy) -> None:
        self.straight = straight
        self.through = through
        self.proxy = proxy


@asynccontextmanager
async def scene(folder: Path, *losses: Loss, seed: int = 0) -> AsyncIterator[Scene]:
    server = SimulatedApiServer(WallClock(), seed=1)
    straight = RestApi(InMemoryTransport(server), rng=random.Random(1))
    await straight.create(NODES, a_node("n"))
    await straight.create(PODS, a_pod("p"), "default")
    async with LossyProxy(InMemoryTransport(server), *losses, seed=seed) as proxy:
        access = find_access(proxy.write_kubeconfig(folder / "kubeconfig"))
        through = RestApi(JsonOnly(access.endpoint, access.credentials), rng=random.Random(2))
        try:
            yield Scene(straight, through, proxy)
        finally:
            await through.close()


async def node_of(api: KubeApi) -> str:
    return (await api.get(PODS, "p", "default")).spec.node_name


async def test_what_is_not_lost_passes_as_it_is(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        page = await on.through.list(PODS)
        assert [pod.metadata.name for pod in page.items] == ["p"]
        with pytest.raises(NotFound, match="ghost"):
            await on.through.get(PODS, "ghost", "default")
        await on.through.bind("p", "default", Binding("n"))
        async for batch in on.through.watch(PODS, since=page.resource_version):
            assert [line.object.spec.node_name for line in batch if line.object is not None] == ["n"]
            break
        assert not on.proxy.fates


@pytest.mark.parametrize(
    ("loss", "fate", "done", "done_later"),
    [
        pytest.param(Loss(is_bind, answer_lost=1.0), RequestFate.ANSWER_LOST, "n", "n", id="answer-lost-and-done"),
        pytest.param(Loss(is_bind, request_lost=1.0), RequestFate.REQUEST_LOST, "", "", id="request-lost-and-not-done"),
        pytest.param(Loss(is_bind, late=1.0, latest=3.0), RequestFate.LATE, "", "n", id="late-and-done-after-the-cut"),
    ],
)
async def test_a_bind_is_lost_where_it_says(
    tmp_path: Path, loss: Loss, fate: RequestFate, done: str, done_later: str
) -> None:
    async with scene(tmp_path, loss) as on:
        with pytest.raises(Unreachable):
            await on.through.bind("p", "default", Binding("n"))
        assert await node_of(on.straight) == done
        if done == done_later:
            await asyncio.sleep(0.5)
        await eventually(lambda: node_of(on.straight), until=lambda node: node == done_later, seconds=30)
        assert on.proxy.fates == {fate: 1}


async def test_a_stream_is_cut(tmp_path: Path) -> None:
    async with scene(tmp_path, Loss(lambda _: True, stream_cut=1.0)) as on:
        with pytest.raises(Unreachable):
            _ = [batch async for batch in on.through.watch(PODS, since="1")]
        assert on.proxy.fates == {RequestFate.STREAM_CUT: 1}


async def test_only_what_is_concerned_suffers_and_the_first_loss_counts(tmp_path: Path) -> None:
    spared, lost = Loss(is_bind), Loss(is_write, request_lost=1.0)
    async with scene(tmp_path, spared, lost) as on:
        await on.through.bind("p", "default", Binding("n"))
        with pytest.raises(Unreachable):
            await on.through.delete(PODS, "p", "default")
        assert await node_of(on.through) == "n"


async def test_the_seed_decides_whatever_the_order(tmp_path: Path) -> None:
    async def fates(names: list[str], seed: int) -> dict[str, bool]:
        async with scene(tmp_path, Loss(is_write, request_lost=0.5), seed=seed) as on:
            done = {}
            for name in names:
                try:
                    await on.through.delete(PODS, name, "default")
                except (NotFound, Unreachable) as error:
                    done[name] = isinstance(error, NotFound)
            return done

    names = [f"p{number}" for number in range(12)]
    first = await fates(names, seed=3)
    assert await fates(names[::-1], seed=3) == first
    assert set(first.values()) == {True, False}
    assert await fates(names, seed=4) != first
