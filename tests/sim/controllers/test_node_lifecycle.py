"""Silent nodes, and pods that must leave them."""

from typing import Any

import msgspec
import pytest

from tests.sim.controllers.things import at, merged, node, pod, said, seconds
from ullage.kube.objects.node import KubeTaint
from ullage.sim.controllers.node_health import (
    NOT_READY,
    UNREACHABLE,
    NodeLastSeen,
    TaintEviction,
    plan_node_health,
    plan_taint_eviction,
    seconds_per_eviction,
)
from ullage.sim.controllers.objects import ActorNode

NOW = at(1000)


def being(status: str, *taints: tuple[str, str]) -> ActorNode:
    marks = [{"key": key, "effect": effect} for key, effect in taints]
    return node(conditions=[{"type": "Ready", "status": status}], taints=marks)


BOTH = ((UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute"))


def test_a_node_not_heard_of_for_long_is_unknown() -> None:
    early = plan_node_health(being("True"), NodeLastSeen(at(970)), [], TaintEviction.NOW, now=NOW)
    late = plan_node_health(being("True"), NodeLastSeen(at(950)), [], TaintEviction.NOW, now=NOW)
    assert (said(early), seconds(early.wake_at)) == ([], 1020)
    conditions = {each["type"]: each for each in merged(late, "node-a")["status"]["conditions"]}
    assert (conditions["Ready"]["status"], conditions["Ready"]["reason"]) == ("Unknown", "NodeStatusUnknown")
    assert conditions["DiskPressure"]["status"] == "Unknown"


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        pytest.param(being("Unknown"), {UNREACHABLE}, id="unknown-is-unreachable"),
        pytest.param(being("False"), {NOT_READY}, id="false-is-not-ready"),
        pytest.param(being("Unknown", (NOT_READY, "NoExecute")), {UNREACHABLE}, id="one-takes-the-others-place"),
        pytest.param(being("True", *BOTH), set(), id="well-again"),
        pytest.param(being("True", *BOTH, ("mine", "NoSchedule")), {"mine"}, id="other-taints-stay"),
        pytest.param(being("Unknown", *BOTH), None, id="already-there"),
        pytest.param(being("True"), None, id="nothing-to-do"),
    ],
)
def test_taints(subject: ActorNode, expected: set[str] | None) -> None:
    plan = plan_node_health(subject, NodeLastSeen(at(999)), [], TaintEviction.NOW, now=NOW)
    if expected is None:
        assert said(plan) == []
    else:
        taints = merged(plan, "node-a")["spec"]["taints"]
        assert {taint["key"] for taint in taints} == expected
        assert len(taints) == len({(taint["key"], taint["effect"]) for taint in taints})


def test_its_pods_no_longer_count_as_ready() -> None:
    plan = plan_node_health(
        being("Unknown", *BOTH), NodeLastSeen(at(0)), [pod("a"), pod("b", ready=False)], TaintEviction.NOW, now=NOW
    )
    assert said(plan) == ["merge pods/a/status"]


@pytest.mark.parametrize(
    ("subject", "emptying", "expected"),
    [
        pytest.param(
            being("Unknown"), TaintEviction.LATER, ["NoSchedule"], id="until-its-turn-it-only-takes-nobody-new"
        ),
        pytest.param(being("Unknown"), TaintEviction.NOW, ["NoSchedule", "NoExecute"], id="then-it-is-emptied"),
        pytest.param(
            being("Unknown", *BOTH), TaintEviction.NEVER, ["NoSchedule"], id="where-all-are-ill-nobody-is-driven-out"
        ),
        pytest.param(
            being("Unknown", (NOT_READY, "NoExecute")),
            TaintEviction.LATER,
            ["NoSchedule", "NoExecute"],
            id="one-that-drives-out-already-needs-no-turn",
        ),
    ],
)
def test_driving_pods_out(subject: ActorNode, emptying: TaintEviction, expected: list[str]) -> None:
    plan = plan_node_health(subject, NodeLastSeen(at(0)), [], emptying, now=NOW)
    assert [taint["effect"] for taint in merged(plan, "node-a")["spec"]["taints"]] == expected


@pytest.mark.parametrize(
    ("well", "ill", "expected"),
    [
        pytest.param(9, 1, 10, id="one-of-ten"),
        pytest.param(1, 2, 10, id="two-are-never-a-catastrophe"),
        pytest.param(3, 7, None, id="most-of-a-small-zone"),
        pytest.param(30, 70, 100, id="most-of-a-large-zone"),
        pytest.param(0, 5, 10, id="a-whole-zone-while-others-are-well"),
    ],
)
def test_how_often_a_node_is_emptied(well: int, ill: int, expected: float | None) -> None:
    assert seconds_per_eviction([being("True")] * well + [being("Unknown")] * ill) == expected


DEADLY = KubeTaint(key=UNREACHABLE, effect="NoExecute")


def bears(seconds_: int | None = None, **more: Any) -> dict[str, Any]:
    toleration = {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute"} | more
    return toleration if seconds_ is None else toleration | {"tolerationSeconds": seconds_}


@pytest.mark.parametrize(
    ("tolerations", "leaves", "wake"),
    [
        pytest.param([], True, None, id="at-once"),
        pytest.param([bears()], False, None, id="never"),
        pytest.param([bears(300)], False, 1290, id="later"),
        pytest.param([bears(10)], True, None, id="now-that-its-time-is-up"),
        pytest.param([bears(0)], True, None, id="no-time-at-all"),
        pytest.param([bears(key="other")], True, None, id="bears-something-else"),
        pytest.param([{"operator": "Exists"}], False, None, id="bears-everything"),
    ],
)
def test_who_must_leave(tolerations: list[dict[str, Any]], leaves: bool, wake: float | None) -> None:
    plan = plan_taint_eviction(pod("a", tolerations=tolerations), [DEADLY], at(990), now=NOW)
    assert (said(plan) == ["merge pods/a/status", "delete pods/a"]) is leaves
    assert seconds(plan.wake_at) == wake


def test_a_taint_that_only_keeps_newcomers_off_drives_nobody_out() -> None:
    closed = msgspec.structs.replace(DEADLY, effect="NoSchedule")
    assert said(plan_taint_eviction(pod("a"), [closed], at(0), now=NOW)) == []
