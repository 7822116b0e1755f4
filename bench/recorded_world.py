"""Recording of one simulated world: every write to the store that is a placement, a purchase or a removal.

`bench.compare_runs` runs this file in two trees, so it uses only what both have: the simulated server's listeners, and
plain manifests. Texts are left out: a message may change its words, a decision may not change. Calls take the same time
each: with random ones, one more call of any loop would move all later writes, and with them decisions.
"""

import hashlib
import random
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from ullage.model.provisioner import MICROS, GpuTemplate, NodeTemplate
from ullage.sim.apiserver.server import SimulatedApiServer
from ullage.sim.kubelet.timings import DURATION
from ullage.sim.world.run import simulate
from ullage.sim.world.spec import Arrival, FleetNode, WorldSpec

if TYPE_CHECKING:
    from ullage.model.units import Bytes, Micros  # older trees do not have them

GIB = 1 << 30
PODS = 45
DAY_SECONDS = 20_000.0
JsonObject = dict[str, Any]


def recorded(seed: int) -> list[str]:
    """Lines of the world of one seed: time, user, verb, object, and the facts of it that decisions change."""
    lines: list[str] = []
    plain = SimulatedApiServer.__init__

    def listening(server: SimulatedApiServer, *args: Any, **more: Any) -> None:
        plain(server, *args, **more)
        for place, facts in _FACTS.items():
            server.listen(place, _writer(lines, server, place, facts))

    setattr(SimulatedApiServer, "__init__", listening)  # noqa: B010 - both trees make their server themselves
    try:
        result = simulate(_world(seed), list(_arrivals(seed)), until=DAY_SECONDS)
    finally:
        setattr(SimulatedApiServer, "__init__", plain)  # noqa: B010
    lines.append(f"end {result.ended_at:.3f} violation {result.violation is not None}")
    return lines


def _writer(lines: list[str], server: SimulatedApiServer, place: str, facts: Any) -> Any:
    def write(change: Any) -> None:
        before = None if change.before is None else facts(change.before.obj)
        after = None if change.deleted else facts(change.after.obj)
        if before != after:
            meta = change.after.obj["metadata"]
            name = f"{meta.get('namespace', '')}/{meta['name']}"
            lines.append(f"{server.now():.3f} {server.caller} {place} {name} {before} -> {after}")

    return write


def _pod(obj: JsonObject) -> Any:
    notes = obj["metadata"].get("annotations") or {}
    given = (notes.get("gpu.scheduling/allocated"), notes.get("gpu.scheduling/visible-devices"))
    return obj["spec"].get("nodeName"), given, bool(obj["metadata"].get("deletionTimestamp"))


def _node(obj: JsonObject) -> Any:
    return sorted(taint["key"] for taint in obj["spec"].get("taints") or ())


_FACTS = {
    "pods": _pod,
    "nodes": _node,
}


def _world(seed: int) -> WorldSpec:
    chance = random.Random(f"world/{seed}")
    template = NodeTemplate(
        gpus=GpuTemplate(model="H100", count=8, memory=cast("Bytes", 80 * GIB), islands=chance.choice((1, 2, 4))),
        resources={"cpu": 96_000, "memory": 768 * GIB * 1000},
        price=cast("Micros", 16 * MICROS),
    )
    nodes = tuple(FleetNode(name=f"gpu-{number}", template=template) for number in range(chance.randint(2, 4)))
    drained = {"consolidation": {"policy": "Drain", "unneededTime": "5m"}}
    return WorldSpec(
        seed=seed,
        latency=type(WorldSpec().latency)(default=0.004, spread=0.0, watch=0.01),
        nodes=nodes,
        objects=(_pool("emptied", {}), _pool("drained", drained), *(_priority(value) for value in (10, 100))),
    )


def _pool(name: str, more: JsonObject) -> JsonObject:
    spec: JsonObject = {
        "provider": {"name": "aws", "parameters": {"bootSeconds": "100", "gpuSeconds": "20"}},
        "template": {
            "resources": {"cpu": "96", "memory": "768Gi"},
            "gpus": {"model": "H100", "count": 8, "memory": "80Gi", "islands": 2},
            "pricePerHour": "16",
        },
        "minSize": 0,
        "maxSize": 3,
        "minGPUUtilizationPercent": 50,
        "scaleDownDelay": "5m",
    }
    meta = {"name": name}
    return {"apiVersion": "gpu.scheduling/v1", "kind": "NodeProvisioner", "metadata": meta, "spec": spec | more}


def _priority(value: int) -> JsonObject:
    meta = {"name": f"priority-{value}"}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value}


def _arrivals(seed: int) -> Iterator[Arrival]:
    chance = random.Random(f"arrivals/{seed}")
    for number in range(PODS):
        at, name = chance.uniform(0, DAY_SECONDS / 2), f"p{number}"
        seconds, priority = chance.uniform(60, DAY_SECONDS / 2), chance.choice((0, 0, 0, 10, 100))
        match chance.randrange(8):
            case 0 | 1:
                share = {"count": 1, "exclusivity": "Shared", "memory": f"{chance.choice((10, 30, 40))}Gi"}
                objects = [_gpu_claim(name, {"devices": share}), _job(name, 0, seconds, priority, claim=name)]
            case 2:
                gang = {"devices": {"count": chance.choice((2, 4))}, "gangRef": name, "gangMinMember": 3}
                members = [f"{name}-{member}" for member in range(3)]
                objects = [
                    one
                    for each in members
                    for one in (_gpu_claim(each, gang), _job(each, 0, seconds, priority, claim=each))
                ]
            case 3:
                near = {"devices": {"count": chance.choice((1, 2, 4))}, "topology": {"mode": "Required"}}
                objects = [_gpu_claim(name, near), _job(name, 0, seconds, priority, claim=name)]
            case _:
                objects = [_job(name, chance.choice((0, 1, 1, 2, 4, 8)), seconds, priority)]
        leaves = at + chance.uniform(30, 3_000) if chance.random() < 0.2 else None
        yield Arrival(at=at, objects=tuple(objects), leaves_at=leaves, again=chance.random() < 0.5)


def _gpu_claim(name: str, spec: JsonObject) -> JsonObject:
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "gpu.scheduling/v1", "kind": "GpuClaim", "metadata": meta, "spec": spec}


def _job(name: str, gpus: int, seconds: float, priority: int, claim: str = "") -> JsonObject:
    amounts = {"cpu": "2", "memory": "4Gi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    notes = {DURATION: f"{seconds:.3f}"} | ({"gpu.scheduling/claim": claim} if claim else {})
    container = {"name": "main", "image": "example.test/main:v1", "resources": {"requests": amounts, "limits": amounts}}
    spec: JsonObject = {"schedulerName": "gpu-scheduler", "restartPolicy": "Never", "containers": [container]}
    if priority:
        spec["priorityClassName"] = f"priority-{priority}"
    meta = {"name": name, "namespace": "default", "annotations": notes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


if __name__ == "__main__":
    for one in sys.argv[1:]:
        found = recorded(int(one))
        sys.stdout.write(f"# seed {one} {hashlib.sha256(chr(10).join(found).encode()).hexdigest()}\n")
        sys.stdout.writelines(f"{line}\n" for line in found)
        sys.stdout.flush()
