"""What was said of pods, by uid; and what is due when."""

from msgspec.structs import replace

from tests.decide.scenes import Scene, pod
from ullage.decide.claims.scheduler_feedback import SchedulerFeedback
from ullage.model.allocation import Allocation
from ullage.model.refusal import SchedulingFailure
from ullage.model.units import Instant
from ullage.state.deadlines import DeadlineQueue

POD = Scene(pod("p")).pod("p")
NAMESAKE = replace(POD, uid="another")
OVER = SchedulingFailure(word="QuotaExceeded", message="too much")


def test_words_on_a_pod_are_not_about_its_namesake() -> None:
    said = SchedulerFeedback()
    said.refused(POD, OVER, now=Instant(0.0))
    assert (said.refusal_of(POD), said.refusal_of(NAMESAKE)) == (OVER, None)
    said.reserved(POD, Allocation("a", (0,)))
    assert said.reserved_for(POD) == Allocation("a", (0,))
    assert said.reserved_for(NAMESAKE) is None


def test_a_refusal_ends_what_was_held() -> None:
    said = SchedulerFeedback()
    said.reserved(POD, Allocation("a", (0,)))
    said.refused(POD, OVER, now=Instant(0.0))
    assert said.reserved_for(POD) is None


def test_who_waits_for_quota_is_known_until_forgotten() -> None:
    said = SchedulerFeedback()
    said.refused(POD, OVER, now=Instant(0.0))
    assert said.over_quota("team") == [POD.key]
    said.refused(POD, SchedulingFailure(word="TooFewGpus", message="full"), now=Instant(0.0))
    assert said.over_quota("team") == []
    said.refused(POD, OVER, now=Instant(0.0))
    said.forget(POD.key)
    assert not said.is_over_quota(POD.key)


def test_an_agenda_goes_by_time_then_by_order_and_the_latest_word_counts() -> None:
    agenda: DeadlineQueue[str] = DeadlineQueue()
    for thing, at in (("late", 3.0), ("first", 1.0), ("second", 1.0), ("moved", 1.0), ("dropped", 0.5)):
        agenda.put(thing, Instant(at))
    agenda.put("moved", Instant(2.0))
    agenda.drop("dropped")
    assert agenda.next_at() == 1.0
    assert [agenda.take_due(Instant(2.5)) for _ in range(4)] == ["first", "second", "moved", None]
    assert agenda.due("late") == agenda.next_at() == 3.0
