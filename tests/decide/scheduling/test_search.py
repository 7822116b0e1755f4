"""Searches for victims that go on in steps beside other decisions, on a cluster that changes meanwhile."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.decide.preemption.fleets import a_budget, a_pod, leased
from tests.decide.scheduling.test_core import Sitting, a_claim, key, wanting
from ullage.decide.preemption.preempt import NoPreemption
from ullage.decide.scheduling import cycle
from ullage.decide.scheduling.decisions import Decision, PodsUnschedulable, PreemptionSearch
from ullage.model import stepper
from ullage.model.fact_event import Deleted
from ullage.model.intents import BindPod, Preempt
from ullage.model.outcomes import PodBound
from ullage.state.queue import QueueState


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every piece of work is a step, and no search is short enough to be made at once."""
    monkeypatch.setattr(stepper, "STEP", 0.0)
    monkeypatch.setattr(cycle, "INLINE_SEARCH", 0.0)


def busy_cluster() -> Sitting:
    """Two nodes, whose GPUs are held by pods of priority 1 and 2."""
    low = [a_pod(f"low-{gpu}", on="a", gpus=[gpu], priority=1, labels={"app": "low"}) for gpu in range(4)]
    high = [a_pod(f"high-{gpu}", on="b", gpus=[gpu], priority=2) for gpu in range(4)]
    return Sitting(leased("a", 4), leased("b", 4), low, high)


def search_for(sitting: Sitting, name: str) -> PreemptionSearch:
    found = sitting.core.next_decision(now=sitting.now)
    assert isinstance(found, PreemptionSearch)
    assert [pod.key.name for pod in found.pods] == [name]
    assert sitting.core.queue.place_of(key(name)) is QueueState.OUT
    return found


def ended(sitting: Sitting, search: PreemptionSearch) -> PodsUnschedulable | None:
    """The rest of the search, and what comes of it."""
    return sitting.core.conclude(search, stepper.finish(search.steps), now=sitting.now)


def evicted(decision: PodsUnschedulable | None) -> list[str]:
    assert decision is not None
    return [victim.pod.name for action in decision.preempts for victim in action.victims]


def test_a_search_takes_many_steps_and_ends_with_what_it_would_find_at_once() -> None:
    sitting = busy_cluster()
    sitting.hear(wanting("vip", 2, priority=10))
    search = search_for(sitting, "vip")
    costs = []
    found: tuple[Preempt, ...] | NoPreemption
    try:
        costs.append(next(search.steps))
        while True:
            costs.append(search.steps.send(True))
    except StopIteration as done:
        found = done.value
    assert len(costs) >= 3
    decision = sitting.core.conclude(search, found, now=sitting.now)
    assert evicted(decision) == ["low-2", "low-3"]
    assert sitting.core.queue.place_of(key("vip")) is QueueState.ASLEEP


def test_other_pods_are_decided_on_meanwhile() -> None:
    sitting = busy_cluster()
    sitting.hear(wanting("vip", 2, priority=10))
    search = search_for(sitting, "vip")
    sitting.hear(leased("c", 1), wanting("small"))
    assert sitting.decide() == ["small on c:0"]
    assert evicted(ended(sitting, search)) == ["low-2", "low-3"]


def test_searches_go_on_one_after_another_the_most_important_first() -> None:
    sitting = busy_cluster()
    sitting.hear(wanting("first", 1, priority=10))
    search = search_for(sitting, "first")
    sitting.hear(wanting("second", 1, priority=5), wanting("third", 1, priority=8))
    assert sitting.decide() == ["later third", "later second"]
    assert evicted(ended(sitting, search)) == ["low-3"]
    search = search_for(sitting, "third")
    assert sitting.decide() == []
    assert evicted(ended(sitting, search)) == ["low-2"]
    search = search_for(sitting, "second")
    assert evicted(ended(sitting, search)) == ["low-1"]
    assert sitting.core.next_decision(now=sitting.now) is None


def test_room_that_is_free_when_its_turn_comes_is_taken_without_a_search() -> None:
    sitting = busy_cluster()
    sitting.hear(wanting("first", 2, priority=10))
    search = search_for(sitting, "first")
    sitting.hear(wanting("second", 1, priority=20))
    assert sitting.decide() == ["later second"]
    sitting.hear(leased("c", 1))
    ended(sitting, search)
    decision = sitting.core.next_decision(now=sitting.now)
    assert isinstance(decision, BindPod)
    assert (decision.pod.name, decision.node) == ("second", "c")


def low(sitting: Sitting, gpu: int) -> None:
    sitting.gone(sitting.pod(f"low-{gpu}"))


def node_gone(sitting: Sitting) -> None:
    node = sitting.core.snapshot.state.nodes["a"]
    sitting.core.apply(Deleted(key=key("a"), old=node), now=sitting.now)


def raised(sitting: Sitting) -> None:
    sitting.hear(replace(sitting.pod("low-3"), priority=99))


CHANGES: list[tuple[str, Callable[[Sitting], None], list[str]]] = [
    ("nothing", lambda _: None, ["low-3"]),
    ("another-pod-of-the-node-left", lambda sitting: low(sitting, 0), []),
    ("a-victim-left", lambda sitting: low(sitting, 3), []),
    ("a-victim-is-more-important-now", raised, []),
    ("a-budget-protects-the-victim", lambda sitting: sitting.hear(a_budget("b", "low", 0)), []),
    ("a-budget-allows-one", lambda sitting: sitting.hear(a_budget("b", "low", 1)), ["low-3"]),
    ("the-node-is-gone", node_gone, []),
    ("the-node-is-cordoned", lambda sitting: sitting.hear(leased("a", 4, unschedulable=True)[0]), []),
    ("a-free-node-came", lambda sitting: sitting.hear(leased("c", 4)), []),
]


