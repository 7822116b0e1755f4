"""The agent in virtual time: what it says, when it says it, and what it does when things break."""

import asyncio

import pytest
from structlog.testing import capture_logs

from tests.agent.node import NODE, Stage, play
from ullage.agent.podresources import AllocatedDevices
from ullage.decide.inventory.gpu_readings import GpuReadError
from ullage.decide.inventory.node_kind import NodeKindMode
from ullage.kube.client.api import DELETE_NOW, MergePatch
from ullage.kube.client.resources import GPU_NODE_STATUSES, NODES, PODS, RESOURCE_SLICES
from ullage.kube.client.transport import Request
from ullage.kube.timestamps import read_time
from ullage.model.fact_event import ObjectKey
from ullage.sim.apiserver.network_faults import FAULTS, FaultRates, Latency, NetworkConditions
from ullage.sim.virtual_time import loop_clock
from ullage.testing.builders import a_node, a_resource_slice

pytestmark = pytest.mark.story

GPU = "nvidia.com/gpu"
OURS, THEIRS = {"gpu-0": f"GPU-{NODE}-0"}, {"gpu-0": "GPU-another-node-0"}


def test_a_node_is_reported_labelled_tainted_and_advertised() -> None:
    async def story(stage: Stage) -> None:
        async with stage.agent_running():
            report, node = await stage.report(), await stage.api.get(NODES, NODE)
        assert (report.total, report.healthy, report.kind) == (8, 8, "Leased")
        assert {(gpu.island, gpu.bandwidth) for gpu in report.devices} == {("nvlink-0", 450)}
        assert node.metadata.labels["gpu.scheduling/node-kind"] == "leased"
        assert [(t.key, t.value, t.effect) for t in node.spec.taints] == [
            ("gpu.scheduling/leased", "true", "NoSchedule")
        ]
        assert (node.status.capacity[GPU], node.status.allocatable[GPU]) == ("8", "8")
        assert await stage.condition("Ready") == ("True", "GpusRead", "8 GPUs")
        owner = (await stage.api.get(GPU_NODE_STATUSES, NODE)).metadata.owner_references[0]
        assert (owner.kind, owner.uid) == ("Node", node.metadata.uid)

    play(story)


def test_its_time_moves_every_half_minute_though_nothing_changes() -> None:
    async def story(stage: Stage) -> None:
        async with stage.agent_running():
            for _ in range(10):
                await asyncio.sleep(17)
                age = loop_clock().now() - read_time((await stage.report()).observed_at)
                assert age < 35

    play(story)


def test_a_quiet_node_costs_two_writes_a_minute_and_nothing_else() -> None:
    asked: list[str] = []
    network = NetworkConditions()
    network.script(lambda request: asked.append(f"{request.method} {request.path} {request.query.get('watch', '')}"))

    async def story(stage: Stage) -> None:
        async with stage.agent_running():
            stage.runs(0, 1, await stage.pod("train", 0))
            await asyncio.sleep(60)
            asked.clear()
            await asyncio.sleep(600)
        calls = [one.strip() for one in asked if not one.endswith("true")]
        assert set(calls) == {f"PATCH /apis/gpu.scheduling/v1/gpunodestatuses/{NODE}/status"}
        assert 18 <= len(calls) <= 21

    play(story, network=network)


def test_agents_list_from_the_servers_memory() -> None:
    """There are as many of them as nodes: a consistent list of pods is a look at every pod there is, for each."""
    lists: list[tuple[str, str | None, str | None]] = []
    network = NetworkConditions()

    def note(request: Request) -> None:
        query = request.query
        if request.method == "GET" and "fieldSelector" in query and "watch" not in query:
            lists.append((request.path, query.get("resourceVersion"), query.get("limit")))

    network.script(note)

    async def story(stage: Stage) -> None:
        async with stage.agent_running():
            await asyncio.sleep(60)

    play(story, network=network)
    assert sorted(lists) == [("/api/v1/nodes", "0", None), ("/api/v1/pods", "0", None)]


def test_an_agent_of_a_deleted_node_says_so_once_and_waits_for_another() -> None:
    asked: list[str] = []
    network = NetworkConditions()
    network.script(lambda request: asked.append(f"{request.method} {request.path} {request.query.get('watch', '')}"))

    async def story(stage: Stage) -> None:
        async with stage.agent_running() as agent:
            await asyncio.sleep(40)
            await stage.api.delete(NODES, NODE)
            await stage.api.delete(GPU_NODE_STATUSES, NODE)
            await asyncio.sleep(10)
            asked.clear()
            with capture_logs() as said:
                await asyncio.sleep(1800)
            assert [one for one in asked if not one.endswith("true")] == []
            assert [one for one in said if one["log_level"] != "info"] == []
            assert agent.checks.ready["reports"]() == f"the cluster has no node {NODE}"
            await stage.api.create(NODES, a_node(NODE))
            await asyncio.sleep(5)
            status, node = await stage.api.get(GPU_NODE_STATUSES, NODE), await stage.api.get(NODES, NODE)
            assert (status.status.total, status.metadata.owner_references[0].uid) == (8, node.metadata.uid)
            assert [taint.key for taint in node.spec.taints] == ["gpu.scheduling/leased"]
            assert agent.checks.ready["reports"]() == ""

    play(story, network=network)


