"""149 days of a public trace with its real times of arrival and departure, all loops on: CPU time and memory of a run.

Once on the trace's own fleet, once its first pods on pools of the same machines, bought and drained as needed; and
what a day costs in which nothing happens. Each runs in a process of its own, on one core.

The trace is not part of the project: name its folder (`data/csv` of hkust-adsl/kubernetes-scheduler-simulator) in
ULLAGE_OPENB.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench.packing import FOLDER
from bench.record import Figure
from ullage.model.provisioner import NodeTemplate
from ullage.sim.fleet.fleet import SimulatedFleet
from ullage.sim.fleet.reading import read_fleet
from ullage.sim.workload.manifests import PodOptions, arrivals
from ullage.sim.workload.reading import read_workload
from ullage.sim.world.run import simulate
from ullage.sim.world.spec import Arrival, WorldSpec
from ullage.sim.world.workload_player import PlayProgress

SECONDS, MEGABYTES = 300.0, 2_048.0
"""Promised at most, of CPU and of memory."""
STARTING = 10.0
"""CPU seconds beside, so that a small part is not judged by how long a world takes to make."""
IDLE_DAYS = 30
PART_OF_POOLS = 0.05
"""Of the trace, on pools: nodes that are bought and drained for each pod cost several times as much."""
NODES, PODS = "openb_node_list_gpu_node.csv", "openb_pod_list_default.csv"
_TOLD_EVERY = 1_000


def run(scale: float) -> list[Figure]:
    """Nothing where the trace is not there."""
    folder = os.environ.get(FOLDER, "")
    if not (Path(folder) / PODS).is_file():
        print(f"   set {FOLDER} to the folder of the trace: {PODS} is not in {folder or 'no folder'}")
        return []
    fixed, idle = (_measured(kind, folder, scale) for kind in ("fixed", "idle"))
    elastic = _measured("elastic", folder, scale * PART_OF_POOLS)
    jobs, fewer = f"{fixed['jobs']:,} pods", f"{elastic['jobs']:,} pods"
    return [
        Figure(
            f"149 days, {jobs}, 1,213 nodes",
            "CPU s",
            fixed["seconds"],
            SECONDS * scale + (STARTING if scale < 1 else 0.0),
            "promised",
            1.0,
        ),
        Figure(f"149 days, {jobs}, 1,213 nodes", "MB", fixed["megabytes"], MEGABYTES, "promised", 1.0),
        Figure(f"the first {fewer} of them, pools", "CPU s", elastic["seconds"]),
        Figure(f"the first {fewer} of them, pools", "MB", elastic["megabytes"]),
        Figure("a day in which nothing happens", "CPU ms", 1000 * idle["seconds"] / IDLE_DAYS),
    ]


def _measured(kind: str, folder: str, scale: float) -> dict[str, Any]:
    command = (sys.executable, "-m", "bench.churn", kind, folder, str(scale))
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measure(kind: str, folder: str, scale: float) -> dict[str, Any]:
    """One run in this process."""
    fleet = read_fleet([str(Path(folder) / NODES)])
    jobs = read_workload(str(Path(folder) / PODS), most=max(1, int(10_000 * scale))).jobs
    coming = arrivals(jobs, PodOptions(ends="clock", share_of=fleet.share_of))
    spec = WorldSpec(seed=1, objects=pools(fleet)) if kind == "elastic" else WorldSpec(seed=1, nodes=fleet.nodes)
    began = time.process_time()
    if kind == "idle":
        simulate(spec, [], until=0.0)
        began, made = time.process_time(), time.process_time() - began
        simulate(spec, [], until=IDLE_DAYS * 86_400.0)
        return {"seconds": max(0.0, time.process_time() - began - made)}
    result = simulate(spec, coming, on_progress=_Telling(kind, coming).told)
    if result.violation is not None:
        raise SystemExit("\n".join((result.violation.breach, *result.violation.story)))
    return {
        "jobs": len(jobs),
        "seconds": time.process_time() - began,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


class _Telling:
    """Prints how far it is, now and then."""

    def __init__(self, kind: str, coming: list[Arrival]) -> None:
        self._kind = kind
        self._last = max(one.leaves_at or one.at for one in coming)
        self._next = _TOLD_EVERY
        self._began = time.process_time()

    def told(self, progress: PlayProgress) -> None:
        if progress.arrived < self._next:
            return
        self._next += _TOLD_EVERY
        days, took = progress.elapsed / 86_400, time.process_time() - self._began
        line = f"   {self._kind}: day {days:5.1f}, {progress.arrived:,} of {progress.expected:,} pods, {took:.0f} CPU s"
        print(line, file=sys.stderr, flush=True)


def pools(fleet: SimulatedFleet) -> tuple[dict[str, Any], ...]:
    """A NodeProvisioner for each kind of node there is, with as many machines."""
    templates = {repr(node.template): node.template for node in fleet.nodes}
    counts = Counter(repr(node.template) for node in fleet.nodes)
    return tuple(_pool(number, templates[kind], counts[kind]) for number, kind in enumerate(sorted(templates)))


def _pool(number: int, template: NodeTemplate, count: int) -> dict[str, Any]:
    gpus = template.gpus
    spec = {
        "provider": {"name": "simulated", "parameters": {"bootSeconds": "180", "gpuSeconds": "20"}},
        "template": {
            "labels": dict(template.labels),
            "resources": {"cpu": f"{template.resources['cpu']}m", "memory": str(template.resources["memory"] // 1000)},
            "gpus": {"model": gpus.model, "count": gpus.count, "memory": str(gpus.memory), "islands": gpus.islands},
            "pricePerHour": str(2 * gpus.count),
        },
        "maxSize": count,
        "minGPUUtilizationPercent": 50,
        "consolidation": {"policy": "Drain"},
    }
    name = f"{gpus.model.lower()}-{gpus.count}-{number}"
    return {"apiVersion": "gpu.scheduling/v1", "kind": "NodeProvisioner", "metadata": {"name": name}, "spec": spec}


if __name__ == "__main__":
    kind, folder, scale = sys.argv[1:]
    print(json.dumps(measure(kind, folder, float(scale))))
