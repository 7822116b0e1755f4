"""Whose time has come, how many go at once, and what is written on nodes so that a restart loses nothing."""

from typing import Any

import pytest

from tests.decide.draining.fleets import NOW, node
from ullage.decide.draining.inputs import RemovalPacing
from ullage.decide.draining.unneeded import OngoingCounts, candidates_since, due, soft_taints
from ullage.model.draining import PodMove, RemovableNode, ScaleDownReason
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import CleanDeletionCandidate, MarkDeletionCandidate
from ullage.model.node import Node, Taint
from ullage.model.units import Instant, Seconds

PACE = RemovalPacing(unneeded=Seconds(600), unready=Seconds(1200), most_at_once=3, most_drains=1)


def candidate(value: str) -> Taint:
    return Taint("gpu.scheduling/drain-candidate", value, "PreferNoSchedule")


def removable(name: str) -> RemovableNode:
    """Empty, or with a pod where its name begins with d; waiting for one where it begins with w."""
    moves = (PodMove(ObjectKey("n", "p"), "z"),) if name.startswith("d") else ()
    waits = (ObjectKey("n", "w"),) if name.startswith("w") else ()
    return RemovableNode(
        node=name,
        reason=ScaleDownReason.UNDERUTILIZED if moves else ScaleDownReason.EMPTY,
        moves=moves,
        waits_for=waits,
    )


def nodes(*names: str, **facts: Any) -> dict[str, Node]:
    return {name: node(name, **facts) for name in names}


STORIES: dict[str, tuple[list[str], OngoingCounts, list[str], bool]] = {
    "empty-ones-first": (["d1", "e1", "e2"], OngoingCounts(), ["e1", "e2", "d1"], False),
    "so-many-at-once": (["e1", "e2", "e3", "e4"], OngoingCounts(), ["e1", "e2", "e3"], True),
    "one-drain": (["d1", "d2"], OngoingCounts(), ["d1"], False),
    "a-long-drain-holds-up-no-empty-node": (["d1", "e1"], OngoingCounts(drains=1), ["e1"], False),
    "what-is-under-way-counts": (["e1", "e2"], OngoingCounts(empty=2), ["e1"], True),
    "all-is-used-up": (["d1", "e1"], OngoingCounts(empty=2, drains=1), [], True),
    "nothing-to-do": ([], OngoingCounts(empty=3), [], False),
    "some-wait-for-a-pod": (["w1", "e1"], OngoingCounts(), ["e1"], False),
}


@pytest.mark.parametrize(("names", "underway", "expected", "throttled"), STORIES.values(), ids=STORIES)
def test_who_goes_now(names: list[str], underway: OngoingCounts, expected: list[str], throttled: bool) -> None:
    since = dict.fromkeys(names, Instant(NOW - 600))
    answer = due([removable(name) for name in names], since, nodes(*names), underway, PACE, now=NOW)
    assert [one.node for one in answer.removals] == expected
    assert answer.throttled is throttled
    assert {one.node for one in answer.waiting} == set(names) - set(expected)


def test_time_is_told_to_the_second_and_unready_nodes_wait_longer() -> None:
    since = {"e1": Instant(NOW - 599), "e2": Instant(NOW - 600)}
    answer = due([removable("e1"), removable("e2")], since, nodes("e1", "e2"), OngoingCounts(), PACE, now=NOW)
    assert [one.node for one in answer.removals] == ["e2"]
    assert [(one.reason.value, one.detail) for one in answer.waiting] == [("NotUnneededLongEnough", "1 s more")]
    assert answer.wake_at == NOW + 1
    unready = due([removable("e2")], since, nodes("e2", ready=False), OngoingCounts(), PACE, now=NOW)
    assert [one.reason.value for one in unready.waiting] == ["NotUnreadyLongEnough"]


AT_A_START: dict[str, tuple[str, float]] = {
    "goes-on": (str(int(NOW - 500)), NOW - 500),
    "in-the-future": (str(int(NOW + 500)), NOW),
    "too-old-to-tell": ("12", NOW),
    "unreadable": ("soon", NOW),
    "no-digits-of-ours": ("²", NOW),
}


@pytest.mark.parametrize(("value", "since"), AT_A_START.values(), ids=AT_A_START)
def test_what_a_taint_found_at_a_start_tells(value: str, since: float) -> None:
    assert candidates_since(["a"], None, nodes("a", taints=(candidate(value),)), now=NOW) == {"a": since}


def test_a_stale_taint_tells_nothing_while_we_remember_ourselves() -> None:
    tainted = nodes("a", taints=(candidate(str(int(NOW - 500))),))
    assert candidates_since(["a"], {}, tainted, now=NOW) == {"a": NOW}


def test_marks_are_taken_off_first_and_there_are_only_so_many() -> None:
    there = nodes("a", "b") | {"c": node("c", taints=(candidate("7"),)), "d": node("d", taints=(candidate("9"),))}
    since = {"a": Instant(5.5), "b": Instant(6.0), "d": Instant(9.4)}
    found = soft_taints(since, there)
    assert [(type(one), one.node) for one in found] == [
        (CleanDeletionCandidate, "c"),
        (MarkDeletionCandidate, "a"),
        (MarkDeletionCandidate, "b"),
    ]
    assert [one.node for one in soft_taints(since, there, most=2)] == ["c", "a"]
    assert [one.node for one in soft_taints(since, there, leave={"c", "b"})] == ["a"]
