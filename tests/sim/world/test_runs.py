"""Whole runs: what is used, waited for and paid, to the number."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.sim.world.making import HOUR, arrives, claim, fleet, pod, pool, world
from ullage.errors import UserError
from ullage.sim.fleet.reading import read_fleet
from ullage.sim.workload.manifests import PodOptions, arrivals
from ullage.sim.workload.reading import read_workload
from ullage.sim.world.run import simulate
from ullage.sim.world.spec import SCHEDULER

pytestmark = pytest.mark.story

HALF = {"exclusivity": "Shared", "memory": "40Gi"}
BACK_OFF = 11.0
"""Seconds a pod that was refused often may wait although its GPUs are free."""


def test_hours_of_gpus_and_money_are_exact() -> None:
    arrivals = [
        arrives(0, pod("a", 8, seconds=HOUR)),
        arrives(0, pod("b", 4, seconds=2 * HOUR)),
        arrives(HOUR, pod("c", 4, seconds=HOUR)),
    ]

    result = simulate(world(nodes=2), arrivals)

    assert result.violation is None
    assert result.ended_at == pytest.approx(2 * HOUR, abs=1)
    report = result.report
    assert report["gpus"]["hours"]["capacity"] == pytest.approx(32, abs=0.01)
    assert report["gpus"]["hours"]["allocated"] == pytest.approx(8 + 8 + 4, abs=0.01)
    assert report["gpus"]["hours"]["waste"] == pytest.approx(12, abs=0.01)
    assert report["cost"]["total"] == pytest.approx(64, abs=0.02)
    assert report["cost"]["wasted"] == pytest.approx(24, abs=0.02)
    assert report["pods"] == {"submitted": 3, "placed": 3, "finished": 3, "deleted": 3, "waiting": 0}
    assert report["decisions"]["Scheduled"] == 3
    assert report["attempts"]["placed"] == {"Fits": 3}


def test_who_waits_is_counted_by_size_and_idle_gpus_count_as_wasted_meanwhile() -> None:
    arrivals = [
        arrives(0, pod("small", 1, seconds=HOUR)),
        arrives(10, pod("large", 8, seconds=HOUR)),
        arrives(20, claim("part", devices=HALF), pod("part", claim="part"), leaves_at=60),
    ]

    report = simulate(world(nodes=1), arrivals).report

    assert report["waiting"]["8"]["max"] == pytest.approx(HOUR - 10, abs=BACK_OFF)
    assert report["waiting"]["1"]["count"] == report["waiting"]["shared"]["count"] == 1
    assert report["waiting"]["all"]["count"] == 3
    assert report["gpus"]["hours"]["wasteWhileWaiting"] == pytest.approx(7 * (HOUR - 10) / HOUR, abs=0.05)
    assert "TooFewGpus" in report["attempts"]["refused"]


def test_pods_that_wait_in_vain_end_a_run_all_the_same() -> None:
    result = simulate(world(nodes=1), [arrives(0, pod("huge", 16))])

    assert result.report["pods"]["waiting"] == 1
    assert result.report["waiting"]["16"]["still"] == 1


def test_a_run_ends_when_told_to() -> None:
    result = simulate(world(nodes=1), [arrives(0, pod("a", seconds=HOUR)), arrives(7200, pod("b"))], until=1800)

    assert result.ended_at == pytest.approx(1800)
    assert result.report["pods"]["submitted"] == 1


def test_what_leaves_is_gone_with_all_that_came_with_it() -> None:
    spec = world(nodes=1)

    result = simulate(spec, [arrives(0, claim("mine", devices=HALF), pod("mine", claim="mine"), leaves_at=100)])

    assert result.violation is None
    assert result.report["pods"]["deleted"] == 1
    assert result.ended_at == pytest.approx(100, abs=1)


@pytest.mark.parametrize("policy", ["EmptyOnly", "Drain"])
def test_nodes_are_bought_for_who_waits_and_given_back_when_nobody_does(policy: str) -> None:
    spec = world(nodes=0, objects=(pool(consolidation={"policy": policy}),))
    load = [arrives(1000, pod(f"p{number}", 8, seconds=HOUR)) for number in range(3)]

    result = simulate(spec, load, until=3 * HOUR)

    assert result.violation is None
    assert result.report["churn"]["bought"] == result.report["churn"]["givenBack"] == 3
    assert result.report["waiting"]["8"]["max"] == pytest.approx(120, abs=15)
    hours = result.report["gpus"]["hours"]
    assert hours["allocated"] == pytest.approx(24, abs=0.1)
    assert 0 < hours["waste"] < 8, "machines are paid for while they boot and until they are given back"
    assert result.report["cost"]["total"] == pytest.approx(hours["capacity"] * 2, abs=0.01)


def test_pods_are_moved_so_that_nodes_can_go() -> None:
    drained = pool(most=4, minGPUUtilizationPercent=90, consolidation={"policy": "Drain", "unneededTime": "2m"})
    replicas = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 4,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": _serving(2)},
        },
    }
    full = [arrives(0, pod(f"full-{number}", 6, seconds=HOUR)) for number in range(4)]

    result = simulate(world(nodes=0, objects=(drained,)), [arrives(0, replicas), *full], until=3 * HOUR)

    assert result.violation is None
    assert result.report["disruptions"]["evicted"]["EvictionByEvictionAPI"] >= 2
    assert result.report["series"]["nodes"][-1] == 1.0, "eight GPUs in use, on one node in the end"


def _serving(gpus: int) -> dict[str, object]:
    spec: dict[str, object] = pod("web", gpus)["spec"]
    return {**spec, "restartPolicy": "Always"}


def test_a_loop_that_is_off_does_nothing() -> None:
    spec = world(nodes=0, objects=(pool(),), loops=(SCHEDULER,))

    result = simulate(spec, [arrives(0, pod("a"))])

    assert result.report["churn"] == {}
    assert result.report["pods"]["waiting"] == 1


def test_a_loop_nobody_knows_is_refused_by_name() -> None:
    with pytest.raises(
        UserError, match="there is no loop called karpenter; there are scheduler, provisioning, draining"
    ):
        simulate(world(loops=("karpenter",)), [])


def test_what_the_cluster_refuses_names_the_field() -> None:
    bad = claim("none", 0)

    with pytest.raises(UserError, match=r"at 5 s.*spec\.devices\.count"):
        simulate(world(), [arrives(5, bad)])


def test_machines_of_pools_that_are_there_can_be_given_back() -> None:
    nodes = tuple(replace(one, pool="pool") for one in fleet(3))

    result = simulate(world(nodes, objects=(pool(least=1),)), [], until=2 * HOUR)

    assert result.violation is None
    assert result.report["churn"] == {"givenBack": 2, "removed": 2, "tainted": 2}
    assert result.report["series"]["nodes"][-1] == 1.0


NODES = """sn,cpu_milli,memory_mib,gpu,model
n0,64000,262144,2,P100
n1,96000,786432,8,V100M32
"""
TRACE = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
whole,8000,16384,8,1000,,LS,Running,0,500000,0
half,4000,8192,1,500,,LS,Running,10,400000,10
other-half,4000,8192,1,500,,LS,Running,20,400000,20
picky,4000,8192,1,1000,V100M32|A10,BE,Running,30,600000,500100
plain,4000,8192,0,0,,BE,Succeeded,1000000,1000100,1000000
"""


def test_a_trace_is_replayed_with_its_own_times(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "pods.csv").write_text(TRACE)
    machines = read_fleet([str(tmp_path / "nodes.csv")])
    jobs = read_workload(str(tmp_path / "pods.csv")).jobs
    coming = arrivals(jobs, PodOptions(ends="clock", share_of=machines.share_of))

    result = simulate(world(nodes=machines.nodes), coming)

    assert result.violation is None
    assert result.ended_at == pytest.approx(1_000_100, abs=1)
    assert result.report["pods"]["placed"] == 5
    assert result.report["waiting"]["1"]["max"] == pytest.approx(500_000 - 30, abs=BACK_OFF), "only one node will do"
    held = 8 * 500_000 + 0.5 * 2 * 400_000 + 100_000
    assert result.report["gpus"]["hours"]["allocated"] == pytest.approx(held / HOUR, abs=0.1)
