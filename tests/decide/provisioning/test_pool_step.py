"""Stage two: one kind of action, in the right order, never past a bound."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.decide.provisioning.pools import DELAY, PoolStory, a_node, a_provisioner, nodes
from ullage.decide.provisioning.pool_size import PoolSize, evaluate
from ullage.decide.provisioning.pool_step import PoolStep, PoolStepKind, PurchaseTerms, next_step
from ullage.model.intents import ScaleUp, TaintForDeletion, TerminateInstance, Untaint
from ullage.model.provisioner import (
    BackOff,
    CloudFailure,
    Consolidation,
    ConsolidationPolicy,
    PoolNode,
    PoolThresholds,
    Provisioner,
    Purchase,
)
from ullage.model.units import Instant

AT_ONCE = PurchaseTerms()


def asked(
    provisioner: Provisioner, pool: list[PoolNode], *, now: float = 0.0, wanted: int = 0, buy: PurchaseTerms = AT_ONCE
) -> PoolStep:
    return next_step(
        provisioner, pool, evaluate(pool, provisioner.thresholds, wanted=wanted), now=Instant(now), buy=buy
    )


def test_nothing_is_done_while_paused() -> None:
    assert asked(a_provisioner(paused=True), nodes(1, 9)) == PoolStep(kind=PoolStepKind.NO_ACTION, why="paused")


NEVER_CAME = "instance i-lost did not register as a node with GPUs within bootDeadline (900 s)"
WANTED = "scale up by 9: pending pods fit no existing or upcoming node"


def test_a_recommendation_is_worked_out_and_marked() -> None:
    step = asked(a_provisioner(recommend_only=True), nodes(8, 4))
    assert (step.kind, len(step.actions), step.recommended) == (PoolStepKind.TAINT_FOR_DELETION, 2, True)


def test_what_never_came_is_given_up_before_anything_else() -> None:
    lost = a_node("lost", registered=False, failed_to_register=True)
    step = asked(a_provisioner(), [*nodes(1, 0), lost], wanted=4)
    assert step.actions == (TerminateInstance(node="", instance="i-lost", why=NEVER_CAME, lost=True),)


def test_a_machine_whose_node_was_deleted_is_given_up_in_other_words() -> None:
    (action,) = asked(
        a_provisioner(), [a_node("gone", registered=False, failed_to_register=True, departed=True)]
    ).actions
    assert isinstance(action, TerminateInstance)
    assert action.departed
    assert action.why == "the Node of instance i-gone is gone, and none came back within 300 s"


def test_each_action_says_its_own_why() -> None:
    """A pool too large for what is in use and too small for who waits: each step says what it is about."""
    pool = [*nodes(1, 1), a_node("odd", delete_after=5.0), a_node("old", delete_after=9.0)]
    limits = a_provisioner(min_size=6)
    spare = asked(limits, pool, wanted=2)
    assert (spare.kind, spare.why) == (PoolStepKind.UNTAINT, spare.actions[0].why)
    assert "scale up" not in spare.why
    (bought,) = asked(a_provisioner(min_size=3), nodes(1, 0)).actions
    assert bought.why == "scale up by 2 to minSize 3"


def test_a_cloud_that_asked_to_be_left_alone_is_asked_to_delete_nothing_until_then() -> None:
    pool = [*nodes(4, 0), a_node("due", delete_after=1.0)]
    lost = [a_node("lost", registered=False, failed_to_register=True)]
    provisioner = a_provisioner(min_utilization_percent=100)
    for some, kind in ((pool, PoolStepKind.TERMINATE_INSTANCE), (lost, PoolStepKind.RELEASE_INSTANCES)):
        evaluation = evaluate(some, provisioner.thresholds)
        held = next_step(provisioner, some, evaluation, now=Instant(10.0), deletes_at=Instant(40.0))
        assert (held.kind, held.wake_at) == (PoolStepKind.NO_ACTION, 40.0)
        assert next_step(provisioner, some, evaluation, now=Instant(40.0), deletes_at=Instant(40.0)).kind is kind


def test_a_taint_of_a_wrong_clock_is_due_when_its_seconds_have_passed() -> None:
    pool = [*nodes(4, 0), a_node("due", delete_after=1.0, due_at=70.0)]
    provisioner = a_provisioner(min_utilization_percent=100)
    assert (asked(provisioner, pool, now=10.0).kind, asked(provisioner, pool, now=10.0).wake_at) == (
        PoolStepKind.NO_ACTION,
        70.0,
    )
    assert asked(provisioner, pool, now=70.0).kind is PoolStepKind.TERMINATE_INSTANCE


@pytest.mark.parametrize(
    ("facts", "goes"),
    [
        pytest.param({}, True, id="as-after-a-crash"),
        pytest.param({"given_up_at": 61.0}, False, id="its-grace-is-not-over"),
        pytest.param({"delete_after": 61.0}, False, id="not-due"),
        pytest.param({"protected": True}, False, id="protected"),
        pytest.param({"draining": True}, False, id="the-drain-loop-has-it"),
        pytest.param({"unlisted": False}, False, id="nobody-watched-the-lists"),
    ],
)
@pytest.mark.parametrize("needed", [False, True], ids=["not-needed", "as-many-are-needed"])
def test_a_node_without_an_instance_goes_also_where_none_would(facts: dict[str, Any], goes: bool, needed: bool) -> None:
    plain: dict[str, Any] = {"instance": "", "unlisted": True, "given_up_at": 60.0, "delete_after": 60.0}
    pool = [*nodes(2, 0), a_node("ghost", **(plain | facts))]
    step = asked(a_provisioner(min_size=3 if needed else 0), pool, now=60.0)
    found = [action for action in step.actions if isinstance(action, TerminateInstance)]
    assert [(one.node, one.instance, one.gone) for one in found] == ([("ghost", "", True)] if goes else [])


def test_a_node_without_an_instance_keeps_its_pool_from_nothing() -> None:
    """One that never had GPUs, and one that is due and cannot be deleted, as with a finalizer."""
    bare = a_node("bare", instance="", upcoming=True, failed_to_register=True)
    ghost = a_node("ghost", instance="", unlisted=True, given_up_at=60.0, delete_after=60.0)
    assert (
        asked(a_provisioner(max_size=9), [bare, ghost, *nodes(2, 0)], now=60.0, wanted=3).kind is PoolStepKind.SCALE_UP
    )
    step = asked(a_provisioner(), [bare, ghost, *nodes(1, 3)], now=60.0)
    assert step.kind is PoolStepKind.TAINT_FOR_DELETION
    assert {action.node for action in step.actions if isinstance(action, TaintForDeletion)} <= {
        node.name for node in nodes(1, 3)
    }


def test_a_node_without_an_instance_is_spared_for_nobody() -> None:
    ghost = a_node("ghost", instance="", unlisted=True, given_up_at=90.0, delete_after=9.0)
    pool = [*nodes(4, 0), a_node("due", delete_after=5.0), ghost]
    step = asked(a_provisioner(min_size=5), pool, now=60.0)
    assert [action.node for action in step.actions if isinstance(action, Untaint)] == ["due"]


def test_a_doomed_node_with_a_pod_on_it_is_spared_whatever_its_time_says() -> None:
    pool = [*nodes(1, 0), a_node("late", used=1, delete_after=1.0)]
    assert asked(a_provisioner(), pool, now=DELAY).actions == (Untaint(node="late", why="a pod is on it or will be"),)


def test_those_that_would_go_last_are_spared_first() -> None:
    marked_for_deletion = [a_node(f"d{place}", delete_after=100.0 + place) for place in range(4)]
    step = asked(a_provisioner(min_utilization_percent=60), [*nodes(4, 0), *marked_for_deletion])
    assert [action.node for action in step.actions if isinstance(action, Untaint)] == ["d2", "d3"]


@pytest.mark.parametrize(
    "reason",
    [
        pytest.param({"upcoming": True}, id="coming"),
        pytest.param({"registered": False, "upcoming": True}, id="without-a-node"),
        pytest.param({"protected": True}, id="protected"),
        pytest.param({"draining": True}, id="being-drained"),
    ],
)
def test_who_is_not_tainted(reason: dict[str, bool]) -> None:
    pool = [a_node("a", **reason), a_node("b")]
    step = asked(a_provisioner(), pool)
    assert step.actions == (TaintForDeletion(node="b", delete_after=Instant(DELAY), why=step.why),)


def test_where_nodes_are_drained_none_is_tainted_and_those_that_were_are_spared() -> None:
    drained = replace(a_provisioner(), consolidation=Consolidation(policy=ConsolidationPolicy.DRAIN))
    assert asked(drained, nodes(1, 9)).actions == ()
    step = asked(drained, [*nodes(1, 3), a_node("late", delete_after=1.0)], now=DELAY)
    assert [type(action) for action in step.actions] == [Untaint]


def test_a_purchase_whose_answer_was_lost_is_asked_for_again_and_no_other() -> None:
    provisioner = a_provisioner(purchase=Purchase(serial=6, count=3, since=Instant(0.0)), purchases=7)
    (action,) = asked(provisioner, [], wanted=9).actions
    assert isinstance(action, ScaleUp)
    assert (action.token, action.count, action.again) == ("ullage-uid-pool-6", 3, True)
    held_off = replace(provisioner, back_off=BackOff(failure=CloudFailure.THROTTLED, failures=1, until=Instant(60.0)))
    assert asked(held_off, [], wanted=9) == PoolStep(
        kind=PoolStepKind.NO_ACTION, why=f"{WANTED}; in back-off: Throttled", wake_at=Instant(60.0)
    )


def test_a_new_purchase_has_a_serial_of_its_own() -> None:
    (action,) = asked(a_provisioner(purchases=7), [], wanted=2, buy=PurchaseTerms(zone="a", count=1)).actions
    assert isinstance(action, ScaleUp)
    assert (action.serial, action.token, action.count, action.zone) == (7, "ullage-uid-pool-7", 1, "a")


def test_a_burst_is_waited_for_but_the_minimum_is_not() -> None:
    buy = PurchaseTerms(not_before=Instant(30.0))
    assert asked(a_provisioner(), [], now=29.0, wanted=2, buy=buy).wake_at == 30.0
    assert asked(a_provisioner(), [], now=30.0, wanted=2, buy=buy).kind is PoolStepKind.SCALE_UP
    (action,) = asked(a_provisioner(min_size=1), [], now=29.0, wanted=2, buy=buy).actions
    assert isinstance(action, ScaleUp)
    assert action.count == 1


def test_a_gang_is_bought_for_whole_or_not_at_all() -> None:
    step = asked(a_provisioner(max_size=3), [], wanted=4, buy=PurchaseTerms(least=4))
    assert step.kind is PoolStepKind.NO_ACTION


def test_the_next_deletion_time_is_when_to_wake() -> None:
    story = PoolStory(a_provisioner(), nodes(8, 4))
    story.loop()
    pool = list(story.nodes.values())
    assert asked(story.provisioner, pool, now=1.0).wake_at == DELAY
    coming = a_node("c", registered=False, upcoming=True, since=5.0, assumed=1000, empty=False)
    assert asked(story.provisioner, [coming], now=6.0).wake_at == 905.0


@st.composite
def pools(draw: st.DrawFn) -> tuple[Provisioner, list[PoolNode], int]:
    size = draw(st.integers(1, 8))
    least = draw(st.integers(0, 6))
    provisioner = a_provisioner(
        min_size=least,
        max_size=draw(st.integers(max(least, 1), 20)),
        min_utilization_percent=draw(st.integers(0, 100)),
        min_unutilized_nodes=draw(st.integers(0, 5)),
    )
    found = []
    for place in range(draw(st.integers(0, provisioner.thresholds.max_size))):
        used, assumed = draw(st.integers(0, size)), draw(st.integers(0, 1))
        registered = draw(st.booleans()) or bool(used)
        facts = {
            "empty": not used and not assumed and draw(st.integers(0, 4)) > 0,
            "registered": registered,
            "upcoming": not registered,
            "failed_to_register": not registered and draw(st.booleans()),
            "protected": draw(st.integers(0, 4)) == 0,
            "delete_after": draw(st.sampled_from([None, 50.0, 150.0])) if registered else None,
            "assumed": 1000 * assumed,
        }
        found.append(a_node(f"n{place:02}", used=used, of=size, **facts))
    return provisioner, found, draw(st.integers(0, 6))


def kept_empty(pool: list[PoolNode], gone: set[str]) -> int:
    return sum(node.empty and not node.failed_to_register and node.name not in gone for node in pool)


@given(pools())
def test_what_always_holds_of_a_step(drawn: tuple[Provisioner, list[PoolNode], int]) -> None:
    provisioner, pool, wanted = drawn
    limits: PoolThresholds = provisioner.thresholds
    evaluation: PoolSize = evaluate(pool, limits, wanted=wanted)
    step = next_step(provisioner, pool, evaluation, now=Instant(100.0))
    by_name = {node.name: node for node in pool}
    assert evaluation.target <= limits.max_size
    assert len({type(action) for action in step.actions}) <= 1
    alive = [node for node in pool if not node.failed_to_register]
    bought = sum(action.count for action in step.actions if isinstance(action, ScaleUp))
    gone = {a.node or a.instance.removeprefix("i-") for a in step.actions if isinstance(a, TerminateInstance)}
    marked_for_deletion = {a.node for a in step.actions if isinstance(a, TaintForDeletion)}
    assert len(pool) + bought <= limits.max_size
    assert len(alive) - len([name for name in gone if not by_name[name].failed_to_register]) >= min(
        limits.min_size, len(alive)
    )
    if bought:
        assert not any(node.marked_for_deletion and node.empty for node in alive) or evaluation.keep < len(alive)
        assert bought <= max(wanted, limits.min_size - len(alive)), "a buffer of empty nodes is never bought"
    for name in gone | marked_for_deletion:
        assert by_name[name].failed_to_register or by_name[name].empty
    leaving = {name for name in gone | marked_for_deletion if not by_name[name].failed_to_register}
    if leaving:
        stay = {node.name for node in pool if node.marked_for_deletion and node.name not in gone} | leaving
        assert kept_empty(pool, stay) >= min(limits.min_unutilized_nodes, kept_empty(pool, set()))


@given(pools())
def test_a_pool_left_alone_settles_within_its_bounds(drawn: tuple[Provisioner, list[PoolNode], int]) -> None:
    provisioner, pool, wanted = drawn
    settled = [node for node in pool if not node.failed_to_register and node.registered]
    story = PoolStory(provisioner, settled, now=100.0)
    story.settle(wanted=wanted)
    for _ in range(4):
        story.now += DELAY
        story.settle()
    assert story.loop() == {}
    limits = provisioner.thresholds
    assert limits.min_size <= len(story.nodes) <= limits.max_size
