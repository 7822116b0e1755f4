"""Decisions alone, in memory: pods seated per second of CPU time, and how that grows with the cluster.

No API and no writes: the picture, the queue and the decision, as the scheduler's desk uses them. Every figure is from
several runs on fresh clusters, slice by slice the fastest: a shared machine is never faster than it is.
"""

import gc
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

import msgspec

from bench.record import Figure
from ullage.decide.placement.engine import Placement, PlacementEngine
from ullage.model.claim import DeviceRequest, TopologyMode
from ullage.model.device import Device, Inventory
from ullage.model.fact_event import Added, ObjectKey
from ullage.model.node import Node, Taint
from ullage.model.pod import Phase, Pod
from ullage.model.resources import GPU, MILLI
from ullage.model.shape import Shape, asking_for, interned
from ullage.model.shape_terms import Toleration
from ullage.model.units import Bytes, Instant
from ullage.state.queue import SchedulingQueue
from ullage.state.snapshot import ClusterSnapshot

LARGE, SMALL = 5_000, 1_000
GPUS_OF_A_NODE = 8
FEW, MANY = 4, 400
"""Shapes of pods."""
PODS_PER_NODE = 2
RUNS = 3
FEW_PER_SECOND, MANY_PER_SECOND, GROWTH = 10_000.0, 3_000.0, 2.0
"""Promised."""

NOW = Instant(1.0)
SLICE = 100
"""Pods timed together."""

