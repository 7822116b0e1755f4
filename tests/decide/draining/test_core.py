"""DrainCore: events that could change a plan, and outcomes that come while one is made."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from tests.decide.draining.fleets import NOW, Told, a_picture, node, pod
from tests.decide.preemption.fleets import an_inventory
from ullage.config.settings import DrainingSettings
from ullage.decide.draining.core import DrainCore, DrainDecision, can_change_plan
from ullage.decide.draining.scope import ScopeInputs
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.draining import ScaleDownReason, WorkloadReplicas
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Synced, Updated
from ullage.model.intents import RemoveNode
from ullage.model.node import Node
from ullage.model.outcomes import NodeNotRemoved, RemovalFailure
from ullage.model.pod import Phase
from ullage.model.stepper import finish
from ullage.model.units import Instant, Seconds, Steady

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


def a_core(*facts: Told) -> DrainCore:
    return DrainCore(
        PodAssigner(a_picture(*facts).snapshot),
        DrainingSettings(scale_down_unneeded_time=Seconds(60.0), max_scale_down_parallelism=1, max_drain_parallelism=1),
    )


def decided(core: DrainCore, now: float) -> DrainDecision:
    scope = core.scope(ScopeInputs(unmanaged=True), now=Instant(now))
    return finish(core.plan((), scope, now=Instant(now)))


def failed(name: str, failure: RemovalFailure) -> NodeNotRemoved:
    intent = RemoveNode(node=name, reason=ScaleDownReason.EMPTY, evict=(), why="a test")
    return NodeNotRemoved(intent=intent, uid=name, failure=failure, detail="a test")


@pytest.mark.parametrize(
    ("failure", "kept"),
    [
        pytest.param(RemovalFailure.OCCUPIED, False, id="it-is-needed"),
        pytest.param(RemovalFailure.BUDGET_SPENT, True, id="it-only-waits-for-a-budget"),
    ],
)
@pytest.mark.parametrize("moment", ["between-plans", "while-a-plan-is-made"])
def test_the_timer_of_a_node_that_was_not_removed_starts_anew(failure: RemovalFailure, kept: bool, moment: str) -> None:
    core = a_core(node("a"), node("b"))
    decided(core, NOW)
    (plan,) = decided(core, NOW + 60).removals
    core.begin(plan)
    if moment == "between-plans":
        core.settle(failed(plan.node, failure), now=Instant(NOW + 61), steady=Steady(0.0))
        decided(core, NOW + 61)
    else:
        steps = core.plan((), core.scope(ScopeInputs(unmanaged=True), now=Instant(NOW + 61)), now=Instant(NOW + 61))
        next(steps)
        core.settle(failed(plan.node, failure), now=Instant(NOW + 61), steady=Steady(0.0))
        finish(steps)
    assert (plan.node in core.unneeded_since) is kept
    assert bool(core.tracker.failed()) is not kept


def test_a_plan_is_made_of_the_facts_at_its_beginning() -> None:
    core = a_core(node("a"), pod("p", "a", cpu=1), node("b"), pod("q", "b", cpu=1))
    decided(core, NOW)
    steps = core.plan((), core.scope(ScopeInputs(unmanaged=True), now=Instant(NOW + 60)), now=Instant(NOW + 60))
    next(steps)
    for key, was in list(core.snapshot.state.pods.items()):
        core.snapshot.apply(Deleted(key, was))
    core.snapshot.apply(Deleted(ObjectKey("", "a"), node("a")))
    (plan,) = finish(steps).removals
    assert (plan.node, list(plan.pods)) == ("a", [ObjectKey("n", "p")]), "the recheck finds what has changed"


def test_a_plan_that_is_given_up_leaves_the_last_one() -> None:
    core = a_core(node("a"), node("b"))
    before = decided(core, NOW)
    steps = core.plan((), core.scope(ScopeInputs(unmanaged=True), now=Instant(NOW + 60)), now=Instant(NOW + 60))
    next(steps)
    steps.close()
    assert core.decided is before


class NotB:
    """A filter of somebody's own."""

    def pod_destination_candidates(self, nodes: Sequence[Node]) -> Sequence[Node]:
        return [one for one in nodes if one.name != "b"]

    def scale_down_candidates(self, nodes: Sequence[Node]) -> Sequence[Node]:
        return [one for one in nodes if one.name != "c"]


def test_filters_of_ones_own_narrow_what_labels_leave() -> None:
    facts: list[Told] = [*(node(name, labels={"old": "yes"}) for name in "abc"), node("d"), pod("p", "a", cpu=1)]
    settings = DrainingSettings(candidate_labels={"old": "yes"})
    core = DrainCore(PodAssigner(a_picture(*facts).snapshot), settings, [NotB()])
    plan = decided(core, NOW).plan
    assert {one.node: [move.to for move in one.moves] for one in plan.removable} == {"b": [], "a": ["d"]}
    assert {one.node: one.reason.value for one in plan.unremovable} == {"c": "NotACandidate", "d": "NotACandidate"}
