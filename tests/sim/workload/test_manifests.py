"""Jobs as the objects Kubernetes is given."""

from typing import Any

import pytest

from ullage.sim.workload.job import TraceJob
from ullage.sim.workload.manifests import PodOptions, arrivals, surroundings
from ullage.sim.world.spec import Arrival

MOVABLE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}


def arrived(job: TraceJob, **manner: Any) -> Arrival:
    return arrivals([job], PodOptions(**manner))[0]


def only(arrival: Arrival, kind: str) -> list[Any]:
    return [one for one in arrival.objects if one["kind"] == kind]


def test_whole_gpus_of_any_model_need_no_claim() -> None:
    arrival = arrived(TraceJob(name="a", at=7, seconds=60, gpus=2, cpu_milli=1500, memory=1 << 30))
    (pod,) = arrival.objects
    assert (arrival.at, arrival.leaves_at) == (7, None)
    assert pod["metadata"]["annotations"] == {"sim.ullage/duration-seconds": "60.000", **MOVABLE}
    resources = pod["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "1500m", "memory": str(1 << 30), "nvidia.com/gpu": "2"}
    assert resources["limits"] == {"nvidia.com/gpu": "2"}


@pytest.mark.parametrize(
    ("job", "devices"),
    [
        pytest.param(TraceJob(name="a", at=0, gpus=1, share_milli=460), {"memory": 460_000}, id="a-part-by-memory"),
        pytest.param(
            TraceJob(name="a", at=0, gpus=2, gpu_memory=77), {"count": 2, "memory": 77}, id="its-own-memory-first"
        ),
    ],
)
def test_a_part_of_a_gpu_is_a_shared_claim(job: TraceJob, devices: dict[str, Any]) -> None:
    claim, pod = arrived(job, share_of=1_000_000).objects
    assert claim["spec"]["devices"] == {"count": 1, "exclusivity": "Shared", **devices}
    assert pod["metadata"]["annotations"] == {"gpu.scheduling/claim": "a", **MOVABLE}
    assert "nvidia.com/gpu" not in pod["spec"]["containers"][0]["resources"]["requests"]


def test_models_are_claimed_and_bars_separate_several() -> None:
    (claim,) = only(arrived(TraceJob(name="a", at=0, gpus=1, models=("T4",))), "GpuClaim")
    assert claim["spec"]["devices"] == {"count": 1, "model": "T4"}
    (claim,) = only(arrived(TraceJob(name="a", at=0, gpus=1, models=("T4", "Tesla V100"))), "GpuClaim")
    assert claim["spec"]["devices"] == {"count": 1, "model": "T4|Tesla V100"}


def test_a_gang_shares_a_name_in_its_claims() -> None:
    arrival = arrived(TraceJob(name="train", at=0, gpus=8, pods=3))
    assert [pod["metadata"]["name"] for pod in only(arrival, "Pod")] == ["train-0", "train-1", "train-2"]
    assert all(claim["spec"]["gangRef"] == "train" for claim in only(arrival, "GpuClaim"))
    assert [claim["spec"]["gangMinMember"] for claim in only(arrival, "GpuClaim")] == [3, 3, 3]


def test_times_of_the_clock_and_a_higher_load() -> None:
    job = TraceJob(name="a", at=100, seconds=60, stays=90)
    by_clock = arrived(job, ends="clock")
    assert (by_clock.at, by_clock.leaves_at) == (100, 190)
    assert "sim.ullage/duration-seconds" not in by_clock.objects[0]["metadata"]["annotations"]
    assert arrived(job, load=2.0).at == 50


def test_pods_that_do_not_come_again_are_not_moved() -> None:
    job = TraceJob(name="a", at=0)
    assert arrived(job).again
    lost = arrived(job, evicted="lost")
    assert not lost.again
    assert lost.objects[0]["metadata"]["annotations"] == {}


def test_what_has_to_be_there_before() -> None:
    jobs = [
        TraceJob(name="a", at=0, priority=10, namespace="team"),
        TraceJob(name="b", at=0, priority=-5),
        TraceJob(name="c", at=0),
    ]
    found = [(one["kind"], one["metadata"]["name"], one.get("value")) for one in surroundings(jobs)]
    assert found == [
        ("Namespace", "team", None),
        ("PriorityClass", "priority-minus-5", -5),
        ("PriorityClass", "priority-10", 10),
    ]
    (pod,) = arrived(jobs[1]).objects
    assert pod["spec"]["priorityClassName"] == "priority-minus-5"
