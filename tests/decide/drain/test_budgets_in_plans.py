"""Disruption budgets while a plan is made: charged node by node, never below zero."""

from tests.decide.drain.fleets import Told, answer, going, node, planned, pod, staying
from tests.decide.preempt.fleets import a_budget
from ullage.decide.drain.facts import DrainPolicy
from ullage.model.event import ObjectKey

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
