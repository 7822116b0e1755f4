"""A cluster with a scheduler at work, watched: what the API says is what is shown, in virtual time and by HTTP."""

import asyncio
import json
import random
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.control.scheduling.fleet import SCHEDULER
from tests.control.scheduling.stage import NS, Setting, Stage, play, staged
from ullage.kube.client.api import MergePatch
from ullage.kube.client.resources import GPU_CLAIMS, NODES, PODS
from ullage.kube.client.rest import RestApi
from ullage.model.allocation import ALLOCATED
from ullage.model.provisioner import DELETION_TAINT
from ullage.observe.probes import ListenAddress
from ullage.sim.apiserver import InMemoryTransport
from ullage.sim.apiserver.network_faults import FaultRates, NetworkConditions, NetworkFault
from ullage.sim.scaled_time import run_scaled
from ullage.testing.builders import a_pod
from ullage.web.live import LiveView, follow_cluster, served
from ullage.web.view.patch import PatchSum

pytestmark = pytest.mark.story


@asynccontextmanager
async def watched(stage: Stage, network: NetworkConditions | None = None) -> AsyncIterator[LiveView]:
    """A view that follows the stage."""
    view = LiveView(stage.clock, title="stage")
    api = RestApi(
        InMemoryTransport(stage.server, user="dashboard", network=network or NetworkConditions()),
        rng=random.Random(7),
    )
    following = asyncio.ensure_future(follow_cluster(api, view, seed=7))
    try:
        yield view
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def shown(view: LiveView, mirror: PatchSum) -> dict[str, Any]:
    """The page as a browser has it now."""
    for _ in range(20):
        mirror.apply(view.patch())
    said: dict[str, Any] = json.loads(mirror.snapshot().as_json())
    return said


async def submit(stage: Stage, name: str, gpus: int) -> None:
    await stage.api.create(PODS, a_pod(name, gpus=gpus, schedulerName=SCHEDULER), NS)


def test_what_the_scheduler_does_is_seen_with_its_why() -> None:
    async def story(stage: Stage) -> None:
        mirror = PatchSum()
        async with watched(stage) as view:
            await submit(stage, "small", 3)
            await submit(stage, "huge", 9)
            await asyncio.sleep(30)
            said = shown(view, mirror)
            pod = await stage.api.get(PODS, "small", NS)
            node, _, gpus = pod.metadata.annotations[ALLOCATED].rpartition(":")
            held = {(one["pod"], tuple(one["gpus"])) for one in said["nodes"][node]["holders"]}
            assert held == {(f"{NS}/small", tuple(map(int, gpus.split(","))))}
            assert said["nodes"][node]["states"].count("l") == 3
            assert list(said["pending"]) == [f"{NS}/huge"]
            assert said["pending"][f"{NS}/huge"]["reason"] == "NodeTooSmall"
            told = {(one["reason"], one["about"]) for one in said["decisions"].values()}
            assert {("Scheduled", f"{NS}/small"), ("FailedScheduling", f"{NS}/huge")} <= told
            placed = next(one for one in said["decisions"].values() if one["reason"] == "Scheduled")
            assert "best of 2 that fit, by fragmentation" in placed["note"]
            assert said["about"]["now"]["synced"]

    play(Setting(nodes=2), story)


def test_reasons_are_those_the_scheduler_writes() -> None:
    async def story(stage: Stage) -> None:
        async with watched(stage) as view:
            await submit(stage, "all-a", 8)
            await submit(stage, "all-b", 8)
            await asyncio.sleep(10)
            await submit(stage, "late", 2)
            await submit(stage, "huge", 9)
            await asyncio.sleep(30)
            said = shown(view, PatchSum())
            for name in ("late", "huge"):
                condition = await stage.condition(name)
                assert said["pending"][f"{NS}/{name}"]["message"] == condition.message

    play(Setting(nodes=2), story)