_GIB = 1 << 30
_MODELS = (("NVIDIA H100 80GB HBM3", 80), ("NVIDIA A100-SXM4-40GB", 40), ("NVIDIA L40S", 48))
_ZONE, _POOL = "topology.kubernetes.io/zone", "pool"
_COUNTS = (1, 1, 1, 1, 1, 1, 2, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Measured:
    """One run: how long each slice of pods took."""

    pods: int
    slices: tuple[float, ...]
    refused: int

    @property
    def per_second(self) -> float:
        return self.pods / sum(self.slices)

    def first(self, slices: int) -> "Measured":
        """The pods of the first slices only."""
        return Measured(min(self.pods, slices * SLICE), self.slices[:slices], self.refused)


def fastest(runs: Sequence[Measured]) -> Measured:
    """Each slice as in the run that was fastest there: all runs decide the same, and others slow them down at times."""
    slices = tuple(min(times) for times in zip(*(run.slices for run in runs), strict=True))
    return Measured(runs[0].pods, slices, runs[0].refused)


def run(scale: float) -> list[Figure]:
    """Few shapes, many shapes, and both sizes of cluster."""
    large, small = max(int(LARGE * scale), 50), max(int(SMALL * scale), 10)
    few, many = few_shapes(), many_shapes(MANY)
    pods = PODS_PER_NODE * large
    at_large = _best(large, few, pods)
    at_small = _best(small, few, PODS_PER_NODE * small)
    mixed = _best(large, many, pods)
    mixed_small = _best(small, many, PODS_PER_NODE * small)
    # Small clusters are filled before first sights of shapes and of the mix are paid off: only full size is promised.
    promised = 1.0 if scale >= 1.0 else None
    figures = [
        _speed(f"pods of {FEW} shapes, {large:,} nodes", at_large, FEW_PER_SECOND),
        _speed(f"pods of {len(many)} shapes, {large:,} nodes", mixed, MANY_PER_SECOND),
        _growth(f"cost of a pod of {FEW} shapes", at_small, at_large),
        _growth(f"cost of a pod of {len(many)} shapes", mixed_small, mixed),
    ]
    return [replace(figure, bound=promised) for figure in figures]


def _speed(name: str, measured: Measured, promised: float) -> Figure:
    return Figure(name, "pods/s", measured.per_second, promised, "promised", more_is_better=True)


def _growth(name: str, small: Measured, large: Measured) -> Figure:
    """How many times more the same pods cost in the large cluster, beside the most they may."""
    same = large.first(len(small.slices))
    return Figure(f"{name}, growth", "x", small.per_second / same.per_second, GROWTH, "at most")


def _best(nodes: int, shapes: Sequence[Shape], pods: int) -> Measured:
    print(f"   {len(shapes)} shapes on {nodes:,} nodes", flush=True)
    return fastest([decide_all(nodes, shapes, pods) for _ in range(RUNS)])


def decide_all(nodes: int, shapes: Sequence[Shape], pods: int) -> Measured:
    """Seat so many pods on a fresh cluster, of which everything has been heard and looked at once."""
    snapshot = a_cluster(nodes)
    waiting = some_pods(shapes, pods)
    engine = PlacementEngine(snapshot)
    engine.place(next(iter(waiting.values())), now=NOW)
    gc.collect()
    return decide(engine, waiting)


def decide(engine: PlacementEngine, waiting: Mapping[ObjectKey, Pod]) -> Measured:
    """Until nobody waits whose turn it could be."""
    queue = SchedulingQueue()
    for pod in waiting.values():
        queue.add(pod.key, priority=pod.priority, now=NOW)
    refused = decided = 0
    slices = [time.process_time()]
    while (key := queue.pop(now=NOW)) is not None:
        answer = engine.place(waiting[key], now=NOW)
        if isinstance(answer, Placement):
            engine.commit(waiting[key], answer)
            queue.remove(key)
        else:
            queue.add_unschedulable(key, answer.wakes_on, now=NOW)
            refused += 1
        decided += 1
        if decided % SLICE == 0 or decided == len(waiting):
            slices.append(time.process_time())
    return Measured(len(waiting), tuple(after - before for before, after in pairwise(slices)), refused)


def a_cluster(nodes: int) -> ClusterSnapshot:
    """Three models of GPU in three zones; a fifth of the nodes is kept for those who tolerate it."""
    snapshot = ClusterSnapshot()
    for number in range(nodes):
        name = f"node-{number:05d}"
        model, memory = _MODELS[(0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2)[number % 11]]
        labels = {_ZONE: f"zone-{number % 3}", _POOL: f"pool-{number % 7}", "gpu.scheduling/node-kind": "leased"}
        taints = (Taint("dedicated", "research", "NoSchedule"),) if number % 5 == 4 else ()
        room = {"cpu": 96 * MILLI, "memory": 768 * _GIB * MILLI, "pods": 110 * MILLI, GPU: GPUS_OF_A_NODE * MILLI}
        node = Node(
            name=name,
            uid=name,
            created=Instant(0.0),
            ready=True,
            unschedulable=False,
            labels=labels,
            taints=taints,
            allocatable=room,
        )
        devices = tuple(
            Device(
                id=gpu,
                uuid=f"GPU-{name}-{gpu}",
                model=model,
                memory=Bytes(memory * _GIB),
                island=f"nv{gpu // 4}",
                bandwidth=450,
            )
            for gpu in range(GPUS_OF_A_NODE)
        )
        snapshot.apply(Added(ObjectKey("", name), node))
        snapshot.apply(Added(ObjectKey("", name), Inventory(node=name, reported_at=Instant(0.0), devices=devices)))
    return snapshot


def few_shapes() -> list[Shape]:
    """The mixed load of the throughput benchmark: one, two, four and eight GPUs."""
    return [_shape(count, 4 * count, 32 * count) for count in (1, 2, 4, 8)]


def many_shapes(count: int, seed: int = 7) -> list[Shape]:
    """All different: CPU, memory, GPUs, their model, zones and pools, tolerations."""
    rng = Random(seed)
    shapes: dict[Shape, None] = {}
    while len(shapes) < count:
        gpus = rng.choice(_COUNTS)
        shape = _shape(gpus, gpus * rng.choice((1, 2, 3, 4, 6, 8, 10)), gpus * rng.choice((4, 8, 16, 24, 32, 48, 64)))
        if rng.random() < 0.5:
            shape = asking_for(shape, _ask(rng, gpus))
        selector = ((_ZONE, f"zone-{rng.randrange(3)}"),) if rng.random() < 0.3 else ()
        if rng.random() < 0.1:
            selector = ((_POOL, f"pool-{rng.randrange(7)}"), *selector)
        tolerations = (Toleration(key="dedicated", value="research"),) if rng.random() < 0.4 else ()
        shapes[_with(shape, selector, tolerations)] = None
    return list(shapes)


def _ask(rng: Random, gpus: int) -> DeviceRequest:
    model = rng.choice(("", "", "H100", "A100", "L40S"))
    islands = (TopologyMode.PREFERRED, TopologyMode.REQUIRED) if gpus <= 4 else (TopologyMode.IGNORE,)
    return DeviceRequest(count=gpus, model=model, topology=rng.choice(islands))


def _shape(gpus: int, cores: int, gib: int) -> Shape:
    requests = (("cpu", cores * MILLI), ("memory", gib * _GIB * MILLI), (GPU, gpus * MILLI))
    return interned(Shape(requests=requests, scored_cpu=cores * MILLI, scored_memory=gib * _GIB * MILLI, containers=1))


def _with(shape: Shape, selector: tuple[tuple[str, str], ...], tolerations: tuple[Toleration, ...]) -> Shape:
    return interned(msgspec.structs.replace(shape, node_selector=selector, tolerations=tolerations))


def some_pods(shapes: Sequence[Shape], count: int, seed: int = 11) -> dict[ObjectKey, Pod]:
    """Pods of these shapes by chance, the smaller ones more often where there are few."""
    rng = Random(seed)
    weights = (70, 15, 10, 5) if len(shapes) == FEW else (1,) * len(shapes)
    made: dict[ObjectKey, Pod] = {}
    for number, shape in enumerate(rng.choices(shapes, weights, k=count)):
        key = ObjectKey("default", f"pod-{number:06d}")
        made[key] = Pod(
            key=key,
            uid=key.name,
            created=Instant(0.0),
            node="",
            phase=Phase.PENDING,
            deleting=False,
            gated=False,
            scheduler="gpu-scheduler",
            priority=0,
            labels={"app": f"app-{number % 50}"},
            shape=shape,
            owner=None,
        )
    return made