def test_a_gpu_dies_and_the_pod_on_it_is_told_within_five_seconds() -> None:
    async def story(stage: Stage) -> None:
        async with stage.agent_running():
            await stage.pod("train", 3, 4)
            await asyncio.sleep(7)
            stage.reader.dies(3)
            await asyncio.sleep(0.5)
            assert (await stage.gpu(3)).health == "Unhealthy"
            assert (await stage.report()).healthy == 7
            node = await stage.api.get(NODES, NODE)
            assert (node.status.capacity[GPU], node.status.allocatable[GPU]) == ("8", "8"), "its pod still counts, too"
            assert await stage.condition("AllHealthy") == ("False", "SomeUnhealthy", "GPU 3: fell off the bus")
            assert [told[:2] for told in await stage.told()] == [("Pod/train", "GpuUnhealthy")]
            await stage.api.delete(PODS, "train", "default", how=DELETE_NOW)
            await asyncio.sleep(5)
            assert (await stage.api.get(NODES, NODE)).status.allocatable[GPU] == "7"

    play(story)


def test_one_that_dies_without_an_xid_is_found_by_the_next_look() -> None:
    async def story(stage: Stage) -> None:
        async with stage.agent_running():
            await asyncio.sleep(6.5)
            stage.reader.troubles[5] = GpuReadError.SILENT
            await asyncio.sleep(2.5)
            assert (await stage.gpu(5)).health == "Unhealthy"
            assert [told[:2] for told in await stage.told()] == [(f"Node/{NODE}", "GpuUnhealthy")]

    play(story)


def test_an_agent_that_starts_again_keeps_ids_and_misses_what_is_gone() -> None:
    async def story(stage: Stage) -> None:
        async with stage.agent_running():
            pass
        gone = stage.reader._cards.pop(2)
        async with stage.agent_running():
            assert (await stage.gpu(2)).uuid == gone.uuid
            assert (await stage.gpu(2)).health == "Unhealthy"
            assert (await stage.gpu(3)).uuid == f"GPU-{NODE}-3"
        stage.proc.boot = "boot-2"
        async with stage.agent_running():
            assert [gpu.id for gpu in (await stage.report()).devices] == [0, 1, 3, 4, 5, 6, 7]

    play(story)


def test_processes_are_their_pods_and_a_dead_pods_gpu_is_in_use_while_its_process_lives() -> None:
    async def story(stage: Stage) -> None:
        async with stage.agent_running():
            uid = await stage.pod("train", 0)
            stage.runs(0, 4711, uid)
            await asyncio.sleep(3)
            assert (await stage.gpu(0)).in_use_by == (uid,)
            stage.reader.troubles[0] = GpuReadError.SILENT
            await asyncio.sleep(3)
            assert (await stage.gpu(0)).in_use_by == (uid,), "a GPU that says nothing may still be used"
            del stage.proc.alive[4711]
            await asyncio.sleep(3)
            assert (await stage.gpu(0)).in_use_by == ()

    play(story)


def test_a_stray_process_is_told_once_counted_and_forgotten() -> None:
    async def story(stage: Stage) -> None:
        async with stage.agent_running() as agent:
            uid = await stage.pod("greedy", 0)
            stage.runs(0, 100, uid)
            stage.runs(1, 101, uid)
            stage.runs(2, 102, "")
            await asyncio.sleep(20)
            told = await stage.told()
            assert [one[:2] for one in told] == [
                (f"Node/{NODE}", "GpuUsedWithoutLease"),
                ("Pod/greedy", "GpuUsedWithoutLease"),
            ]
            assert "process 101" in told[1][2]
            count = agent.metrics.registry.get_sample_value
            assert count("ullage_agent_stray_processes", {"gpu": "1"}) == 1
            stage.reader.runs(1)
            stage.reader.runs(2)
            await asyncio.sleep(3)
            assert count("ullage_agent_stray_processes", {"gpu": "1"}) is None
            assert len(await stage.told()) == 2

    play(story)


