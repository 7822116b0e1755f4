"""Decisions: told in process or by Events, each once, the newest kept."""

from typing import Any

import pytest

from tests.web.worlds import NOW
from ullage.errors import Unreadable
from ullage.model.fact_event import ObjectKey
from ullage.observe.events import KINDS, EventMessage, EventReason, ObjectReference
from ullage.testing.builders import an_event
from ullage.web.view.decisions import MOST_KEPT, RecentDecisions, read_decision
from ullage.web.view.rows import DecisionRow

POD = {"kind": "Pod", "namespace": "team", "name": "a"}


def rows(decisions: RecentDecisions) -> list[DecisionRow]:
    return [row for row in decisions.table.rows.values() if isinstance(row, DecisionRow)]


def announced(note: str, reason: EventReason = EventReason.SCHEDULED) -> EventMessage:
    return EventMessage(ObjectReference("Pod", ObjectKey("team", "a")), reason, note)


def put(decisions: RecentDecisions, **event: Any) -> None:
    found = read_decision(an_event("e", POD, **event))
    assert found is not None
    decisions.put(found)


def test_an_event_of_ours_is_a_decision() -> None:
    row = read_decision(an_event("e", POD, note="to n with GPU 0: best of 3"))
    assert row is not None
    assert (row.reason, row.kind, row.about, row.by) == ("Scheduled", "Pod", "team/a", "scheduler")
    assert (row.note, row.warning, row.count) == ("to n with GPU 0: best of 3", False, 1)


def test_an_event_of_others_is_none() -> None:
    assert read_decision(an_event("e", POD, reportingController="kubelet")) is None


def test_what_a_node_was_told_is_not_told_again_of_its_pool() -> None:
    pool, node = {"kind": "NodeProvisioner", "name": "train"}, {"kind": "Node", "name": "train-1"}
    assert read_decision(an_event("e", pool, reason="NodeRemoved", note="1 node removed (train-1): Empty")) is None
    assert read_decision(an_event("e", node, reason="NodeRemoved", note="removed: Empty")) is not None
    assert read_decision(an_event("e", pool, reason="NodeNotRemoved", note="i-7 never became a node")) is not None


def test_whom_it_is_about_is_not_said_twice() -> None:
    decisions = RecentDecisions()
    put(decisions, note="Successfully assigned team/a to n with GPU 0")
    assert [row.note for row in rows(decisions)] == ["to n with GPU 0"]


def test_a_series_counts_and_is_as_new_as_its_last() -> None:
    series = {"count": 7, "lastObservedTime": "2030-01-01T01:00:00.000000Z"}
    row = read_decision(an_event("e", POD, series=series))
    first = read_decision(an_event("e", POD))
    assert row is not None
    assert first is not None
    assert (row.count, row.at - first.at) == (7, 3600.0)


def test_an_event_that_makes_no_sense_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="makes no sense"):
        read_decision(an_event("e", POD, eventTime="yesterday"))


def test_what_was_told_in_process_and_by_an_event_is_one_decision() -> None:
    decisions = RecentDecisions()
    event = read_decision(an_event("e", POD, note="to n"))
    assert event is not None
    decisions.record(announced("to n"), at=event.at - 1)
    decisions.put(event)
    assert [row.note for row in rows(decisions)] == ["to n"]


def test_the_same_an_hour_later_is_another() -> None:
    decisions = RecentDecisions()
    decisions.record(announced("to n"), at=NOW)
    decisions.record(announced("to n"), at=NOW + 3600)
    assert len(rows(decisions)) == 2


def test_the_oldest_is_forgotten() -> None:
    decisions = RecentDecisions()
    for number in range(MOST_KEPT + 10):
        decisions.record(announced(f"note {number}"), at=NOW + number)
    assert len(rows(decisions)) == MOST_KEPT
    assert min(row.at for row in rows(decisions)) == NOW + 10


@pytest.mark.parametrize("reason", list(EventReason))
def test_everything_that_can_be_told_can_be_shown(reason: EventReason) -> None:
    decisions = RecentDecisions()
    decisions.record(announced("why", reason), at=NOW)
    assert rows(decisions)[0].warning is KINDS[reason].warning
