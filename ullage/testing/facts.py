"""Facts of nodes and pods, for tests: a builder mentions only what matters and leaves the rest to defaults.

`builders` has the same objects as JSON, as the API server has them.
"""

from typing import Any

from ullage.model.fact_event import ObjectKey
from ullage.model.node import Node
from ullage.model.pod import Phase, Pod
from ullage.model.shape import Shape, interned
from ullage.model.units import Instant


def node_fact(name: str, **facts: Any) -> Node:
    """A node that is ready, without labels or taints, and offers nothing."""
    plain: dict[str, Any] = {"uid": name, "created": Instant(0.0), "ready": True, "unschedulable": False}
    return Node(**{"name": name, "labels": {}, "taints": (), "allocatable": {}, **plain, **facts})


def pod_fact(name: str, *, namespace: str = "default", node: str = "", **facts: Any) -> Pod:
    """A pod that asks for nothing: running if it has a node, pending if not."""
    plain: dict[str, Any] = {"created": Instant(0.0), "deleting": False, "gated": False, "priority": 0, "labels": {}}
    given: dict[str, Any] = {
        "uid": f"uid-{name}",
        "phase": Phase.RUNNING if node else Phase.PENDING,
        "scheduler": "gpu-scheduler",
        "shape": interned(Shape()),
        "owner": None,
        **plain,
        **facts,
    }
    return Pod(key=ObjectKey(namespace, name), node=node, **given)
