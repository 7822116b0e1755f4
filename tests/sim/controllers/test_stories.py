"""Whole clusters of simulated actors in virtual time: overcommitted nodes, races, restarts, faults, size."""

import asyncio
import random

import pytest

from tests.sim.controllers.stage import POD, Stage, bound_pod, on_stage
from ullage.kube.client.api import Binding
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import DEPLOYMENTS, JOBS, LEASES, NODES, PODS, REPLICA_SETS
from ullage.kube.client.rest import RestApi
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.network_faults import FaultRates, Latency, NetworkConditions, NetworkFault
from ullage.sim.controllers.objects import ActorNode
from ullage.sim.controllers.wiring import ControllerManagerSettings, start_actors
from ullage.sim.kubelet.timings import DURATION, EXIT_CODES, INSTANT, STOP, KubeletTimings
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.testing.builders import a_job, a_node, a_pod, a_workload

pytestmark = pytest.mark.story

DEPLOYMENT = DEPLOYMENTS.whole()


def test_two_pods_on_one_gpu_are_found_out_by_the_kubelet() -> None:
    async def story(stage: Stage) -> None:
        await stage.api.create(NODES, a_node("node-a", gpus=1))
        async with stage.actors():
            for name in ("first", "second"):
                await bound_pod(stage, name, "node-a", a_pod(name, gpus=1))
            await asyncio.sleep(10)
            first, second = await stage.pods()
            assert first["status"]["phase"] == "Running"
            assert (second["status"]["phase"], second["status"]["reason"]) == ("Failed", "OutOfnvidia.com/gpu")

    on_stage(story)


def test_room_is_free_again_when_a_pod_has_ended() -> None:
    async def story(stage: Stage) -> None:
        await stage.api.create(NODES, a_node("node-a", gpus=1))
        async with stage.actors(ControllerManagerSettings(INSTANT)):
            short = a_pod("short", gpus=1, annotations={DURATION: "5"}, restartPolicy="Never")
            await bound_pod(stage, "short", "node-a", short)
            await asyncio.sleep(6)
            await bound_pod(stage, "next", "node-a", a_pod("next", gpus=1))
            await asyncio.sleep(1)
            assert await stage.phases() == ["Running", "Succeeded"]

    on_stage(story)


def test_after_a_restart_those_admitted_before_still_hold_their_room() -> None:
    async def story(stage: Stage) -> None:
        await stage.api.create(NODES, a_node("node-a", gpus=1))
        async with stage.actors(ControllerManagerSettings(INSTANT)):
            await bound_pod(stage, "zebra", "node-a", a_pod("zebra", gpus=1))
            await asyncio.sleep(1)
        await bound_pod(stage, "ant", "node-a", a_pod("ant", gpus=1))
        async with stage.actors(ControllerManagerSettings(INSTANT)):
            await asyncio.sleep(5)
            ant, zebra = await stage.pods()
            assert zebra["status"]["phase"] == "Running"
            assert ant["status"]["reason"] == "OutOfnvidia.com/gpu"

    on_stage(story)


def test_a_node_that_joins_becomes_ready_and_says_how_much_room_it_has() -> None:
    async def story(stage: Stage) -> None:
        async with stage.actors(ControllerManagerSettings(KubeletTimings(boot_seconds=30))):
            await stage.api.create(NODES, {"metadata": {"name": "node-a"}})
            await asyncio.sleep(29)
            assert (await stage.api.get(NODES, "node-a")).status.conditions == ()
            await asyncio.sleep(2)
            joined = (await stage.api.get(NODES, "node-a")).status
            assert {each.type: each.status for each in joined.conditions}["Ready"] == "True"
            assert joined.allocatable["pods"] == "110"

    on_stage(story)


