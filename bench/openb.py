"""The public openb traces of a GPU cluster, and the load the published packing protocol makes of one.

Trace and protocol: Weng et al., "Beware of Fragmentation", USENIX ATC 2023, and its simulator's repository
(hkust-adsl/kubernetes-scheduler-simulator, `data/csv` and `experiments`).
"""

import csv
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ullage.decide.placement.score.gpu_scorer import GpuDemand
from ullage.decide.placement.score.workload_mix import TypicalDemands, typical_of
from ullage.model.device import MILLI_GPU

ARRIVING = 1.3
"""GPUs asked for by the whole load, as a part of those in the cluster."""
DEVICES = 8


@dataclass(frozen=True, slots=True)
class Pod:
    """One line of a pod list."""

    demand: GpuDemand
    memory: int

    @property
    def gpu_milli(self) -> int:
        return self.demand.gpus * max(self.demand.milli)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The nodes with GPUs, as columns."""

    cpu: NDArray[np.int64]
    memory: NDArray[np.int64]
    gpus: NDArray[np.int64]
    model: NDArray[np.int64]
    models: tuple[str, ...]

    @property
    def gpu_milli(self) -> int:
        return int(self.gpus.sum()) * MILLI_GPU

    @property
    def capacity(self) -> NDArray[np.float64]:
        """GPUs of each model."""
        gpus: NDArray[np.float64] = np.zeros(len(self.models))
        np.add.at(gpus, self.model, self.gpus)
        return gpus


def read_cluster(folder: Path) -> Cluster:
    """The node list without CPU-only nodes."""
    with (folder / "openb_node_list_gpu_node.csv").open() as file:
        lines = list(csv.DictReader(file))
    models = tuple(sorted({line["model"] for line in lines}))
    return Cluster(
        cpu=np.array([int(line["cpu_milli"]) for line in lines]),
        memory=np.array([int(line["memory_mib"]) for line in lines]),
        gpus=np.array([int(line["gpu"]) for line in lines]),
        model=np.array([models.index(line["model"]) for line in lines]),
        models=models,
    )


def read_pods(folder: Path, trace: str, models: tuple[str, ...]) -> list[Pod]:
    """A pod list, in its order."""
    with trace_file(folder, trace).open() as file:
        return [_pod(line, models) for line in csv.DictReader(file)]


def trace_file(folder: Path, trace: str) -> Path:
    return folder / f"openb_pod_list_{trace}.csv"


def typical_pods(pods: list[Pod]) -> TypicalDemands:
    """The mix of a trace: what the published policy, too, is told."""
    return typical_of({demand: float(count) for demand, count in Counter(pod.demand for pod in pods).items()})


def load(pods: list[Pod], cluster: Cluster, seed: int) -> list[Pod]:
    """Shuffled; then pods drawn again at random until enough GPUs are asked for, or dropped until few enough are."""
    chance = np.random.default_rng(seed)
    order = [pods[place] for place in chance.permutation(len(pods))]
    asked, target = sum(pod.gpu_milli for pod in order), ARRIVING * cluster.gpu_milli
    if asked > target:
        while asked > target:
            asked -= order.pop(int(chance.integers(len(order)))).gpu_milli
        return order
    while True:
        pod = pods[int(chance.integers(len(pods)))]
        if asked + pod.gpu_milli > target:
            return order
        asked += pod.gpu_milli
        order.append(pod)


def _pod(line: dict[str, str], models: tuple[str, ...]) -> Pod:
    gpus = int(line["num_gpu"])
    share = min(int(float(line["gpu_milli"] or 0)), MILLI_GPU) if gpus else 0
    named = {name for name in (line.get("gpu_spec") or "").split("|") if name}
    milli = tuple(share if not named or model in named else 0 for model in models)
    # Pods that ask for no CPU count as asking for 100m, as in kube-scheduler's scores.
    return Pod(GpuDemand(int(float(line["cpu_milli"])) or 100, gpus, milli), int(float(line["memory_mib"])))