def test_idle_holders_are_visible() -> None:
    async def story(stage: Stage) -> None:
        async with stage.agent_running() as agent:
            stage.runs(0, 1, await stage.pod("busy", 0), utilisation=97)
            stage.runs(1, 2, await stage.pod("idle", 1), utilisation=0)
            await asyncio.sleep(600)
            value = agent.metrics.registry.get_sample_value
            assert value("ullage_agent_gpu_idle_seconds", {"gpu": "0"}) == 0
            idle = value("ullage_agent_gpu_idle_seconds", {"gpu": "1"})
            assert idle is not None
            assert 590 < idle < 605
            assert value("ullage_agent_gpu_idle_seconds", {"gpu": "2"}) is None
            assert value("ullage_agent_gpu_utilisation_percent", {"gpu": "0"}) == 97

    play(story)


def test_on_a_counted_node_the_plugins_choice_is_reported_and_nothing_else_is_touched() -> None:
    async def story(stage: Stage) -> None:
        stage.plugin.devices = frozenset({f"GPU-{NODE}-{gpu}" for gpu in range(8)})
        async with stage.agent_running():
            uid = await stage.pod("train")
            stage.plugin.pods.append(
                AllocatedDevices(ObjectKey("default", "train"), GPU, (f"GPU-{NODE}-6", f"GPU-{NODE}-7::2"))
            )
            stage.runs(6, 50, uid)
            await asyncio.sleep(10)
            assert (await stage.gpu(6)).in_use_by == (uid,)
            assert (await stage.gpu(7)).in_use_by == (uid,)
            report, node = await stage.report(), await stage.api.get(NODES, NODE)
            assert report.kind == "Counted"
            assert node.metadata.labels["gpu.scheduling/node-kind"] == "counted"
            assert node.spec.taints == ()
            assert GPU not in node.status.capacity
            assert await stage.told() == []

    play(story, mode=NodeKindMode.AUTO)


def test_when_the_plugin_is_gone_for_good_the_node_becomes_leased() -> None:
    async def story(stage: Stage) -> None:
        stage.plugin.devices = frozenset({"GPU-x"})
        async with stage.agent_running():
            await asyncio.sleep(40)
            stage.plugin.devices = frozenset()
            await asyncio.sleep(500)
            assert (await stage.report()).kind == "Counted"
            assert (await stage.condition("KindSettled"))[:2] == ("False", "MaybeLeased")
            await asyncio.sleep(200)
            node = await stage.api.get(NODES, NODE)
            assert (await stage.report()).kind == "Leased"
            assert node.metadata.labels["gpu.scheduling/node-kind"] == "leased"
            assert [taint.key for taint in node.spec.taints] == ["gpu.scheduling/leased"]

    play(story, mode=NodeKindMode.AUTO)


def test_a_plugin_that_restarts_or_stays_away_never_gives_its_pods_gpus_to_us() -> None:
    async def story(stage: Stage) -> None:
        uuids = sorted(f"GPU-{NODE}-{gpu}" for gpu in range(8))
        stage.plugin.devices = frozenset(uuids)
        await stage.pod("training")
        stage.plugin.pods = [AllocatedDevices(ObjectKey("default", "training"), GPU, tuple(uuids[:4]))]
        async with stage.agent_running():
            await asyncio.sleep(40)
            stage.plugin.devices = frozenset()
            for _ in range(30):
                await asyncio.sleep(60)
                node = await stage.api.get(NODES, NODE)
                assert (node.metadata.labels["gpu.scheduling/node-kind"], node.spec.taints) == ("counted", ())
            assert [gpu.id for gpu in (await stage.report()).devices if gpu.in_use_by] == [0, 1, 2, 3]

    play(story, mode=NodeKindMode.AUTO)


def test_a_node_served_by_a_dra_driver_is_its_own_kind_and_left_alone() -> None:
    async def story(stage: Stage) -> None:
        stage.plugin.devices = frozenset()
        await stage.api.create(RESOURCE_SLICES[0], a_resource_slice("theirs", "another-node", THEIRS))
        await stage.api.create(RESOURCE_SLICES[0], a_resource_slice("mine", NODE, OURS))
        async with stage.agent_running():
            await asyncio.sleep(2000)
            report, node = await stage.report(), await stage.api.get(NODES, NODE)
            assert (report.kind, report.total) == ("DRA", 8)
            assert node.metadata.labels["gpu.scheduling/node-kind"] == "dra"
            assert (node.spec.taints, GPU in node.status.capacity) == ((), False)
            assert await stage.condition("KindSettled") == ("True", "DRA", "a DRA driver publishes the GPUs")

    play(story, mode=NodeKindMode.AUTO)


