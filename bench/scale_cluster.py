"""The large cluster of `bench.scale`: facts as they are heard."""

from ullage.decide.scheduling.core import SchedulerCore
from ullage.model.claim import DeviceRequest, TopologyMode
from ullage.model.device import Device, Inventory
from ullage.model.fact_event import Added, ObjectKey
from ullage.model.node import Node
from ullage.model.pod import Owner, Pod
from ullage.model.resources import GPU
from ullage.model.shape import Shape, asking_for, interned
from ullage.model.units import Bytes, Instant
from ullage.testing.facts import node_fact, pod_fact

NOW = Instant(1000.0)
GPUS = 8
NAMESPACES = 200
OURS = "gpu-scheduler"

_PLAIN = interned(Shape(requests=(("cpu", 4_000), ("memory", 2**33 * 1000)), scored_cpu=4_000))
_OWNER = Owner("ReplicaSet", "rs", "rs")


def node_name(number: int) -> str:
    return f"n{number:05}"


def a_node(name: str) -> Node:
    labels = {"gpu.scheduling/node-kind": "leased", "kubernetes.io/hostname": name}
    offers = {"cpu": 256_000, "memory": 2**50, "pods": 110_000, GPU: GPUS * 1000}
    return node_fact(name, created=Instant(1.0), labels=labels, allocatable=offers)


def an_inventory(name: str) -> Inventory:
    devices = tuple(
        Device(id=gpu, uuid=f"{name}-{gpu}", model="H100", memory=Bytes(80 << 30), island="i0", bandwidth=450)
        for gpu in range(GPUS)
    )
    return Inventory(node=name, reported_at=NOW, devices=devices)


def a_pod(name: str, on: str, *, number: int = 0, gpus: int = 1, ids: tuple[int, ...] = (), priority: int = 0) -> Pod:
    """One that waits for GPUs, or is on a node, with GPUs or without."""
    ask = DeviceRequest(count=gpus, topology=TopologyMode.REQUIRED if gpus > 1 else TopologyMode.IGNORE)
    needs = bool(ids) or not on
    return pod_fact(
        name,
        namespace=f"team-{number % NAMESPACES}",
        uid=name,
        created=Instant(float(number % 977)),
        node=on,
        scheduler=OURS,
        priority=priority,
        labels={"app": f"a{number % 500}"},
        shape=asking_for(interned(Shape(requests=(("cpu", 8_000),))), ask) if needs else _PLAIN,
        owner=_OWNER,
        gpu_ids=ids,
    )


def named(names: int) -> Pod:
    """A pod that asks for resources which exist nowhere."""
    made_up = interned(Shape(requests=tuple(sorted((f"made-up.example/{n}", 1000) for n in range(names)))))
    pod = a_pod("names", "")
    return Pod(**{field: getattr(pod, field) for field in pod.__struct_fields__} | {"shape": made_up})


def large_core(nodes: int, pods_per_node: int) -> SchedulerCore:
    """A core that has heard of all of them. Each GPU is held by one pod; the other pods hold none."""
    core = SchedulerCore({OURS: "fragmentation"})
    names = [node_name(number) for number in range(nodes)]
    for name in names:
        core.apply(Added(ObjectKey("", name), a_node(name)), now=NOW)
        core.apply(Added(ObjectKey("", name), an_inventory(name)), now=NOW)
    for number in range(nodes * pods_per_node):
        place = number % pods_per_node
        ids = (place,) if place < GPUS else ()
        pod = a_pod(f"p{number}", names[number // pods_per_node], number=number, ids=ids)
        core.apply(Added(pod.key, pod), now=NOW)
    return core
