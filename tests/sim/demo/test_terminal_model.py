"""What a terminal shows of a cluster: rows made of facts."""

import pytest
from msgspec.structs import replace

from tests.sim.demo.facts import NOW, a_node, a_pod_of, inventory_of, provisioner, terminal
from ullage.model.device import DeviceHealth
from ullage.model.karpenter import NODE_POOL_LABEL
from ullage.model.node import Node, Taint
from ullage.sim.demo.screen import summary_line
from ullage.sim.demo.terminal_model import NO_POOL, GpuTile, GpuUse, pools, waiting

TAINTED = {
    "candidate": Taint("gpu.scheduling/drain-candidate", str(int(NOW - 75)), "PreferNoSchedule"),
    "draining": Taint("gpu.scheduling/draining", str(int(NOW)), "NoSchedule"),
    "doomed": Taint("gpu.scheduling/deletion-time", str(int(NOW + 130)), "NoSchedule"),
}


@pytest.mark.parametrize(
    ("node", "mark", "going"),
    [
        pytest.param(a_node("a"), "", False, id="well"),
        pytest.param(replace(a_node("a"), ready=False), "not ready", False, id="not-ready"),
        pytest.param(replace(a_node("a"), unschedulable=True), "cordoned", True, id="cordoned"),
        pytest.param(replace(a_node("a"), taints=(TAINTED["candidate"],)), "candidate for 1:15", False, id="candidate"),
        pytest.param(
            replace(a_node("a"), taints=(TAINTED["candidate"], TAINTED["draining"])), "draining", True, id="draining"
        ),
        pytest.param(replace(a_node("a"), taints=(TAINTED["doomed"],)), "goes in 2:10", True, id="doomed"),
    ],
)
def test_what_is_to_become_of_a_node(node: Node, mark: str, going: bool) -> None:
    (pool,) = pools(terminal(nodes=[node], inventories=[inventory_of("a")]), NOW)
    assert (pool.nodes[0].mark, pool.nodes[0].going) == (mark, going)


def test_a_node_without_a_report_is_starting() -> None:
    (pool,) = pools(terminal(nodes=[a_node("a")]), NOW)
    assert pool.nodes[0].mark == "starting: no GPUs yet"
    assert pool.nodes[0].islands == ()


def test_gpus_are_drawn_island_by_island_with_their_holders() -> None:
    seen = terminal(
        nodes=[a_node("a")],
        inventories=[inventory_of("a", broken=(1, 6))],
        pods=[a_pod_of("train-0", node="a", gpus=(0, 1)), a_pod_of("chat-x", node="a", gpus=(4,), share=250)],
    )
    (pool,) = pools(seen, NOW)
    first, second = pool.nodes[0].islands
    assert first == (
        GpuTile(GpuUse.LEASED, "train-0"),
        GpuTile(GpuUse.BROKEN, "train-0"),
        GpuTile(GpuUse.FREE),
        GpuTile(GpuUse.FREE),
    )
    assert second == (
        GpuTile(GpuUse.SHARED, "chat-x"),
        GpuTile(GpuUse.FREE),
        GpuTile(GpuUse.BROKEN),
        GpuTile(GpuUse.FREE),
    )
    assert pool.used_percent == 38


def test_pools_come_by_name_and_strangers_last() -> None:
    seen = terminal(
        nodes=[a_node("a", pool="train"), a_node("z")],
        inventories=[inventory_of("a"), inventory_of("z")],
        provisioners=[provisioner("train", current=1, target=3, coming=2), provisioner("idle")],
    )
    idle, train, strangers = pools(seen, NOW)
    assert (idle.name, train.name, strangers.name) == ("idle", "train", NO_POOL)
    assert (train.current, train.target, train.coming, train.sort, train.price) == (1, 3, 2, "8 x H100", "98.32")
    assert idle.nodes == ()


def test_nodes_of_karpenter_come_by_their_node_pool() -> None:
    bought = replace(a_node("k"), labels={NODE_POOL_LABEL: "gpu-h100"})
    (pool,) = pools(terminal(nodes=[bought], inventories=[inventory_of("k")]), NOW)
    assert (pool.name, pool.current) == ("gpu-h100", 1)
    assert summary_line((pool,), ()) == "gpu-h100 1 node, 0 % used"


def test_pods_of_one_workload_wait_together_and_the_oldest_first() -> None:
    seen = terminal(
        pods=[
            a_pod_of("chat-1", app="chat", waits=("Unschedulable", "0/4 nodes fit"), created=NOW - 20),
            a_pod_of("chat-2", app="chat", waits=("Unschedulable", "0/4 nodes fit"), created=NOW - 10),
            a_pod_of("train", waits=("Unschedulable", "no island"), created=NOW - 60, asks=4),
            a_pod_of("seated", node="a"),
        ]
    )
    first, second = waiting(seen, NOW)
    assert (first.pods, first.gpus, first.seconds, first.message) == (("train",), 4, 60, "no island")
    assert (second.pods, second.seconds) == (("chat-1", "chat-2"), 20)


def test_a_finished_or_leaving_pod_holds_and_waits_for_nothing() -> None:
    seen = terminal(
        nodes=[a_node("a")],
        inventories=[inventory_of("a")],
        pods=[a_pod_of("done", node="a", gpus=(0,), phase="Succeeded"), a_pod_of("going", deleting=True)],
    )
    assert waiting(seen, NOW) == []
    cells = [cell for island in pools(seen, NOW)[0].nodes[0].islands for cell in island]
    assert {cell.use for cell in cells} == {GpuUse.FREE}


def test_health_unknown_counts_as_broken() -> None:
    seen = terminal(nodes=[a_node("a")], inventories=[inventory_of("a", broken=(0,), health=DeviceHealth.UNKNOWN)])
    assert pools(seen, NOW)[0].nodes[0].islands[0][0].use is GpuUse.BROKEN
