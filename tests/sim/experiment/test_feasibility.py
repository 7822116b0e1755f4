"""Jobs that can never run, named before a run with the scheduler's own reasons."""

from pathlib import Path

import pytest

from ullage.errors import UserError
from ullage.sim.experiment.feasibility import impossible_jobs, possible
from ullage.sim.fleet.fleet import SimulatedFleet
from ullage.sim.fleet.reading import read_fleet
from ullage.sim.workload.job import TraceJob, Workload
from ullage.sim.workload.manifests import PodOptions

POOL = """
apiVersion: gpu.scheduling/v1
kind: NodeProvisioner
metadata: {name: pool}
spec:
  provider: {name: simulated}
  template:
    resources: {cpu: "32", memory: 128Gi}
    gpus: {model: NVIDIA L4, count: 4, memory: 24Gi}
    TAINTS
  maxSize: 2
"""


def job(**asked: object) -> TraceJob:
    return TraceJob(**({"name": "a", "at": 0.0, "gpus": 1} | asked))  # type: ignore[arg-type]


def why(fleet: SimulatedFleet, one: TraceJob) -> str:
    found = impossible_jobs([one], fleet, PodOptions(share_of=fleet.share_of))
    return found[0].why if found else ""


@pytest.mark.parametrize(
    ("one", "said"),
    [
        pytest.param(job(gpus=8, models=("H100",)), "", id="fits-by-its-short-name"),
        pytest.param(job(models=("H100", "H200")), "", id="one-of-two-models"),
        pytest.param(job(pods=2, gpus=8), "", id="a-gang-on-the-whole-fleet"),
        pytest.param(job(gpus=9), "wants 9 of nvidia.com/gpu, the node has 8", id="more-gpus-than-a-node-has"),
        pytest.param(job(models=("L40S",)), "GpuModelMismatch: L40S asked", id="a-model-nobody-has"),
        pytest.param(job(cpu_milli=500_000), "of cpu, the node has 96", id="too-many-cores"),
        pytest.param(job(gpu_memory=200 << 30), "GpuMemory", id="more-memory-than-a-gpu-has"),
        pytest.param(job(pods=3, gpus=8), "room for 2 of its 3 pods", id="a-gang-larger-than-the-fleet"),
    ],
)
def test_two_nodes_of_eight(one: TraceJob, said: str) -> None:
    found = why(read_fleet(["2*8xH100"]), one)
    assert said in found
    assert bool(said) == bool(found)


@pytest.mark.parametrize(
    ("taints", "one", "said"),
    [
        pytest.param("", job(gpus=4), "", id="could-be-bought"),
        pytest.param("", job(pods=2, gpus=4), "", id="a-gang-could-be-bought"),
        pytest.param("", job(pods=3, gpus=4), "room for 2 of its 3 pods", id="maxSize-is-in-the-way"),
        pytest.param("taints: [{key: team, value: a, effect: NoSchedule}]", job(), "team", id="a-taint"),
    ],
)
def test_pools_that_may_buy(taints: str, one: TraceJob, said: str, tmp_path: Path) -> None:
    path = tmp_path / "pool.yaml"
    path.write_text(POOL.replace("TAINTS", taints))
    assert said in why(read_fleet([str(path)]), one)
    assert bool(said) == bool(why(read_fleet([str(path)]), one))


def test_they_are_left_out_and_named_by_kind() -> None:
    jobs = (job(name="ok"), *(job(name=f"big-{n}", gpus=9) for n in range(5)))
    found = possible(Workload(jobs=jobs), read_fleet(["1*8xL4"]), PodOptions())
    assert [one.name for one in found.jobs] == ["ok"]
    assert found.impossible_pods == 5
    (sentence,) = found.impossible
    assert sentence.startswith("big-0, big-1, big-2 and 2 more (9 GPUs): ")


def test_a_workload_of_such_jobs_alone_is_refused() -> None:
    with pytest.raises(UserError, match=r"no job of jobs\.csv can ever run on this fleet: a"):
        possible(Workload(jobs=(job(gpus=9),), name="jobs.csv"), read_fleet(["1*8xL4"]), PodOptions())
