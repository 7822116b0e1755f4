"""Disruption budgets while a plan is made: charged node by node, never below zero."""

import pytest

from tests.decide.draining.fleets import NOW, Told, answer, going, node, planned, pod, staying
from tests.decide.preemption.fleets import a_budget
from ullage.decide.draining.inputs import FRESH, DrainPlan, DrainPolicy, PlannerMemory
from ullage.model.draining import RecentEviction
from ullage.model.fact_event import ObjectKey
from ullage.model.node import Taint
from ullage.model.units import Instant

BUDGET = ObjectKey("n", "web")
WEB = {"app": "web"}
ROOMY = (node("z", 50), pod("z", "z", cpu=26))


def test_each_candidate_is_charged_and_later_ones_find_less() -> None:
    fleet: list[Told] = [*map(node, "abc"), *(pod(f"p{name}", name, labels=WEB) for name in "abc")]
    plan = planned(*fleet, *ROOMY, a_budget("web", "web", 2))
    assert list(going(plan)) == ["a", "b"]
    assert staying(plan)["c"] == "NotEnoughPdb"
    assert answer(plan, "c").pod == ObjectKey("n", "pc")
    assert plan.budgets_left == {BUDGET: 0}


def test_a_node_that_needs_more_than_is_left_stays_unless_its_pods_may_go_in_turn() -> None:
    fleet: list[Told] = [
        node("a"),
        node("b"),
        pod("p", "a", labels=WEB),
        pod("q", "a", labels=WEB),
        pod("r", "b", cpu=2),
    ]
    budget = a_budget("web", "web", 1)
    plan = planned(*fleet, *ROOMY, budget)
    assert (going(plan), staying(plan)["a"]) == ({"b": {"r": "z"}}, "NotEnoughPdb")
    assert plan.budgets_left == {BUDGET: 1}
    in_turn = planned(*fleet, *ROOMY, budget, policy=DrainPolicy(in_turn=True))
    assert list(going(in_turn)) == ["b", "a"]
    assert in_turn.budgets_left == {BUDGET: 0}


def test_in_turn_is_for_one_node_at_a_time() -> None:
    fleet: list[Told] = [
        part for n in "ab" for part in (node(n), pod(f"p{n}", n, labels=WEB), pod(f"q{n}", n, labels=WEB))
    ]
    plan = planned(*fleet, *ROOMY, a_budget("web", "web", 1), policy=DrainPolicy(in_turn=True))
    assert (list(going(plan)), staying(plan)["b"]) == (["a"], "NotEnoughPdb")


def test_nodes_being_removed_are_charged_and_not_asked() -> None:
    fleet: list[Told] = [
        node("a"),
        node("gone"),
        pod("p", "a", labels=WEB),
        pod("q", "gone", labels=WEB),
        pod("r", "gone", labels=WEB),
    ]
    plan = planned(*fleet, *ROOMY, a_budget("web", "web", 1), removing={"gone"})
    assert staying(plan)["a"] == "NotEnoughPdb"
    assert plan.budgets_left == {BUDGET: 0}


def test_a_node_whose_pods_have_no_place_is_not_charged() -> None:
    plan = planned(node("a"), pod("p", "a", labels=WEB), a_budget("web", "web", 1))
    assert (staying(plan), plan.budgets_left) == ({"a": "NoPlaceToMovePods"}, {BUDGET: 1})


def since(plan: DrainPlan) -> dict[str, float]:
    return dict(plan.memory.since or {})


def test_nodes_wait_for_a_budget_together_and_not_one_after_the_other() -> None:
    fleet: list[Told] = [*map(node, "abc"), *(pod(f"p{name}", name, labels=WEB) for name in "abc")]
    first = planned(*fleet, *ROOMY, a_budget("web", "web", 1))
    assert (list(going(first)), since(first)) == (["a"], {"a": NOW, "b": NOW, "c": NOW})
    spent = planned(*fleet, *ROOMY, a_budget("web", "web", 0), memory=first.memory, now=NOW + 60)
    assert (list(going(spent)), since(spent)) == ([], {"a": NOW, "b": NOW, "c": NOW})
    removing = planned(*fleet, *ROOMY, a_budget("web", "web", 1), memory=first.memory, removing={"a"}, now=NOW + 60)
    assert (list(going(removing)), since(removing)) == ([], {"a": NOW, "b": NOW, "c": NOW})


@pytest.mark.parametrize(
    ("facts", "budget"),
    [
        pytest.param([], 0, id="a-budget-that-allows-nothing"),
        pytest.param([pod("q", "a", labels=WEB)], 1, id="more-pods-than-it-ever-allows"),
        pytest.param([pod("q", "a", cpu=40)], 1, id="no-place"),
    ],
)
def test_no_time_begins_for_a_node_that_cannot_go_alone_either(facts: list[Told], budget: int) -> None:
    plan = planned(node("a", 99), pod("p", "a", labels=WEB), *facts, *ROOMY, a_budget("web", "web", budget))
    assert "a" not in since(plan)


def test_a_spent_budget_is_the_last_thing_said_of_a_node() -> None:
    """It passes, and other reasons do not: who has one is no candidate any more."""
    fleet: list[Told] = [node("a"), pod("p", "a", labels=WEB), *ROOMY]
    first = planned(*fleet, a_budget("web", "web", 1))
    stays = pod("q", "a", owner=None)
    plan = planned(*fleet, stays, a_budget("web", "web", 0), memory=first.memory)
    assert (staying(plan)["a"], since(plan)) == ("NotReplicated", {})


@pytest.mark.parametrize("since_then", [pytest.param(True, id="remembered"), pytest.param(False, id="after-a-restart")])
def test_a_loop_in_which_nothing_can_go_costs_no_timer(since_then: bool) -> None:
    """Who was evicted and has no place does not need this node: there is no room for it on it either."""
    taint = Taint("gpu.scheduling/drain-candidate", str(int(NOW - 500)), "PreferNoSchedule")
    large = RecentEviction(pod=pod("e", "gone", cpu=99), at=NOW)
    memory = PlannerMemory(since={"a": Instant(NOW - 500)}) if since_then else FRESH
    plan = planned(node("a", taints=(taint,)), node("b"), evictions=[large], memory=memory)
    assert staying(plan) == dict.fromkeys("ab", "EvictedPodsHaveNoPlace")
    assert since(plan) == {"a": NOW - 500}
