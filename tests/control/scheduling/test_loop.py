"""When a refusal is worth a write; who was denied and may try again; which failures are told."""

import itertools

import pytest

from ullage.control.scheduling.bind_failures import BindFailures
from ullage.control.scheduling.pod_conditions import (
    RETOLD_AT_ONCE,
    RETOLD_PER_SECOND,
    RefusalPace,
    RetellingBudget,
)
from ullage.decide.scheduling.denials import DOUBTS, Denials
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import BindPod, MarkUnschedulable
from ullage.model.outcomes import BindFailure, PodNotBound
from ullage.model.refusal import PodScheduledReason, SchedulingFailure
from ullage.model.units import Instant

POD = ObjectKey("team", "p")


def full(nodes: int = 3) -> SchedulingFailure:
    return SchedulingFailure(word="TooFewGpus", message=f"0/{nodes} nodes fit")


CORDONED = SchedulingFailure(word="NodeUnschedulable", message="0/3 nodes fit")


def refuse(why: SchedulingFailure, uid: str = "u", nominated: str | None = None) -> MarkUnschedulable:
    return MarkUnschedulable(pod=POD, uid=uid, why=why, nominated=nominated)


@pytest.mark.parametrize(
    ("action", "now", "due"),
    [
        pytest.param(refuse(full()), 1.0, None, id="the-same-again"),
        pytest.param(refuse(full(4)), 1.0, 10.0, id="other-counts-after-a-pause"),
        pytest.param(refuse(full(4)), 60.0, 60.0, id="other-counts-after-a-minute"),
        pytest.param(refuse(full(4)), 121.0, None, id="other-counts-after-two-minutes"),
        pytest.param(refuse(CORDONED), 1.0, 1.0, id="another-verdict"),
        pytest.param(refuse(CORDONED), 9000.0, 9000.0, id="another-verdict-after-hours"),
        pytest.param(refuse(full(), uid="another"), 1.0, 1.0, id="another-pod-of-its-name"),
        pytest.param(refuse(full(), nominated=""), 1.0, 1.0, id="a-nomination-to-be-taken-back"),
    ],
)
def test_when_a_refusal_is_said_of_a_pod_that_was_refused_at_zero(
    action: MarkUnschedulable, now: float, due: float | None
) -> None:
    pace = RefusalPace()
    pace.written(refuse(full()), now=0.0)
    assert pace.due(action, now=now) == due


def test_a_verdict_that_goes_to_and_fro_waits_longer_each_time_and_begins_anew_after_a_calm() -> None:
    pace = RefusalPace()
    changes, now = [], 0.0
    for turn in range(9):
        action = refuse(CORDONED if turn % 2 else full())
        due = pace.due(action, now=now)
        assert due is not None
        now = due
        changes.append(now)
        pace.written(action, now=now)
    pauses = [after - before for before, after in itertools.pairwise(changes)]
    assert pauses == [0, 0, 10, 20, 40, 80, 160, 300]
    assert pace.due(refuse(CORDONED), now=now + 700) == now + 700


def test_what_pods_say_already_is_told_again_at_a_steady_rate_after_the_first_few() -> None:
    budget = RetellingBudget()
    assert [budget.take(now=0.0) for _ in range(int(RETOLD_AT_ONCE) + 1)] == [True] * int(RETOLD_AT_ONCE) + [False]
    tenths = [1.0 + tick / 10 for tick in range(100)]
    told = sum(budget.take(now=now) for now in tenths for _ in range(10))
    assert told == pytest.approx(RETOLD_PER_SECOND * tenths[-1], abs=1)
    budget.take(now=5.0)
    assert not budget.take(now=5.0), "a clock that is set back gives nothing"
    rested = sum(budget.take(now=9999.0) for _ in range(1000))
    assert rested == RETOLD_AT_ONCE, "a long rest gives no more than that at once"


def test_of_pods_that_were_denied_one_tries_for_its_namespace_and_newcomers_are_not_held_up() -> None:
    denials = Denials()
    pods = [ObjectKey("team", name) for name in "abc"]
    for pod in pods:
        assert denials.wait_until(pod, "u", now=Instant(0.0)) is None, "nobody was denied yet"
        denials.denied(pod, "u", "forbidden", now=Instant(0.0))
    assert [denials.wait_until(pod, "u", now=Instant(1.0)) for pod in pods] == [5.0, 5.0, 5.0]
    assert denials.wait_until(ObjectKey("team", "new"), "u", now=Instant(1.0)) is None
    assert denials.wait_until(pods[0], "another", now=Instant(1.0)) is None, "another pod of its name"
    assert denials.wait_until(ObjectKey("other", "a"), "u", now=Instant(1.0)) is None
    assert denials.wait_until(pods[0], "u", now=Instant(5.0)) is None, "it tries for all"
    assert denials.wait_until(pods[1], "u", now=Instant(5.0)) == 10.0
    denials.denied(pods[0], "u", "forbidden", now=Instant(5.0))
    assert denials.wait_until(pods[1], "u", now=Instant(6.0)) == 15.0
    denials.allowed(pods[0])
    assert denials.wait_until(pods[1], "u", now=Instant(6.0)) is None


def test_denials_make_unready_unless_other_pods_were_placed() -> None:
    denials = Denials()
    assert denials.unready == ""
    denials.denied(POD, "u", "pods is forbidden", now=Instant(0.0))
    assert denials.unready == "placements are denied: pods is forbidden"
    denials.allowed(ObjectKey("team", "q"))
    assert denials.unready == ""
    for number in range(DOUBTS):
        assert denials.unready == ""
        denials.denied(ObjectKey("team", f"p{number}"), "u", "pods is forbidden", now=Instant(0.0))
    assert denials.unready != ""
    denials.forget(ObjectKey("team", "p0"))
    assert denials.unready == ""


def failed(setback: BindFailure) -> PodNotBound:
    return PodNotBound(
        BindPod(pod=POD, uid="u", resource_version="1", node="n", why=""), setback, "the API's own words"
    )


@pytest.mark.parametrize(
    ("setback", "first", "second"),
    [
        pytest.param(BindFailure.FORBIDDEN, True, True, id="forbidden"),
        pytest.param(BindFailure.REFUSED, True, True, id="refused"),
        pytest.param(BindFailure.API_FAILED, True, True, id="no-answer"),
        pytest.param(BindFailure.VOLUME_NOT_READY, True, True, id="no-volume"),
        pytest.param(BindFailure.GANG_FELL_APART, True, True, id="its-gang-fell-apart"),
        pytest.param(BindFailure.GPU_TAKEN, False, True, id="somebody-was-faster"),
        pytest.param(BindFailure.POD_CHANGED, False, True, id="somebody-wrote-on-it"),
        pytest.param(BindFailure.POD_GONE, False, False, id="it-is-gone"),
    ],
)
def test_failures_are_told_at_once_and_races_the_second_time(setback: BindFailure, first: bool, second: bool) -> None:
    failures = BindFailures()
    said = [failures.refusal(failed(setback)) for _ in range(2)]
    assert [one is not None for one in said] == [first, second]
    if said[1] is not None:
        assert said[1].message == "not bound to n: the API's own words"
        assert (said[1].word, said[1].waiting) == (setback.value, PodScheduledReason.SCHEDULER_ERROR)