@pytest.mark.parametrize(
    ("change", "expected"), [pytest.param(change, expected, id=name) for name, change, expected in CHANGES]
)
def test_the_answer_is_checked_on_the_cluster_as_it_is(change: Callable[[Sitting], None], expected: list[str]) -> None:
    sitting = busy_cluster()
    sitting.hear(wanting("vip", 1, priority=10))
    search = search_for(sitting, "vip")
    found = stepper.finish(search.steps)
    assert not isinstance(found, NoPreemption)
    assert [victim.pod.name for victim in found[0].victims] == ["low-3"]
    change(sitting)
    decision = sitting.core.conclude(search, found, now=sitting.now)
    assert evicted(decision) == expected
    again = (QueueState.ASLEEP, QueueState.BACKING_OFF) if expected else (QueueState.BACKING_OFF,)
    assert sitting.core.queue.place_of(key("vip")) in again


@pytest.mark.parametrize(
    ("change", "place"),
    [
        pytest.param(lambda sitting: sitting.gone(sitting.pod("vip")), None, id="it-is-gone"),
        pytest.param(lambda sitting: sitting.hear(wanting("vip", 3, priority=10)), QueueState.ACTIVE, id="more"),
        pytest.param(lambda sitting: sitting.hear(wanting("vip", 1, priority=10, gated=True)), None, id="gated"),
        pytest.param(
            lambda sitting: sitting.hear(replace(wanting("vip", 1, priority=10), node="b")), None, id="placed-by-others"
        ),
    ],
)
def test_nobody_is_evicted_for_a_pod_that_asks_no_longer(
    change: Callable[[Sitting], None], place: QueueState | None
) -> None:
    sitting = busy_cluster()
    sitting.hear(wanting("vip", 1, priority=10))
    search = search_for(sitting, "vip")
    found = stepper.finish(search.steps)
    change(sitting)
    assert sitting.core.conclude(search, found, now=sitting.now) is None
    assert sitting.core.queue.place_of(key("vip")) is place


def test_the_cluster_may_change_between_any_two_steps() -> None:
    """After each number of steps one pod leaves and another takes its GPUs: no step trips, and the answer is right."""
    for steps in range(12):
        sitting = busy_cluster()
        sitting.hear(wanting("vip", 2, priority=10))
        search = search_for(sitting, "vip")
        try:
            for step in range(steps):
                search.steps.send(None if step == 0 else True)  # type: ignore[arg-type]  # a generator begins with None
        except StopIteration:
            break
        low(sitting, 3)
        sitting.hear(a_pod("new", on="a", gpus=[3], priority=50))
        decision = ended(sitting, search)
        assert set(evicted(decision)) <= {"low-0", "low-1", "low-2"}
    else:
        pytest.fail("the search should have ended")


def test_a_search_that_runs_out_of_time_ends_with_the_best_so_far_and_is_tried_again_without_any() -> None:
    sitting = busy_cluster()
    sitting.hear(wanting("vip", 1, priority=10))
    search = search_for(sitting, "vip")
    found = None
    try:
        next(search.steps)
        search.steps.send(False)
    except StopIteration as done:
        found = done.value
    assert isinstance(found, NoPreemption)
    decision = sitting.core.conclude(search, found, now=sitting.now)
    assert evicted(decision) == []
    assert sitting.core.queue.place_of(key("vip")) is QueueState.BACKING_OFF


def test_a_gang_is_searched_for_in_steps_and_its_answer_is_checked() -> None:
    def gang() -> tuple[Sitting, PreemptionSearch]:
        sitting = busy_cluster()
        claims = [a_claim(name, 3, gang="g", gang_min_member=2) for name in ("x", "y")]
        sitting.hear(claims, [wanting(name, 0, claim=name, priority=10) for name in ("x", "y")])
        found: Decision | None = sitting.core.next_decision(now=sitting.now)
        assert isinstance(found, PreemptionSearch)
        assert len(found.pods) == 2
        return sitting, found

    sitting, search = gang()
    assert len(evicted(ended(sitting, search))) == 6
    sitting, search = gang()
    answer = stepper.finish(search.steps)
    sitting.hear(replace(sitting.pod("high-3"), priority=99), replace(sitting.pod("high-2"), priority=99))
    assert evicted(sitting.core.conclude(search, answer, now=sitting.now)) == []


def test_nobody_is_evicted_for_a_gang_that_has_room_by_now() -> None:
    sitting = busy_cluster()
    claims = [a_claim(name, 3, gang="g", gang_min_member=2) for name in ("x", "y")]
    sitting.hear(claims, [wanting(name, 0, claim=name, priority=10) for name in ("x", "y")])
    search = sitting.core.next_decision(now=sitting.now)
    assert isinstance(search, PreemptionSearch)
    sitting.hear(leased("c", 8))
    assert sitting.after(30.0) == ["later y"]
    assert evicted(ended(sitting, search)) == []
    assert sitting.after(30.0) == ["gang g: x@c y@c"]


def test_outcomes_that_come_meanwhile_are_settled() -> None:
    sitting = Sitting(leased("a", 2), a_pod("low", on="a", gpus=[0], priority=1))
    sitting.hear(wanting("plain", 1))
    place = sitting.core.next_decision(now=sitting.now)
    assert isinstance(place, BindPod)
    sitting.hear(wanting("vip", 1, priority=10))
    search = search_for(sitting, "vip")
    sitting.core.settle(PodBound(place), now=sitting.now)
    sitting.hear(replace(sitting.pod("plain"), node="a", gpu_ids=place.devices))
    assert evicted(ended(sitting, search)) in (["low"], ["plain"])
