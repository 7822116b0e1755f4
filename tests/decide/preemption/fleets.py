"""Small fleets of GPU nodes, said in a line: who is where, with which GPUs and what priority."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ullage.decide.placement.engine import PlacementEngine
from ullage.model.claim import DeviceRequest, TopologyMode
from ullage.model.device import Inventory
from ullage.model.disruption_budget import PodDisruptionBudget
from ullage.model.fact_event import Added, ObjectKey
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.resources import GPU
from ullage.model.selector import Operator, Requirement, Selector
from ullage.model.shape import Shape, asking_for, interned
from ullage.model.units import Instant
from ullage.state.cluster import Fact
from ullage.state.snapshot import ClusterSnapshot
from ullage.testing.checks.audit import drifted, row_facts, shared_facts
from ullage.testing.facts import device_fact, inventory_fact, node_fact, pod_fact

NOW = Instant(1000.0)
GIB = 1 << 30
H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"
WHOLE = DeviceRequest(topology=TopologyMode.IGNORE)


def a_node(name: str, gpus: int = 4, **facts: Any) -> Node:
    offers = {"cpu": 64_000, "memory": 10**12, "pods": 110_000, GPU: 1000 * gpus}
    return node_fact(name, **{"allocatable": offers, **facts})


def an_inventory(node: str, *islands: int, model: str = H100, at: float = NOW) -> Inventory:
    """GPUs in islands of these sizes."""
    names = [f"i{number}" for number, size in enumerate(islands) for _ in range(size)]
    devices = (
        device_fact(gpu, uuid=f"{node}-{gpu}", model=model, island=island, bandwidth=450)
        for gpu, island in enumerate(names)
    )
    return inventory_fact(node, *devices, reported_at=at)


def leased(name: str, *islands: int, model: str = H100, **facts: Any) -> tuple[Node, Inventory]:
    """A node whose exact GPUs are ours to give."""
    return a_node(name, sum(islands), **facts), an_inventory(name, *islands, model=model)


def a_pod(name: str, *, on: str = "", gpus: Sequence[int] | int = (), priority: int = 0, **facts: Any) -> Pod:
    """A pod on these GPUs of a node; or one that asks for so many, as `ask` says."""
    ids = () if isinstance(gpus, int) else tuple(gpus)
    count = gpus if isinstance(gpus, int) else len(gpus)
    cpu, ask = facts.pop("cpu", 0), facts.pop("ask", WHOLE)
    shape = facts.pop("shape", Shape(requests=(("cpu", cpu),) if cpu else ()))
    if count:
        shape = asking_for(
            shape, DeviceRequest(**{f: getattr(ask, f) for f in ask.__struct_fields__} | {"count": count})
        )
    more = {"namespace": "n", "scheduler": "", **facts}
    return pod_fact(name, node=on, priority=priority, shape=interned(shape), gpu_ids=ids, **more)


def a_budget(name: str, app: str, allowed: int, **facts: Any) -> PodDisruptionBudget:
    """For pods with this label `app`."""
    selector = Selector((Requirement("app", Operator.IN, (app,)),))
    plain: dict[str, Any] = {"current": True, "current_healthy": 9, "desired_healthy": 1, "evict_unhealthy": False}
    key = ObjectKey("n", name)
    return PodDisruptionBudget(key=key, uid=name, selector=selector, disruptions_allowed=allowed, **{**plain, **facts})


def fleet(*facts: Fact | tuple[Fact, ...]) -> PlacementEngine:
    """A picture in which all of this was heard."""
    snapshot = ClusterSnapshot()
    for fact in flattened(facts):
        snapshot.apply(Added(key_of(fact), fact))
    return PlacementEngine(snapshot)


def flattened(facts: Iterable[Fact | tuple[Fact, ...]]) -> list[Fact]:
    return [one for fact in facts for one in (fact if isinstance(fact, tuple) else (fact,))]


def key_of(fact: Fact) -> ObjectKey:
    if isinstance(fact, Inventory):
        return ObjectKey("", fact.node)
    return fact.key if hasattr(fact, "key") else ObjectKey("", fact.name)


def digest(snapshot: ClusterSnapshot) -> dict[str, Any]:
    """All that is counted, to compare with later."""
    assert not list(drifted(snapshot))
    rows = {name: row_facts(snapshot, name) for name in sorted(snapshot.columns.rows)}
    return rows | shared_facts(snapshot) | {"pods": dict(snapshot.pods)}


def columns_of(snapshot: ClusterSnapshot) -> list[np.ndarray[Any, Any]]:
    columns = snapshot.columns
    return [columns.used.copy(), columns.pods.copy(), columns.gpus.free.copy(), columns.gpus.held.copy()]