def test_a_pod_that_is_going_holds_its_room_until_it_has_stopped() -> None:
    async def story(stage: Stage) -> None:
        await stage.api.create(NODES, a_node("node-a", gpus=1))
        async with stage.actors(ControllerManagerSettings(INSTANT)):
            await bound_pod(stage, "slow", "node-a", a_pod("slow", gpus=1, annotations={STOP: "10"}))
            await asyncio.sleep(1)
            await stage.api.delete(PODS, "slow", "default")
            await asyncio.sleep(1)
            await bound_pod(stage, "hasty", "node-a", a_pod("hasty", gpus=1))
            await asyncio.sleep(15)
            (hasty,) = await stage.pods()
            assert hasty["status"]["reason"] == "OutOfnvidia.com/gpu"

    on_stage(story)


def test_a_failing_container_is_restarted_until_it_succeeds() -> None:
    async def story(stage: Stage) -> None:
        await stage.api.create(NODES, a_node("node-a"))
        async with stage.actors(ControllerManagerSettings(INSTANT)):
            notes = {DURATION: "10", EXIT_CODES: "1,1,0"}
            await bound_pod(stage, "a", "node-a", a_pod("a", annotations=notes, restartPolicy="OnFailure"))
            await asyncio.sleep(100)
            (pod,) = await stage.pods()
            assert pod["status"]["phase"] == "Succeeded"
            assert pod["status"]["containerStatuses"][0]["restartCount"] == 2

    on_stage(story)


def test_without_heartbeats_nothing_is_written_for_nodes_at_rest() -> None:
    async def story(stage: Stage) -> None:
        for number in range(20):
            await stage.api.create(NODES, a_node(f"node-{number}"))
        async with stage.actors():
            await asyncio.sleep(60)
            before = stage.server.revision
            await asyncio.sleep(24 * 3600)
            assert stage.server.revision == before
            assert (await stage.api.list(LEASES)).items == []

    on_stage(story)


@pytest.mark.parametrize("watch_lag", [pytest.param(0.0, id="quick"), pytest.param(3.0, id="lagging")])
def test_a_cache_that_lags_leads_to_no_pod_too_many(watch_lag: float) -> None:
    async def story(stage: Stage) -> None:
        async with stage.actors(ControllerManagerSettings(INSTANT)):
            await stage.api.create(REPLICA_SETS, a_workload("web", replicas=20), "default")
            await stage.api.create(JOBS, a_job("work", parallelism=7, completions=7), "default")
            most = 0
            for _ in range(60):
                most = max(most, len(await stage.pods()))
                await asyncio.sleep(0.5)
            assert most == 27

    on_stage(story, watch_lag=watch_lag)


@pytest.mark.fault
def test_a_server_that_often_fails_is_outlasted() -> None:
    async def story(stage: Stage) -> None:
        stage.network.odds = FaultRates(
            {NetworkFault.REFUSED: 0.1, NetworkFault.BROKEN: 0.1, NetworkFault.LOST: 0.05}, stream_cut=0.02
        )
        await stage.api.create(NODES, a_node("node-a"))
        async with stage.actors(ControllerManagerSettings(INSTANT)):
            await stage.api.create(DEPLOYMENTS, a_workload("web", replicas=10), "default")
            await asyncio.sleep(60)
            for pod in await stage.pods(spec_nodeName=""):
                await stage.api.bind(pod["metadata"]["name"], "default", Binding("node-a"))
            await asyncio.sleep(700)  # an answer lost with a creation is given up only after five minutes
            for pod in await stage.pods(spec_nodeName=""):
                await stage.api.bind(pod["metadata"]["name"], "default", Binding("node-a"))
            await asyncio.sleep(700)
            assert await stage.phases() == ["Running"] * 10
            status = (await stage.api.get(DEPLOYMENT, "web", "default"))["status"]
            assert (status["replicas"], status["availableReplicas"]) == (10, 10)

    on_stage(story)


