"""Whether a removal is still right, by what is there now."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.decide.draining.fleets import NOW, node, pod
from tests.decide.preemption.fleets import a_budget
from ullage.decide.draining.inputs import RuleSwitches
from ullage.decide.draining.pdb import RemainingPdbTracker
from ullage.decide.draining.recheck import EvictionOrder, RecheckStage, RemovalFacts, budget_namespaces, recheck
from ullage.decide.draining.rules import DrainContext
from ullage.model.draining import DRAINING_TAINT, PodMove, ScaleDownReason
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import RemoveNode
from ullage.model.node import Node, Taint
from ullage.model.pod import Owner, Phase
from ullage.model.pod_marks import SafeToEvict
from ullage.model.removal_plan import PlanViolation, RemovalPlan
from ullage.model.units import Instant

DRAINING = Taint(DRAINING_TAINT, "5", "NoSchedule")
KNOWN = pod("known", "a")
ACTION = RemoveNode(node="a", reason=ScaleDownReason.UNDERUTILIZED, evict=(PodMove(KNOWN.key, "b"),), why="a test")
PLAN = RemovalPlan(intent=ACTION, uid="a", pods={KNOWN.key: KNOWN.uid})


NODE = node("a", taints=(DRAINING,))
EVICTION, DELETION = RecheckStage.BEFORE_EVICTION, RecheckStage.BEFORE_DELETION


def a_context(*budgets: Any) -> DrainContext:
    """What was observed."""
    known = RemainingPdbTracker({budget.key: budget for budget in budgets})
    return DrainContext(RuleSwitches(), known, {}, frozenset(), Instant(0.0))


def checked(stage: RecheckStage, plan: RemovalPlan = PLAN, **facts: Any) -> EvictionOrder | PlanViolation:
    found: dict[str, Any] = {"context": a_context(), "node": NODE} | facts
    return recheck(plan, RemovalFacts(**found), stage, now=NOW)


def failure(stage: RecheckStage, plan: RemovalPlan = PLAN, **facts: Any) -> str:
    answer = checked(stage, plan, **facts)
    return answer.failure.value if isinstance(answer, PlanViolation) else ""


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
@pytest.mark.parametrize("stage", [RecheckStage.TAINTED, EVICTION, DELETION], ids=lambda stage: stage.name)
def test_of_the_node(found: Node | None, setback: str, stage: RecheckStage) -> None:
    assert failure(stage, node=found) == setback


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
@pytest.mark.parametrize("stage", [EVICTION, DELETION], ids=["first-look", "last-look"])
def test_of_somebody_who_came(facts: dict[str, Any], setback: str, stage: RecheckStage) -> None:
    assert failure(stage, pods=(pod("new", "a", **facts),)) == setback


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
    assert [failure(stage, pods=(found,)) for stage in (EVICTION, DELETION)] == [first, last]


@pytest.mark.parametrize("stage", [EVICTION, DELETION], ids=["first-look", "last-look"])
def test_somebody_who_is_about_to_come_keeps_the_node(stage: RecheckStage) -> None:
    assert failure(stage, incoming=ObjectKey("n", "next")) == "Occupied"


def test_a_pod_without_a_place_elsewhere_is_not_evicted() -> None:
    lost = ObjectKey("n", "known")
    assert failure(EVICTION, pods=(KNOWN,), unplaceable=lost) == "NoPlaceToMovePods"
    assert failure(EVICTION, unplaceable=lost) == "", "it has left by itself"


def test_the_first_violation_is_told() -> None:
    """What cannot be mended comes before what passes."""
    facts: dict[str, Any] = {"pods": (KNOWN, pod("new", "a")), "incoming": KNOWN.key, "unplaceable": KNOWN.key}
    assert failure(EVICTION, node=None, **facts) == "NodeChanged"
    assert failure(EVICTION, **facts) == "Occupied"
    answer = checked(EVICTION, **facts)
    assert isinstance(answer, PlanViolation)
    assert answer.pod == ObjectKey("n", "new")


def test_a_budget_that_was_spent_when_last_observed_is_only_a_reason_to_wait() -> None:
    found = pod("known", "a", labels={"app": "web"})
    context = a_context(a_budget("web", "web", 0))
    assert checked(EVICTION, context=context, pods=(found,)) == EvictionOrder(evict=(found,))


def test_who_leaves_and_who_follows() -> None:
    daemon, mirror = pod("d", "a", owner=Owner("DaemonSet", "d", "u")), pod("m", "a", marks={"mirror": True})
    over = pod("over", "a", phase=Phase.SUCCEEDED, marks={"restart": "Never"})
    here = (mirror, KNOWN, daemon, over)
    assert checked(EVICTION, pods=here) == EvictionOrder(evict=(KNOWN,), daemons=(daemon,))
    assert checked(DELETION, pods=(daemon, mirror, over)) == EvictionOrder(daemons=(daemon,))


@pytest.mark.parametrize(
    ("allowed", "gone", "holds"),
    [(2, 0, True), (1, 0, False), (1, 1, True), (0, 2, True)],
    ids=["it-lasts", "it-does-not", "one-is-gone-already", "all-are-gone"],
)
@pytest.mark.parametrize("elsewhere", [False, True], ids=["on-one-node", "on-two-nodes"])
def test_a_gang_goes_whole_or_not_at_all(allowed: int, gone: int, holds: bool, elsewhere: bool) -> None:
    members = [pod("x", "a", labels={"app": "gang"}), pod("y", "b" if elsewhere else "a", labels={"app": "gang"})]
    gang = ObjectKey("n", "gang")
    plan = RemovalPlan(
        intent=ACTION, uid="a", pods={one.key: one.uid for one in members}, gangs={gang: tuple(m.key for m in members)}
    )
    there = members[gone:]
    answer = checked(
        EVICTION,
        plan,
        pods=tuple(one for one in there if one.node == "a"),
        gang_members={one.key: one for one in there if one.node != "a"},
        budgets=(a_budget("gang", "gang", allowed),),
    )
    if holds:
        assert answer == EvictionOrder(evict=tuple(there))
    else:
        assert isinstance(answer, PlanViolation)
        assert answer.failure.value == "PodMustStay"


def test_a_member_elsewhere_that_must_stay_keeps_the_whole_gang() -> None:
    unsafe = pod("y", "b", marks={"safe_to_evict": SafeToEvict.NO})
    plan = RemovalPlan(intent=ACTION, uid="a", pods={KNOWN.key: KNOWN.uid, unsafe.key: unsafe.uid})
    assert failure(EVICTION, plan, pods=(KNOWN,), gang_members={unsafe.key: unsafe}) == "PodMustStay"


@pytest.mark.parametrize(
    ("allowed", "marks", "refused"),
    [
        pytest.param(0, {}, True, id="spent"),
        pytest.param(1, {}, False, id="lasts-for-one-at-a-time"),
        pytest.param(0, {"deleting": True}, False, id="one-that-is-going"),
    ],
)
@pytest.mark.parametrize("stage", [RecheckStage.BEFORE_TAINT, EVICTION], ids=["not-begun", "nobody-evicted"])
def test_who_is_sure_to_be_refused(allowed: int, marks: dict[str, Any], refused: bool, stage: RecheckStage) -> None:
    pods = tuple(pod(name, "a", labels={"app": "web"}, **marks) for name in ("p", "q"))
    plan = RemovalPlan(intent=ACTION, uid="a", pods={one.key: one.uid for one in pods})
    observed, now = a_context(a_budget("web", "web", 5)), a_budget("web", "web", allowed)
    assert budget_namespaces(plan, pods, observed) == ["n"]
    assert budget_namespaces(plan, pods, a_context()) == []
    assert failure(stage, plan, context=observed, pods=pods, budgets=(now,)) == ("NotEnoughPdb" if refused else "")
