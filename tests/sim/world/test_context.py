"""The world from inside: nobody ticks, agents fall silent, processes crash, GPUs break."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.sim.world.making import arrives, claim, pod, pool, world
from ullage.kube.client.resources import GPU_NODE_STATUSES, LEASES, NODES, PODS, REPLICA_SETS
from ullage.kube.client.transport import Request
from ullage.model.device import DeviceHealth
from ullage.sim.virtual_time import run_virtual
from ullage.sim.world.decisions import Decision
from ullage.sim.world.spec import DRAINING, PROVISIONING, SCHEDULER, WorldSpec
from ullage.sim.world.world import World, started_world
from ullage.testing.builders import a_node, of_kind

pytestmark = pytest.mark.story

WEEK = 7 * 86_400.0


def tell(spec: WorldSpec, story: Callable[[World], Awaitable[None]]) -> None:
    async def live() -> None:
        async with started_world(spec) as made:
            await story(made)
            assert made.violation is None, made.violation

    run_virtual(live())


async def node_of(made: World, name: str) -> str:
    return (await made.api.get(PODS, name, "default")).spec.node_name


def test_a_week_in_which_nothing_happens_costs_no_call_and_no_write() -> None:
    async def story(made: World) -> None:
        made.submit(arrives(0, pod("a", 4)))
        await asyncio.sleep(3600)
        asked: list[Request] = []
        for network in made.loops.network.values():
            network.script(asked.append)
        revision = made.server.revision
        await asyncio.sleep(WEEK)
        assert (asked, made.server.revision) == ([], revision)

    tell(world(objects=(pool(least=1),)), story)


def test_a_node_whose_pods_have_no_place_is_not_asked_about_until_something_changes() -> None:
    spec = pod("web", 3)["spec"] | {"restartPolicy": "Always"}
    labels = {"app": "web"}
    replicas = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }

    async def story(made: World) -> None:
        made.submit(arrives(0, replicas))
        await asyncio.sleep(7200)
        draining = made.loop(DRAINING).loop.core
        before = draining.decided
        assert [one.reason.value for one in before.plan.unremovable] == ["NotUnderutilized", "NoPlaceToMovePods"]
        await asyncio.sleep(WEEK)
        assert draining.decided is before, "no plan was made in all that time"
        await made.api.scale(REPLICA_SETS, "web", "default", 2)
        await asyncio.sleep(3600)
        assert len(made.state.nodes) == 1

    drained = pool(minGPUUtilizationPercent=0, consolidation={"policy": "Drain", "unneededTime": "2m"})
    tell(world(nodes=0, objects=(drained,)), story)


def test_reports_are_fresh_without_being_repeated_until_an_agent_falls_silent() -> None:
    async def story(made: World) -> None:
        await asyncio.sleep(WEEK)
        made.submit(arrives(0, pod("believed")))
        await asyncio.sleep(5)
        assert await node_of(made, "believed") == "gpu-0"

        made.agents.silence("gpu-0")
        await asyncio.sleep(60)
        made.submit(arrives(0, pod("still-believed")))
        await asyncio.sleep(40)
        assert await node_of(made, "still-believed") == "gpu-0"
        made.submit(arrives(0, pod("not-believed")))
        await asyncio.sleep(600)
        assert await node_of(made, "not-believed") == ""
        assert made.report()["attempts"]["refused"]["InventoryStale"] > 0

        made.agents.resume("gpu-0")
        await asyncio.sleep(30)
        assert await node_of(made, "not-believed") == "gpu-0"

    tell(world(nodes=1), story)


def test_a_broken_gpu_takes_nothing() -> None:
    async def story(made: World) -> None:
        for gpu in range(1, 8):
            made.agents.set_health("gpu-0", gpu, DeviceHealth.UNHEALTHY)
        await asyncio.sleep(1)
        made.submit(arrives(0, pod("one"), pod("two")))
        await asyncio.sleep(60)
        assert sorted([await node_of(made, "one"), await node_of(made, "two")]) == ["", "gpu-0"]

    tell(world(nodes=1), story)


@pytest.mark.fault
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in (1, 2))])
def test_loops_that_crash_again_and_again_break_nothing(seed: int) -> None:
    async def story(made: World) -> None:
        for number in range(12):
            made.submit(arrives(0, pod(f"p{number}", 8, seconds=1800.0)))
            await asyncio.sleep(7.3)
            made.process(SCHEDULER if number % 2 else PROVISIONING).restart()
        await asyncio.sleep(7200)
        assert made.report()["pods"]["finished"] == 12

    tell(world(nodes=0, seed=seed, objects=(pool(most=12),)), story)


@pytest.mark.fault
def test_where_machines_may_fail_heartbeats_are_real() -> None:
    async def story(made: World) -> None:
        revision = made.server.revision
        await asyncio.sleep(301)
        assert made.server.revision - revision >= 2 * 10, "each agent reports every half minute"
        made.submit(arrives(0, pod("a", 8, seconds=600.0)))
        await asyncio.sleep(1200)
        assert made.report()["pods"]["finished"] == 1

    tell(world(nodes=2, faults=True), story)


def test_decisions_are_told_as_they_are_announced() -> None:
    async def story(made: World) -> None:
        told: list[Decision] = []
        stop = made.decisions.listen(told.append)
        made.submit(arrives(0, pod("fits", 8), pod("waits", 8)))
        await asyncio.sleep(400)
        assert {(one.reason, one.about.name, one.loop) for one in told} >= {
            ("Scheduled", "fits", "scheduler"),
            ("FailedScheduling", "waits", "scheduler"),
            ("NodesLaunched", "pool", "controller"),
            ("Scheduled", "waits", "scheduler"),
        }
        assert all(one.note for one in told)
        assert list(made.decisions.recent) == told
        stop()
        made.submit(arrives(0, pod("unheard")))
        await asyncio.sleep(10)
        assert all(one.about.name != "unheard" for one in told)

    tell(world(nodes=1, objects=(pool(),)), story)


def test_events_are_forgotten_and_what_nodes_said_goes_with_them() -> None:
    async def story(made: World) -> None:
        made.submit(arrives(0, pod("a", 8, seconds=60.0)))
        await asyncio.sleep(4000)
        assert len((await made.api.list(NODES)).items) == 0
        assert len((await made.api.list(GPU_NODE_STATUSES)).items) == 0
        assert len((await made.api.list(LEASES, "ullage-system")).items) == 0
        await asyncio.sleep(4000)
        made.submit(arrives(0, pod("b", 8)))
        await asyncio.sleep(1000)
        events = made.server.handle(Request("GET", "/api/v1/events")).body
        assert b'"a.' not in events
        assert b'"b.' in events

    tell(world(nodes=0, objects=(pool(),)), story)


def test_a_cluster_goes_on_from_where_it_was() -> None:
    """Bound pods keep their GPUs, silent agents' last words count, nodes of pools are machines."""
    running: dict[str, Any] = pod("old", 4)
    running["spec"]["nodeName"] = "there"
    running["metadata"]["annotations"] = {"gpu.scheduling/allocated": "there:0,1,2,3"}
    running["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}

    async def story(made: World) -> None:
        held = {one.spec.holder_identity for one in (await made.api.list(LEASES, "ullage-system")).items}
        assert len(held) == 1
        made.submit(arrives(0, pod("new", 4)))
        await asyncio.sleep(10)
        new = await made.api.get(PODS, "new", "default")
        assert new.metadata.annotations["gpu.scheduling/allocated"] == "there:4,5,6,7"
        assert [one.id for one in await made.cloud.list([])] == ["there"]

    tell(world(nodes=0, objects=(pool(), _node("there"), _report("there"), running)), story)


def test_each_loop_has_a_process_and_a_life() -> None:
    async def story(made: World) -> None:
        assert made.process(PROVISIONING) is made.process(DRAINING), "they share a process, as in `ullage controller`"
        before = made.loop(SCHEDULER)
        made.process(SCHEDULER).restart()
        await asyncio.sleep(5)
        assert made.loop(SCHEDULER) is not before
        made.submit(arrives(0, claim("c", 2), pod("a", claim="c")))
        await asyncio.sleep(5)
        assert len(made.state.pods) == 1
        assert made.snapshot.state is made.state

    tell(world(), story)


def _node(name: str) -> dict[str, Any]:
    labels = {"gpu.scheduling/provisioner": "pool", "gpu.scheduling/node-kind": "leased"}
    return of_kind(NODES, a_node(name, labels=labels, gpus=8, allocatable={"cpu": "96", "memory": "768Gi"}))


def _report(name: str) -> dict[str, Any]:
    devices = [
        {"id": gpu, "uuid": f"GPU-{gpu}", "model": "H100", "memory": "80Gi", "health": "Healthy"} for gpu in range(8)
    ]
    status = {"total": 8, "healthy": 8, "kind": "Leased", "observedAt": "2026-01-01T00:00:00Z", "devices": devices}
    return {
        "apiVersion": "gpu.scheduling/v1",
        "kind": "GpuNodeStatus",
        "metadata": {"name": name},
        "spec": {"nodeName": name},
        "status": status,
    }