def test_a_leased_node_that_gets_a_dra_driver_goes_over_when_its_pods_are_gone() -> None:
    async def story(stage: Stage) -> None:
        stage.plugin.devices = frozenset()
        await stage.api.create(RESOURCE_SLICES[0], a_resource_slice("theirs", "another-node", THEIRS))
        async with stage.agent_running():
            await asyncio.sleep(100)
            assert (await stage.report()).kind == "Leased"
            await stage.pod("train", 0, 1)
            await stage.api.create(RESOURCE_SLICES[0], a_resource_slice("mine", NODE, OURS))
            await asyncio.sleep(100)
            assert (await stage.report()).kind == "Leased"
            assert "1 pods with leased GPUs" in (await stage.condition("KindSettled"))[2]
            await stage.api.delete(PODS, "train", "default", how=DELETE_NOW)
            await asyncio.sleep(40)
            report, node = await stage.report(), await stage.api.get(NODES, NODE)
            assert report.kind == "DRA"
            assert (node.spec.taints, GPU in node.status.capacity) == ((), False)

    play(story, mode=NodeKindMode.AUTO)


def test_what_kubelet_sets_back_is_said_again_and_taints_of_others_stay() -> None:
    async def story(stage: Stage) -> None:
        taint = {"key": "example.com/theirs", "effect": "NoSchedule"}
        await stage.api.patch(NODES, NODE, MergePatch({"spec": {"taints": [taint]}}))
        async with stage.agent_running():
            stage.reader.dies(0)
            await asyncio.sleep(1)
            reset = MergePatch({"status": {"allocatable": {GPU: "8"}}})
            await stage.api.patch(NODES, NODE, reset, subresource="status")
            await asyncio.sleep(35)
            node = await stage.api.get(NODES, NODE)
            assert node.status.allocatable[GPU] == "7"
            assert [taint.key for taint in node.spec.taints] == ["example.com/theirs", "gpu.scheduling/leased"]

    play(story)


def test_a_driver_that_hangs_is_told_and_so_is_its_return() -> None:
    async def story(stage: Stage) -> None:
        async with stage.agent_running():
            stage.reader.dies(2)
            await asyncio.sleep(3)
            stage.reader.hangs = True
            await asyncio.sleep(3)
            assert await stage.condition("Ready") == ("Unknown", "DriverSilent", "the driver gives no answer")
            report = await stage.report()
            assert [gpu.health for gpu in report.devices] == ["Unknown"] * 2 + ["Unhealthy"] + ["Unknown"] * 5
            age = loop_clock().now() - read_time(report.observed_at)
            assert age < 5, "it is the agent's word that is fresh, not the GPUs"
            stage.reader.hangs = False
            await asyncio.sleep(3)
            assert (await stage.report()).healthy == 7
            assert (await stage.condition("Ready"))[0] == "True"

    play(story)


@pytest.mark.fault
def test_without_an_api_server_it_goes_on_looking_and_reports_when_it_can() -> None:
    network = NetworkConditions(seed=1)

    async def story(stage: Stage) -> None:
        async with stage.agent_running() as agent:
            network.partitioned = True
            await asyncio.sleep(60)
            stage.reader.dies(4)
            await asyncio.sleep(60)
            assert agent.checks.alive["looks"]() == ""
            assert "old" in agent.checks.ready["reports"]()
            value = agent.metrics.registry.get_sample_value
            assert value("ullage_agent_gpus", {"health": "Unhealthy"}) == 1
            network.partitioned = False
            await asyncio.sleep(40)
            assert (await stage.gpu(4)).health == "Unhealthy"
            assert agent.checks.ready["reports"]() == ""

    play(story, network=network)


@pytest.mark.fault
@pytest.mark.parametrize("seed", range(5))
def test_in_bad_weather_the_last_word_is_right(seed: int) -> None:
    network = NetworkConditions(
        seed=seed,
        latency=Latency(default=0.05, spread=1.0),
        odds=FaultRates(dict.fromkeys(FAULTS, 0.1), stream_cut=0.1),
    )

    async def story(stage: Stage) -> None:
        async with stage.agent_running():
            await asyncio.sleep(100)
            stage.reader.dies(1)
            stage.reader.dies(6)
            await asyncio.sleep(100)
            report, node = await stage.report(), await stage.api.get(NODES, NODE)
            assert [gpu.id for gpu in report.devices if gpu.health == "Unhealthy"] == [1, 6]
            assert node.status.allocatable[GPU] == "6"
            assert loop_clock().now() - read_time(report.observed_at) < 60

    play(story, network=network)


def test_a_report_somebody_deleted_is_made_again() -> None:
    async def story(stage: Stage) -> None:
        async with stage.agent_running():
            await stage.api.delete(GPU_NODE_STATUSES, NODE)
            await asyncio.sleep(40)
            assert (await stage.report()).total == 8

    play(story)
