"""Times of gangs by a clock that is put right."""

from ullage.decide.gang.placement import GangRequest
from ullage.decide.gang.timeout import GangBacksOff, GangKeepsTrying
from ullage.decide.scheduling.gang_tracker import GangInBackoff, GangTracker
from ullage.model.fact_event import ObjectKey
from ullage.model.units import Instant

GANG = GangRequest(key=ObjectKey("n", "g"), min_member=2, pending=())


def test_a_back_off_by_a_clock_an_hour_ahead_does_not_last_an_hour() -> None:
    tracker = GangTracker()
    assert isinstance(tracker.decide_fate(GANG, now=Instant(0), timeout=None), GangKeepsTrying)
    ahead = tracker.decide_fate(GANG, now=Instant(3610), timeout=None)
    assert isinstance(ahead, GangBacksOff)
    assert ahead.again_at == 3620.0
    assert tracker.decide_fate(GANG, now=Instant(11), timeout=None) == GangInBackoff(Instant(21))
    assert (tracker.next_deadline(), tracker.due(now=Instant(21))) == (21.0, [GANG.key])
    again = tracker.decide_fate(GANG, now=Instant(22), timeout=None)
    assert isinstance(again, GangKeepsTrying)
    assert again.until == 321.0


def test_a_gang_seen_first_by_a_clock_an_hour_ahead_gives_up_in_time() -> None:
    tracker = GangTracker()
    tracker.decide_fate(GANG, now=Instant(3610), timeout=None)
    trying = tracker.decide_fate(GANG, now=Instant(11), timeout=None)
    assert isinstance(trying, GangKeepsTrying)
    assert (trying.until, tracker.next_deadline(), tracker.waited(GANG.key, now=Instant(12))) == (311.0, 311.0, 1.0)
