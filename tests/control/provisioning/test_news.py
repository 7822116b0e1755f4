"""What makes the provisioner plan anew, and what does not."""

from typing import Any

import pytest
from msgspec.structs import replace

from ullage.decide.provisioning.core import is_news
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Updated
from ullage.model.node import Node
from ullage.model.pod import Phase, Pod
from ullage.model.pod_marks import PodDrainInfo
from ullage.model.shape import Shape, interned

KEY = ObjectKey("default", "p")
POD = Pod(
    key=KEY,
    uid="u",
    created=0.0,
    node="n",
    phase=Phase.PENDING,
    deleting=False,
    gated=False,
    scheduler="gpu-scheduler",
    priority=0,
    labels={},
    shape=interned(Shape(namespace="default")),
    owner=None,
)
NODE = Node(name="n", uid="n", created=0.0, ready=True, unschedulable=False, labels={}, taints=(), allocatable={})


def changed(**fields: Any) -> FactEvent[Pod]:
    return Updated(KEY, POD, replace(POD, **fields))


CASES: dict[str, tuple[FactEvent[Any], bool]] = {
    "a pod came": (Added(KEY, POD), True),
    "a pod went": (Deleted(KEY, POD), True),
    "it started": (changed(phase=Phase.RUNNING, resource_version="2"), False),
    "somebody wrote on it": (changed(resource_version="2"), False),
    "it became ready": (changed(marks=PodDrainInfo(ready=True)), False),
    "it finished": (changed(phase=Phase.SUCCEEDED), True),
    "it is leaving": (changed(deleting=True), True),
    "it was found unschedulable": (changed(unplaced="Unschedulable"), True),
    "a node is made free for it": (changed(nominated="n"), True),
    "a node changed": (Updated(ObjectKey("", "n"), NODE, replace(NODE, ready=False)), True),
}


@pytest.mark.parametrize(("event", "news"), CASES.values(), ids=CASES)
def test_news(event: FactEvent[Any], news: bool) -> None:
    assert is_news(event) is news
