"""Buying for many waiting pods, in memory: CPU seconds of one plan, and nodes bought beside what is needed at least.

Deciding only: an empty cluster, one NodeProvisioner of nodes with 8 GPUs, and pods that wait. Cluster Autoscaler's own
benchmark packs 51,000 pods of six shapes in 6.3 CPU seconds, measured once on a machine like this; it is not run here,
the promise is in seconds. The least number of nodes is the configuration LP's, over all patterns there are.
"""

import gc
import time
from collections.abc import Sequence
from math import log
from random import Random

from bench.record import Figure
from ullage.decide.provisioning.packing import pack
from ullage.decide.provisioning.patterns import NodeType, Pattern
from ullage.decide.provisioning.planner import FleetFacts, plan_fleet
from ullage.decide.provisioning.vm_demand import pending_and_vms_in_need
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.claim import DeviceRequest, TopologyMode
from ullage.model.fact_event import Added
from ullage.model.provisioner import GpuTemplate, NodeTemplate, PoolThresholds, Provisioner
from ullage.model.shape import Shape, asking_for
from ullage.model.units import Bytes, Instant
from ullage.state.snapshot import ClusterSnapshot
from ullage.testing.exact_packing import bounds
from ullage.testing.facts import pod_fact

PODS, FEW = 51_000, 5_000
RUNS = 3
SECONDS, GROWTH, ABOVE_BOUND, ABOVE_EXACT = 1.5, 1.1, 1.02, 1.0
"""Promised: CPU seconds of one plan, its growth as a power of the pods, nodes beside the LP, nodes above an optimum."""
MIXES, SMALL = 10, 200

CORES, MEMORY, GPUS = 96_000, 768 << 30, 8
SHAPES: Sequence[tuple[int, int, int]] = (
    (1, 4, 32),
    (1, 8, 64),
    (2, 16, 128),
    (3, 20, 160),
    (4, 32, 256),
    (5, 40, 320),
)
"""GPUs, cores and GiB of memory of a pod."""
NOW = Instant(1_000_000.0)


def run(scale: float) -> list[Figure]:
    """One plan at two sizes, ten mixes beside the LP, small ones beside an exact solver."""
    pods, few = max(int(PODS * scale), 600), max(int(FEW * scale), 60)
    many_seconds, few_seconds = _best(pods), _best(few)
    power = log(many_seconds / few_seconds) / log(pods / few)
    return [
        Figure(f"scale-up plan, {pods:,} pods of six shapes", "CPU s", many_seconds, SECONDS * scale, "promised", 1.0),
        Figure(f"growth from {few:,} pods, as a power", "", max(power, 0.01), GROWTH, "at most", 1.0),
        Figure(
            f"nodes beside the configuration LP, worst of {MIXES}", "x", _worst_mix(pods), ABOVE_BOUND, "at most", 1.0
        ),
        Figure(f"nodes above an exact solver, worst of {SMALL}", "", _worst_small(), ABOVE_EXACT, "at most", 1.0),
    ]


def _best(pods: int) -> float:
    return min(measure(pods) for _ in range(RUNS))


def measure(pods: int) -> float:
    """CPU seconds of one plan for so many pods in a cluster of which everything has been heard."""
    print(f"   {pods:,} pods", flush=True)
    assigner = PodAssigner(waiting(pods))
    fleet = FleetFacts(provisioners=[a_pool()])
    gc.collect()
    began = time.process_time()
    plan = plan_fleet(assigner.engine, fleet, pending_and_vms_in_need(assigner), now=NOW)
    spent = time.process_time() - began
    if plan.demand.unmet or len(plan.demand.chosen) != pods:
        raise RuntimeError(f"{len(plan.demand.chosen)} of {pods} pods are bought for")
    return spent


def waiting(pods: int) -> ClusterSnapshot:
    """Pods that wait, of six shapes in turn."""
    snapshot = ClusterSnapshot()
    shapes = [
        asking_for(
            Shape(requests=(("cpu", cores * 1000), ("memory", (memory << 30) * 1000))),
            DeviceRequest(count=gpus, topology=TopologyMode.IGNORE),
        )
        for gpus, cores, memory in SHAPES
    ]
    for number in range(pods):
        pod = pod_fact(
            f"pod-{number:06}",
            namespace="team",
            uid=f"uid-{number}",
            created=Instant(NOW - 60.0),
            shape=shapes[number % len(shapes)],
        )
        snapshot.apply(Added(pod.key, pod))
    return snapshot


def a_pool() -> Provisioner:
    gpus = GpuTemplate(model="NVIDIA H100 80GB HBM3", count=GPUS, memory=Bytes(80 << 30))
    return Provisioner(
        name="pool",
        uid="uid-pool",
        generation=1,
        template=NodeTemplate(gpus=gpus, resources={"cpu": CORES, "memory": MEMORY * 1000}),
        thresholds=PoolThresholds(max_size=10**6),
        provider="simulated",
    )


def _worst_mix(pods: int) -> float:
    """Nodes over the LP bound, at worst of some random mixes of six shapes with three resources."""
    worst = 1.0
    for seed in range(MIXES):
        random = Random(seed)
        sizes = tuple(
            (random.choice((250, 500, 1000, 2000, 3000, 5000)), random.randint(3_000, 40_000), random.randint(20, 300))
            for _ in SHAPES
        )
        node = NodeType(cost=1.0, limit=10**6, room=(8_000, CORES, 768), sizes=sizes)
        weights = [random.random() for _ in SHAPES]
        demands = [int(pods * weight / sum(weights)) + 1 for weight in weights]
        worst = max(worst, _nodes(demands, node) / bounds(demands, node)[0])
    return worst


def _worst_small() -> float:
    """Nodes above an exact solver, at worst of many small problems. Never quite 0, which has no ratio."""
    worst = 0.0
    for seed in range(SMALL):
        random = Random(seed)
        room = (8_000, CORES)
        sizes = tuple(
            tuple(max(1, int(random.uniform(0.08, 0.7) * have)) for have in room) for _ in range(random.randint(2, 7))
        )
        node = NodeType(cost=1.0, limit=10**6, room=room, sizes=sizes)
        demands = [random.randint(1, 6) for _ in sizes]
        worst = max(worst, _nodes(demands, node) - bounds(demands, node)[1])
    return max(worst, 0.01)


def _nodes(demands: Sequence[int], node: NodeType) -> int:
    packing = pack(demands, (node,), (), _adds_up)
    if any(packing.unserved):
        raise RuntimeError(f"{sum(packing.unserved)} pods are without a node")
    return sum(one.count for one in packing.filled)


def _adds_up(_: int, pattern: Pattern) -> Pattern:
    return pattern