@pytest.mark.fault
@pytest.mark.parametrize("after", [0.05, 0.3, 1.0, 2.5])
def test_actors_that_are_stopped_at_any_moment_go_on_where_they_were(after: float) -> None:
    async def story(stage: Stage) -> None:
        await stage.api.create(NODES, a_node("node-a"))
        notes = {DURATION: "3"}
        job = a_job("work", completions=4, parallelism=2)
        job["spec"]["template"]["metadata"]["annotations"] = notes
        job["spec"]["template"]["spec"]["nodeName"] = "node-a"
        async with stage.actors():
            await stage.api.create(JOBS, job, "default")
            await asyncio.sleep(after)
        await asyncio.sleep(1)
        async with stage.actors():
            await asyncio.sleep(60)
            status = (await stage.api.get(JOBS.whole(), "work", "default"))["status"]
            assert (status["succeeded"], status.get("failed", 0)) == (4, 0)
            assert len(await stage.pods()) == 4

    on_stage(story)


def history(seed: int) -> list[str]:
    """How pods ended up, with the number of writes it took (the resourceVersion) and every time in their status."""
    seen: list[str] = []

    async def story() -> None:
        server = SimulatedApiServer(loop_clock(), seed=seed)
        network = NetworkConditions(seed=seed, latency=Latency(default=0.004, spread=0.5, watch=0.02))
        api = RestApi(InMemoryTransport(server, network=network), rng=random.Random(seed))
        for name in ("node-a", "node-b"):
            await api.create(NODES, a_node(name))
        async with start_actors(api, loop_clock(), ControllerManagerSettings(KubeletTimings(seed=seed))):
            body = a_workload("web", replicas=5)
            body["spec"]["template"]["spec"]["nodeName"] = "node-a"
            await api.create(DEPLOYMENTS, body, "default")
            await asyncio.sleep(20)
            await api.scale(DEPLOYMENTS, "web", "default", 2)
            await asyncio.sleep(20)
            pods = (await api.list(POD)).items
            seen.extend(_in_short(pod) for pod in pods)

    run_virtual(story())
    return seen


def _in_short(pod: JsonObject) -> str:
    return f"{pod['metadata']['name']} {pod['metadata']['resourceVersion']} {pod['status']}"


def test_equal_seeds_lead_to_equal_worlds_and_others_do_not() -> None:
    assert history(1) == history(1) != history(2)


def test_a_thousand_nodes_cost_what_happens_on_them() -> None:
    async def story(stage: Stage) -> None:
        for number in range(1000):
            await stage.api.create(NODES, a_node(f"node-{number:04}", gpus=8))
        async with stage.actors(ControllerManagerSettings(INSTANT)):
            for number in range(500):
                body = a_pod(f"pod-{number:04}", gpus=8, annotations={DURATION: "600"}, restartPolicy="Never")
                await bound_pod(stage, f"pod-{number:04}", f"node-{number:04}", body)
            await asyncio.sleep(5)
            assert await stage.phases() == ["Running"] * 500
            await asyncio.sleep(600)
            assert await stage.phases() == ["Succeeded"] * 500

    on_stage(story)


def test_an_actor_that_breaks_breaks_the_story() -> None:
    def broken(_: ActorNode) -> bool:
        raise ZeroDivisionError

    async def story(stage: Stage) -> None:
        async with start_actors(stage.api, loop_clock(), owns=broken):
            await stage.api.create(NODES, a_node("node-a"))
            await asyncio.sleep(5)
            pytest.fail("nobody noticed")

    with pytest.raises(ExceptionGroup) as caught:
        on_stage(story)
    assert caught.group_contains(ZeroDivisionError)


def test_a_refused_creation_is_reported_on_the_replica_set() -> None:
    async def story(stage: Stage) -> None:
        async with stage.actors(ControllerManagerSettings(INSTANT)) as actors:
            body = a_workload("web", replicas=1)
            body["spec"]["template"]["spec"]["priorityClassName"] = "nobody-knows-it"
            await stage.api.create(REPLICA_SETS, body, "default")
            await asyncio.sleep(5)
            assert list(actors.refusals()) == ["replicaset default/web"]
            (condition,) = (await stage.api.get(REPLICA_SETS, "web", "default")).status.conditions
            assert (condition.type, condition.reason) == ("ReplicaFailure", "FailedCreate")
            assert "nobody-knows-it" in condition.message

    on_stage(story)
