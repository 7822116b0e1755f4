"""Whether a removal is still right, by what is there now."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.decide.draining.fleets import NOW, node, pod
from tests.decide.preemption.fleets import a_budget
from ullage.decide.draining.inputs import RuleSwitches
from ullage.decide.draining.pdb import RemainingPdbTracker
from ullage.decide.draining.recheck import Recheck
from ullage.decide.draining.rules import DrainContext
from ullage.model.drain_promise import RemovalPlan
from ullage.model.draining import DRAINING_TAINT, PodMove, RemoveNode, ScaleDownReason
from ullage.model.fact_event import ObjectKey
from ullage.model.node import Node, Taint
from ullage.model.pod import Owner, Phase, Pod
from ullage.model.pod_marks import SafeToEvict

DRAINING = Taint(DRAINING_TAINT, "5", "NoSchedule")
KNOWN = pod("known", "a")
ACTION = RemoveNode(node="a", reason=ScaleDownReason.UNDERUTILIZED, evict=(PodMove(KNOWN.key, "b"),), why="a test")
PROMISE = RemovalPlan(action=ACTION, uid="a", pods={KNOWN.key: KNOWN.uid})


def a_judge(*budgets: Any) -> Recheck:
    known = RemainingPdbTracker({budget.key: budget for budget in budgets})
    return Recheck(lambda: DrainContext(RuleSwitches(), known, {}, frozenset(), NOW))


@pytest.mark.parametrize(
    ("found", "setback"),
    [
        pytest.param(node("a", taints=(DRAINING,)), "", id="as-it-was"),
        pytest.param(None, "NodeChanged", id="gone"),
        pytest.param(node("b", taints=(DRAINING,)), "NodeChanged", id="another-of-its-name"),
        pytest.param(node("a"), "NodeChanged", id="not-tainted-any-more"),
        pytest.param(node("a", taints=(DRAINING,), kept=True), "Protected", id="protected"),
    ],
)
def test_of_the_node(found: Node | None, setback: str) -> None:
    objection = a_judge().node(PROMISE, found)
    assert ("" if objection is None else objection.setback.value) == setback


@pytest.mark.parametrize(
    ("facts", "setback"),
    [
        pytest.param({}, "Occupied", id="a-pod-nobody-knew"),
        pytest.param({"phase": Phase.PENDING}, "Occupied", id="one-that-has-not-begun"),
        pytest.param({"deleting": True}, "Occupied", id="one-that-is-going"),
        pytest.param({"owner": Owner("DaemonSet", "d", "u")}, "", id="a-daemon"),
        pytest.param({"marks": {"mirror": True}}, "", id="a-mirror"),
        pytest.param({"phase": Phase.SUCCEEDED}, "", id="one-that-is-over"),
        pytest.param({"deleting": True, "marks": {"deleted_at": 1.0}}, "", id="one-that-should-have-been-gone"),
        pytest.param({"owner": None, "marks": {"safe_to_evict": SafeToEvict.NO}}, "Occupied", id="one-that-must-stay"),
    ],
)
@pytest.mark.parametrize("evicted", [False, True], ids=["first-look", "last-look"])
def test_of_somebody_who_came(facts: dict[str, Any], setback: str, evicted: bool) -> None:
    objection = a_judge().pods(PROMISE, [pod("new", "a", **facts)], evicted=evicted)
    assert ("" if objection is None else objection.setback.value) == setback


@pytest.mark.parametrize(
    ("facts", "first", "last"),
    [
        pytest.param({}, "", "PodsRemain", id="as-it-was"),
        pytest.param({"uid": "another"}, "Occupied", "Occupied", id="another-of-its-name"),
        pytest.param({"marks": {"safe_to_evict": SafeToEvict.NO}}, "PodMustStay", "PodsRemain", id="unsafe-by-now"),
        pytest.param(
            {"marks": {"safe_to_evict": SafeToEvict.ON_COMPLETION}}, "PodMustStay", "PodsRemain", id="to-finish-by-now"
        ),
        pytest.param(
            {"deleting": True, "marks": {"safe_to_evict": SafeToEvict.NO}}, "", "PodsRemain", id="going-by-itself"
        ),
        pytest.param({"phase": Phase.FAILED}, "", "", id="over-by-now"),
    ],
)
def test_of_somebody_who_was_known(facts: dict[str, Any], first: str, last: str) -> None:
    facts = dict(facts)
    uid = facts.pop("uid", KNOWN.uid)
    found = replace(pod("known", "a", **facts), uid=uid)
    looks = [a_judge().pods(PROMISE, [found], evicted=evicted) for evicted in (False, True)]
    assert ["" if one is None else one.setback.value for one in looks] == [first, last]


def test_a_budget_that_is_spent_is_only_a_reason_to_wait() -> None:
    judge = a_judge(a_budget("web", "web", 0))
    found = pod("known", "a", labels={"app": "web"})
    assert judge.pods(PROMISE, [found]) is None
    assert judge.leaving(PROMISE, [found]) == [found]


def test_who_leaves_and_who_follows() -> None:
    daemon, mirror = pod("d", "a", owner=Owner("DaemonSet", "d", "u")), pod("m", "a", marks={"mirror": True})
    over = pod("over", "a", phase=Phase.SUCCEEDED, marks={"restart": "Never"})
    judge, here = a_judge(), [KNOWN, daemon, mirror, over]
    assert judge.leaving(PROMISE, here) == [KNOWN]
    assert judge.following(here) == [daemon]


@pytest.mark.parametrize(
    ("allowed", "gone", "holds"),
    [(2, 0, True), (1, 0, False), (1, 1, True), (0, 2, True)],
    ids=["it-lasts", "it-does-not", "one-is-gone-already", "all-are-gone"],
)
def test_a_gang_goes_whole_or_not_at_all(allowed: int, gone: int, holds: bool) -> None:
    members = [pod(name, "a", labels={"app": "gang"}) for name in ("x", "y")]
    gang = ObjectKey("n", "gang")
    promise = RemovalPlan(
        action=ACTION, uid="a", pods={one.key: one.uid for one in members}, gangs={gang: tuple(m.key for m in members)}
    )
    there: dict[ObjectKey, Pod] = {one.key: one for one in members[gone:]}
    objection = a_judge().gangs(promise, there, [a_budget("gang", "gang", allowed)])
    assert (objection is None) is holds
    assert objection is None or objection.setback.value == "PodMustStay"


@pytest.mark.parametrize(
    ("allowed", "marks", "refused"),
    [
        pytest.param(0, {}, True, id="spent"),
        pytest.param(1, {}, False, id="lasts-for-one-at-a-time"),
        pytest.param(0, {"deleting": True}, False, id="one-that-is-going"),
    ],
)
def test_who_is_sure_to_be_refused(allowed: int, marks: dict[str, Any], refused: bool) -> None:
    pods = [pod(name, "a", labels={"app": "web"}, **marks) for name in ("p", "q")]
    heard, now = a_budget("web", "web", 5), a_budget("web", "web", allowed)
    assert a_judge(heard).guarded(pods) == ["n"]
    assert a_judge().guarded(pods) == []
    objection = a_judge(heard).budgets(pods, [now])
    assert ("" if objection is None else objection.setback.value) == ("NotEnoughPdb" if refused else "")
