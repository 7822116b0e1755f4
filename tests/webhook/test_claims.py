"""What is known of claims, on the simulated API server."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from ullage.errors import Unreachable
from ullage.kube.client.api import Binding, KubeApi
from ullage.kube.client.resources import GPU_CLAIMS, NODES, PODS
from ullage.kube.client.rest import RestApi
from ullage.kube.crds.install import install
from ullage.model.allocation import CLAIM
from ullage.model.fact_event import ObjectKey
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.network_faults import Latency, NetworkConditions
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.testing.builders import a_node, a_pod
from ullage.webhook.claim_lookup import ClaimCache

pytestmark = pytest.mark.story

KEY = ObjectKey("default", "c")


def play(
    story: Callable[[KubeApi, ClaimCache], Awaitable[None]], *, listening: bool = False, wait: float = 0.0
) -> None:
    """`wait` is how long each call of the book takes."""

    async def live() -> None:
        clock = loop_clock()
        server = SimulatedApiServer(clock, seed=3)
        api = RestApi(InMemoryTransport(server), rng=random.Random(3))
        await install(api)
        network = NetworkConditions(seed=3, latency=Latency(default=wait)) if wait else None
        own = RestApi(InMemoryTransport(server, network=network), rng=random.Random(4))
        book = ClaimCache(own, rng=random.Random(5), clock=clock)
        running = asyncio.ensure_future(book.informer.run()) if listening else None
        await asyncio.sleep(1)
        await story(api, book)
        if running is not None:
            running.cancel()

    run_virtual(live())


async def claim(api: KubeApi, count: int) -> None:
    await api.create(GPU_CLAIMS, {"metadata": {"name": "c"}, "spec": {"devices": {"count": count}}}, "default")


@pytest.mark.parametrize("listening", [True, False], ids=["by-watch", "by-asking"])
def test_a_claim_is_found(listening: bool) -> None:
    async def story(api: KubeApi, book: ClaimCache) -> None:
        assert (await book.find(KEY)).trouble == "GpuClaim default/c is not there"
        await claim(api, 3)
        found = await book.find(KEY)
        assert found.claim is not None
        assert found.claim.ask.count == 3

    play(story, listening=listening)


@pytest.mark.parametrize("name", ["other/c", "../secrets/s", "", "C", "c%2fd", "x" * 300])
def test_what_is_no_name_is_not_asked_for(name: str) -> None:
    async def story(_: KubeApi, book: ClaimCache) -> None:
        assert "cannot be there" in (await book.find(ObjectKey("default", name))).trouble

    play(story)


def test_an_api_server_that_does_not_answer_in_time_is_an_error() -> None:
    async def story(_: KubeApi, book: ClaimCache) -> None:
        with pytest.raises(Unreachable, match="was not read within 2 s"):
            await book.find(KEY)
        with pytest.raises(Unreachable, match="who uses GpuClaim"):
            await book.holders(KEY)

    play(story, wait=10.0)


def test_holders_are_pods_on_nodes_that_name_it() -> None:
    async def story(api: KubeApi, book: ClaimCache) -> None:
        await api.create(NODES, a_node("n"))
        for name, notes in (("waits", {CLAIM: "c"}), ("holds", {CLAIM: "c"}), ("other", {CLAIM: "d"}), ("plain", None)):
            await api.create(PODS, a_pod(name, annotations=notes), "default")
        for name in ("holds", "other", "plain"):
            await api.bind(name, "default", Binding("n"))
        assert await book.holders(KEY) == [ObjectKey("default", "holds")]

    play(story)