def test_nodes_that_leave_are_seen_leaving() -> None:
    async def story(stage: Stage) -> None:
        mirror = PatchSum()
        async with watched(stage) as view:
            await asyncio.sleep(5)
            assert "deletionTime" not in shown(view, mirror)["nodes"]["node-00"]
            due = int(stage.clock.now()) + 300
            node = await stage.api.get(NODES, "node-00")
            taint = {"key": DELETION_TAINT, "value": str(due), "effect": "NoSchedule"}
            await stage.api.patch(NODES, node.metadata.name, MergePatch({"spec": {"taints": [taint]}}))
            await asyncio.sleep(5)
            assert shown(view, mirror)["nodes"]["node-00"]["deletionTime"] == due
            await stage.api.delete(NODES, "node-00")
            await asyncio.sleep(5)
            assert set(shown(view, mirror)["nodes"]) == {"node-01"}

    play(Setting(nodes=2), story)


def test_while_the_cluster_cannot_be_heard_the_page_says_so() -> None:
    async def story(stage: Stage) -> None:
        network = NetworkConditions(seed=3)
        async with watched(stage, network) as view:
            await asyncio.sleep(10)
            assert view.trouble() == ""
            end = network.script(lambda _: NetworkFault.UNAVAILABLE)
            network.odds = FaultRates(stream_cut=1.0)
            await submit(stage, "unheard", 1)
            await asyncio.sleep(30)
            assert view.trouble() != ""
            end()
            network.odds = FaultRates()
            await asyncio.sleep(60)
            assert view.trouble() == ""
            assert shown(view, PatchSum())["totals"]["now"]["allocated"] == 1

    play(Setting(nodes=1), story)


def test_what_may_not_be_read_is_said_and_the_rest_is_shown() -> None:
    async def story(stage: Stage) -> None:
        network = NetworkConditions(seed=3)
        network.script(lambda request: NetworkFault.UNAVAILABLE if "/leases" in request.path else None)
        async with watched(stage, network) as view:
            await asyncio.sleep(30)
            said = shown(view, PatchSum())
            assert set(said["nodes"]) == {"node-00"}
            assert said["about"]["now"]["synced"]
            assert said["about"]["now"]["trouble"].startswith("leases.coordination.k8s.io: ")

    play(Setting(nodes=1), story)


def test_a_loop_that_runs_faster_is_served_at_the_worlds_pace() -> None:
    async def live() -> None:
        async with (
            staged(Setting(nodes=2)) as stage,
            watched(stage) as view,
            served(view, ListenAddress("127.0.0.1", 0)) as url,
        ):
            await submit(stage, "small", 3)
            for _ in range(100):
                said = await asyncio.to_thread(_read, f"{url}api/snapshot")
                if said["totals"]["now"].get("allocated") == 3:
                    break
                await asyncio.sleep(3)
            assert said["totals"]["now"]["allocated"] == 3
            explained = await asyncio.to_thread(_read, f"{url}api/explain/{NS}/small")
            assert explained["verdict"] == "Bound"

    run_scaled(live(), speed=30)


def _read(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=10) as answer:
        said: dict[str, Any] = json.load(answer)
        return said


def test_a_claim_named_by_a_pod_shows_its_gang() -> None:
    async def story(stage: Stage) -> None:
        async with watched(stage) as view:
            spec = {"devices": {"count": 8}, "gangRef": "llm", "gangMinMember": 3}
            await stage.api.create(GPU_CLAIMS, {"metadata": {"name": "part"}, "spec": spec}, NS)
            for number in range(3):
                pod = a_pod(
                    f"llm-{number}", annotations={"gpu.scheduling/claim-template": "part"}, schedulerName=SCHEDULER
                )
                await stage.api.create(PODS, pod, NS)
            await asyncio.sleep(20)
            said = shown(view, PatchSum())
            assert {row["gang"] for row in said["pending"].values()} == {"llm"}
            assert all("gang default/llm: " in row["message"] for row in said["pending"].values())

    play(Setting(nodes=2), story)
