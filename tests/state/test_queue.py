"""The order in which pods are tried, and what wakes those that were refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.model.fact_event import ObjectKey
from ullage.model.units import Instant
from ullage.model.verdict import ClusterEvent
from ullage.state.overtaken import TRIES_AFTER_EVENT
from ullage.state.queue import QueueState, SchedulingQueue


def key(name: str) -> ObjectKey:
    return ObjectKey("n", name)


def queue_of(*pods: tuple[str, int]) -> SchedulingQueue:
    queue = SchedulingQueue()
    for age, (name, priority) in enumerate(pods):
        queue.add(key(name), priority=priority, now=Instant(float(age)))
    return queue


def all_of(queue: SchedulingQueue, now: float) -> list[str]:
    taken = []
    while (popped := queue.pop(now=Instant(now))) is not None:
        taken.append(popped.name)
    return taken


def test_a_pod_may_be_refused_for_weeks() -> None:
    pace = SchedulingQueue()
    assert [pace.backoff(times) for times in (1, 2, 5, 100_000)] == [1.0, 2.0, 10.0, 10.0]
    queue = queue_of(("p", 0))
    for now in range(0, 5_000 * 300, 300):
        assert all_of(queue, now) == ["p"]
        queue.add_unschedulable(key("p"), [ClusterEvent.POD_LEFT], now=Instant(now))
        queue.move_on(ClusterEvent.POD_LEFT, now=Instant(now + 1))


def test_priority_goes_before_age_and_age_before_name() -> None:
    queue = queue_of(("z-old", 0), ("urgent", 100), ("a-young", 0))
    assert all_of(queue, 10) == ["urgent", "z-old", "a-young"]


def test_a_refused_pod_sleeps_until_news_that_helps() -> None:
    queue = queue_of(("p", 0))
    assert all_of(queue, 10) == ["p"]
    queue.add_unschedulable(key("p"), [ClusterEvent.POD_LEFT], now=Instant(10))
    queue.move_on(ClusterEvent.NODE_CHANGED, now=Instant(20))
    assert all_of(queue, 20) == []
    queue.move_on(ClusterEvent.POD_LEFT, now=Instant(21))
    assert all_of(queue, 21) == ["p"]


def test_a_pod_refused_again_sleeps_for_its_latest_reason_only() -> None:
    queue = queue_of(("p", 0))
    assert all_of(queue, 10) == ["p"]
    queue.add_unschedulable(key("p"), [ClusterEvent.POD_LEFT], now=Instant(10))
    queue.add_unschedulable(key("p"), [ClusterEvent.NODE_CHANGED], now=Instant(11))
    queue.move_on(ClusterEvent.POD_LEFT, now=Instant(30))
    assert all_of(queue, 30) == []
    queue.move_on(ClusterEvent.NODE_CHANGED, now=Instant(31))
    assert all_of(queue, 31) == ["p"]


def test_a_pod_that_left_while_asleep_is_not_woken_as_another() -> None:
    queue = queue_of(("p", 0))
    assert all_of(queue, 10) == ["p"]
    queue.add_unschedulable(key("p"), [ClusterEvent.POD_LEFT], now=Instant(10))
    queue.remove(key("p"))
    queue.add(key("p"), priority=0, now=Instant(20))
    queue.move_on(ClusterEvent.POD_LEFT, now=Instant(30))
    assert all_of(queue, 30) == ["p"]


def test_back_off_doubles_up_to_ten_seconds() -> None:
    queue = queue_of(("p", 0))
    waits = []
    now = 0.0
    for _ in range(6):
        assert queue.pop(now=Instant(now)) == key("p")
        queue.add_unschedulable(key("p"), [ClusterEvent.POD_LEFT], now=Instant(now))
        queue.move_on(ClusterEvent.POD_LEFT, now=Instant(now))
        assert queue.pop(now=Instant(now)) is None
        deadline = queue.next_deadline()
        assert deadline is not None
        waits.append(deadline - now)
        now = deadline
    assert waits == [1, 2, 4, 8, 10, 10]


@pytest.mark.parametrize("news", [True, False], ids=["in-back-off", "asleep"])
def test_timers_of_a_clock_that_was_an_hour_ahead_do_not_last_an_hour(news: bool) -> None:
    queue = queue_of(("p", 0))
    assert all_of(queue, 3610) == ["p"]
    queue.add_unschedulable(key("p"), [ClusterEvent.POD_LEFT], now=Instant(3610))
    if news:
        queue.move_on(ClusterEvent.POD_LEFT, now=Instant(3610))
    assert all_of(queue, 11) == []
    assert queue.next_deadline() == (12.0 if news else 311.0)
    queue.move_on(ClusterEvent.POD_LEFT, now=Instant(13))
    assert all_of(queue, 14) == ["p"]


def test_news_that_comes_while_a_pod_is_decided_on_is_not_lost() -> None:
    queue = queue_of(("p", 0))
    queue.pop(now=Instant(0))
    queue.move_on(ClusterEvent.POD_LEFT, now=Instant(0))
    queue.add_unschedulable(key("p"), [ClusterEvent.POD_LEFT], now=Instant(0))
    assert queue.place_of(key("p")) is QueueState.BACKING_OFF
    assert all_of(queue, 1) == ["p"]


def test_nobody_sleeps_for_ever() -> None:
    queue = queue_of(("p", 0))
    queue.pop(now=Instant(0))
    queue.add_unschedulable(key("p"), [], now=Instant(0))
    assert queue.next_deadline() == 300.0
    assert all_of(queue, 299) == []
    assert all_of(queue, 300) == ["p"]


def test_a_pod_keeps_its_age_through_refusals() -> None:
    queue = queue_of(("old", 0), ("young", 0))
    assert queue.pop(now=Instant(5)) == key("old")
    queue.requeue(key("old"), now=Instant(5))
    assert all_of(queue, 6) == ["old", "young"]


def test_a_raised_priority_counts_at_once() -> None:
    queue = queue_of(("a", 0), ("b", 0))
    queue.add(key("b"), priority=5, now=Instant(9))
    assert all_of(queue, 9) == ["b", "a"]


def test_a_pod_that_left_is_not_handed_out() -> None:
    queue = queue_of(("a", 0), ("b", 0))
    queue.remove(key("a"))
    queue.remove(key("a"))
    assert all_of(queue, 9) == ["b"]


def test_a_pod_that_came_back_is_a_new_one() -> None:
    queue = queue_of(("a", 0), ("b", 0))
    queue.pop(now=Instant(2))
    queue.remove(key("a"))
    queue.add(key("a"), priority=0, now=Instant(3))
    assert all_of(queue, 3) == ["b", "a"]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "pop", "overtaken", "put back", "refuse", "retry", "wake", "remove"]),
        st.sampled_from("abc"),
    ),
    max_size=60,
)


@given(STEPS)
def test_a_waiting_pod_is_always_handed_out_in_the_end(steps: list[tuple[str, str]]) -> None:
    queue = SchedulingQueue()
    out: set[str] = set()
    for now, (step, name) in enumerate(steps):
        match step:
            case "add":
                queue.add(key(name), priority=0, now=Instant(now))
            case "pop" | "overtaken":
                popped = queue.pop(now=Instant(now)) if step == "pop" else queue.pop_overtaken(now=Instant(now))
                assert popped is None or popped.name not in out
                out |= {popped.name} if popped else set()
            case "put back" if name in out:
                queue.put_back(key(name), now=Instant(now))
                out.discard(name)
            case "refuse" if name in out:
                queue.add_unschedulable(key(name), [ClusterEvent.POD_LEFT], now=Instant(now), kind=name)
                out.discard(name)
            case "retry" if name in out:
                queue.requeue(key(name), now=Instant(now))
                out.discard(name)
            case "wake":
                queue.move_on(ClusterEvent.POD_LEFT, now=Instant(now))
            case "remove":
                queue.remove(key(name))
                out.discard(name)
    waiting = {name for name in "abc" if key(name) in queue} - out
    assert set(all_of(queue, len(steps) + 301)) == waiting


def test_who_sleeps_is_not_tried_again_while_nothing_at_all_was_heard() -> None:
    queue = SchedulingQueue()
    key = ObjectKey("default", "p")
    queue.count_event()
    queue.add(key, priority=0, now=Instant(0.0))
    assert queue.pop(now=Instant(0.0)) == key
    queue.add_unschedulable(key, (), now=Instant(0.0))

    assert [queue.pop(now=Instant(at)) for at in (300.0, 600.0, 900.0)] == [None] * 3
    queue.count_event()
    assert queue.pop(now=Instant(1100.0)) is None, "it is not its time yet"
    assert queue.pop(now=Instant(1200.0)) == key


def backing_off(*kinds: str) -> SchedulingQueue:
    """Pods p0, p1, … of these kinds, refused at 10 and helped by news at once."""
    queue = queue_of(*((f"p{number}", 0) for number in range(len(kinds))))
    all_of(queue, 10)
    for number, kind in enumerate(kinds):
        queue.add_unschedulable(key(f"p{number}"), [ClusterEvent.POD_LEFT], now=Instant(10), kind=kind)
    queue.move_on(ClusterEvent.POD_LEFT, now=Instant(10))
    return queue


def all_overtaken(queue: SchedulingQueue, now: float) -> list[str]:
    """Everybody who is tried before the end of a back-off; there is no place for anybody."""
    tried = []
    while (popped := queue.pop_overtaken(now=Instant(now))) is not None:
        tried.append(popped.name)
        queue.put_back(popped, now=Instant(now))
    return tried


def test_a_try_in_vain_for_another_reason_waits_for_the_news_that_help_now() -> None:
    queue = backing_off("a")
    assert queue.pop_overtaken(now=Instant(10.1)) == key("p0")
    queue.put_back(key("p0"), now=Instant(10.1), wakes_on=[ClusterEvent.INVENTORY_CHANGED])
    queue.move_on(ClusterEvent.POD_LEFT, now=Instant(10.2))
    assert queue.pop_overtaken(now=Instant(10.2)) is None, "that would not help any more"
    queue.move_on(ClusterEvent.INVENTORY_CHANGED, now=Instant(10.3))
    assert queue.pop_overtaken(now=Instant(10.3)) == key("p0")


def test_the_first_of_each_kind_is_tried_after_news_and_keeps_its_back_off() -> None:
    queue = backing_off("a", "b", "a", "b")
    assert all_overtaken(queue, 10.1) == ["p0", "p1"]
    assert all_overtaken(queue, 10.2) == [], "until there is news"
    queue.move_on(ClusterEvent.NODE_CHANGED, now=Instant(10.3))
    assert all_overtaken(queue, 10.3) == [], "that help"
    queue.move_on(ClusterEvent.POD_LEFT, now=Instant(10.4))
    assert all_overtaken(queue, 10.4) == ["p0", "p1"]
    assert all_of(queue, 10.9) == []
    assert all_of(queue, 11) == ["p0", "p1", "p2", "p3"]
    assert all_overtaken(queue, 11) == []


def test_only_who_is_ahead_of_the_next_is_tried_before_it() -> None:
    queue = backing_off("a")
    queue.add(key("urgent"), priority=1, now=Instant(10))
    assert all_overtaken(queue, 10) == []
    assert all_of(queue, 10) == ["urgent"]
    queue.add(key("late"), priority=0, now=Instant(10))
    assert all_overtaken(queue, 10) == ["p0"]


def test_news_are_worth_so_many_tries() -> None:
    queue = backing_off(*(f"kind {number}" for number in range(100)))
    assert len(all_overtaken(queue, 10)) == TRIES_AFTER_EVENT


def test_who_lost_a_place_waits_out_its_back_off() -> None:
    queue = backing_off("a", "b")
    queue.requeue(key("p0"), now=Instant(10))
    assert all_overtaken(queue, 10) == ["p1"]


def test_who_leaves_the_queue_leaves_the_line() -> None:
    queue = backing_off("a", "a")
    queue.remove(key("p0"))
    assert all_overtaken(queue, 10) == ["p1"]


# A pod that asks for something else.


def _refused(times: int, *, asleep: bool = False) -> tuple[SchedulingQueue, float]:
    """A pod that was refused so often, and the instant of its last refusal."""
    queue, now = queue_of(("p", 0)), 0.0
    for _ in range(times):
        now += 20.0
        queue.move_on(ClusterEvent.POD_LEFT, now=Instant(now))
        assert all_of(queue, now) == ["p"]
        queue.add_unschedulable(key("p"), [ClusterEvent.POD_LEFT], now=Instant(now), kind="kind")
    if not asleep:
        queue.move_on(ClusterEvent.POD_LEFT, now=Instant(now))
        assert queue.pop_overtaken(now=Instant(now)) == key("p")
        queue.put_back(key("p"), now=Instant(now))
        assert queue.place_of(key("p")) is QueueState.BACKING_OFF
    return queue, now


@pytest.mark.parametrize("asleep", [False, True], ids=["in back-off", "asleep"])
def test_who_asks_for_something_else_is_tried_at_once(asleep: bool) -> None:
    queue, now = _refused(4, asleep=asleep)
    assert all_of(queue, now + 0.1) == []
    queue.ask_anew(key("p"))
    assert all_of(queue, now + 0.1) == ["p"]


def test_who_asks_for_something_else_begins_its_back_off_anew() -> None:
    queue, now = _refused(4)
    queue.ask_anew(key("p"))
    assert all_of(queue, now) == ["p"]
    queue.add_unschedulable(key("p"), [ClusterEvent.POD_LEFT], now=Instant(now))
    queue.move_on(ClusterEvent.POD_LEFT, now=Instant(now))
    assert all_of(queue, now + 0.9) == []
    assert all_of(queue, now + 1.0) == ["p"]


@pytest.mark.parametrize("answer", ["refuse", "retry"])
def test_an_answer_to_what_is_not_asked_any_more_counts_for_nothing(answer: str) -> None:
    queue, now = _refused(4)
    assert all_of(queue, now + 10.0) == ["p"]
    queue.ask_anew(key("p"))
    if answer == "refuse":
        queue.add_unschedulable(key("p"), [ClusterEvent.POD_LEFT], now=Instant(now + 10.0))
    else:
        queue.requeue(key("p"), now=Instant(now + 10.0))
    assert all_of(queue, now + 10.0) == ["p"], "at once"
    queue.add_unschedulable(key("p"), [ClusterEvent.POD_LEFT], now=Instant(now + 10.0))
    assert all_of(queue, now + 11.0) == [], "this answer is to the question as it stands"


def test_a_pod_that_is_not_there_asks_nothing() -> None:
    queue = queue_of(("p", 0))
    queue.ask_anew(key("other"))
    assert all_of(queue, 1) == ["p"]
