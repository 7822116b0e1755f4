"""What could change a plan, of all that is heard."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.decide.drain.fleets import node, pod
from tests.decide.preempt.fleets import an_inventory
from ullage.control.draining.news import is_news
from ullage.model.drain import Workload
from ullage.model.event import Appeared, Changed, Event, ObjectKey, Synced, Vanished
from ullage.model.pod import Phase

KEY = ObjectKey("n", "x")
POD, NODE, REPORT = pod("p", "a"), node("a"), an_inventory("a", 4)
WEB = Workload(uid="u", kind="ReplicaSet", target=3, current=3)


@pytest.mark.parametrize(
    ("event", "news"),
    [
        pytest.param(Appeared(KEY, POD), True, id="a-pod-comes"),
        pytest.param(Vanished(KEY, POD), True, id="a-pod-goes"),
        pytest.param(Changed(KEY, POD, replace(POD, phase=Phase.FAILED)), True, id="a-pod-fails"),
        pytest.param(Changed(KEY, POD, replace(POD, resource_version="9")), False, id="a-pod-is-written-to"),
        pytest.param(Changed(KEY, NODE, replace(NODE, ready=False)), True, id="a-node-is-not-ready"),
        pytest.param(Changed(KEY, NODE, replace(NODE)), False, id="a-node-is-as-before"),
        pytest.param(Changed(KEY, REPORT, replace(REPORT, reported_at=9.0)), False, id="a-heartbeat"),
        pytest.param(Changed(KEY, REPORT, replace(REPORT, devices=())), True, id="gpus-are-gone"),
        pytest.param(Changed(KEY, WEB, replace(WEB, current=2)), True, id="a-replica-less"),
        pytest.param(Synced("pods"), False, id="everything-was-heard"),
    ],
)
def test_news(event: Event[Any], news: bool) -> None:
    assert is_news(event) is news
