"""What could change a plan, of all that is heard."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.decide.draining.fleets import node, pod
from tests.decide.preemption.fleets import an_inventory
from ullage.decide.draining.core import can_change_plan
from ullage.model.draining import WorkloadReplicas
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Synced, Updated
from ullage.model.pod import Phase

KEY = ObjectKey("n", "x")
POD, NODE, REPORT = pod("p", "a"), node("a"), an_inventory("a", 4)
WEB = WorkloadReplicas(uid="u", kind="ReplicaSet", target=3, current=3)


@pytest.mark.parametrize(
    ("event", "news"),
    [
        pytest.param(Added(KEY, POD), True, id="a-pod-comes"),
        pytest.param(Deleted(KEY, POD), True, id="a-pod-goes"),
        pytest.param(Updated(KEY, POD, replace(POD, phase=Phase.FAILED)), True, id="a-pod-fails"),
        pytest.param(Updated(KEY, POD, replace(POD, resource_version="9")), False, id="a-pod-is-written-to"),
        pytest.param(Updated(KEY, NODE, replace(NODE, ready=False)), True, id="a-node-is-not-ready"),
        pytest.param(Updated(KEY, NODE, replace(NODE)), False, id="a-node-is-as-before"),
        pytest.param(Updated(KEY, REPORT, replace(REPORT, reported_at=9.0)), False, id="a-heartbeat"),
        pytest.param(Updated(KEY, REPORT, replace(REPORT, devices=())), True, id="gpus-are-gone"),
        pytest.param(Updated(KEY, WEB, replace(WEB, current=2)), True, id="a-replica-less"),
        pytest.param(Synced("pods"), False, id="everything-was-heard"),
    ],
)
def test_news(event: FactEvent[Any], news: bool) -> None:
    assert can_change_plan(event) is news
