"""Tracker of deletions: an eviction counts for as long as it is kept, and not longer."""

from ullage.decide.draining.deletion_tracker import NodeDeletionTracker
from ullage.model.units import Instant, Seconds
from ullage.testing.facts import pod_fact


def test_an_eviction_is_kept_for_its_time_and_then_dropped() -> None:
    tracker = NodeDeletionTracker(evictions_kept=Seconds(60.0))
    tracker.evicted(pod_fact("early"), at=Instant(1000.0))
    tracker.evicted(pod_fact("late"), at=Instant(1030.0))
    tracker.forget((), now=Instant(1059.0))
    assert [one.pod.key.name for one in tracker.evictions] == ["early", "late"]
    tracker.forget((), now=Instant(1060.0))
    assert [one.pod.key.name for one in tracker.evictions] == ["late"]
    tracker.forget((), now=Instant(1090.0))
    assert tracker.evictions == ()
