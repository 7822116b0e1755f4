"""Disruption budgets: the numbers."""

from typing import Any

import pytest

from tests.sim.controllers.things import at, budget, merged, owner, pod, said, seconds
from ullage.kube.timestamps import write_time
from ullage.sim.controllers.disruption import ScaleTarget, plan_budget
from ullage.sim.controllers.objects import ActorPod

NOW = at(1000)
OWNER = owner("ReplicaSet", "web")


def web(name: str, **more: Any) -> ActorPod:
    return pod(name, owned_by=OWNER, **more)


THREE = [web("a"), web("b"), web("c")]
ONE_ILL = [web("a"), web("b"), web("c", ready=False)]
ONE_GOING = [web("a"), web("b"), web("c", going=990)]


@pytest.mark.parametrize(
    ("spec", "pods", "expected"),
    [
        pytest.param({"minAvailable": 2}, THREE, (3, 2, 3, 1), id="a-number-of-those-there-are"),
        pytest.param({"minAvailable": 2}, ONE_ILL, (3, 2, 2, 0), id="one-is-ill"),
        pytest.param({"minAvailable": 2}, ONE_GOING, (3, 2, 2, 0), id="one-is-going"),
        pytest.param({"minAvailable": 5}, THREE, (3, 5, 3, 0), id="more-than-there-are"),
        pytest.param({"minAvailable": "50%"}, THREE, (10, 5, 3, 0), id="a-share-of-those-asked-for"),
        pytest.param({"minAvailable": "25%"}, THREE, (10, 3, 3, 0), id="a-share-rounds-up"),
        pytest.param({"maxUnavailable": 8}, THREE, (10, 2, 3, 1), id="some-may-be-missing"),
        pytest.param({"maxUnavailable": "75%"}, THREE, (10, 2, 3, 1), id="a-share-may-be-missing"),
        pytest.param({"maxUnavailable": 20}, THREE, (10, 0, 3, 3), id="all-may-be-missing"),
        pytest.param({"minAvailable": 0}, [], (0, 0, 0, 0), id="no-pods-no-disruptions"),
    ],
)
def test_numbers(spec: dict[str, Any], pods: list[ActorPod], expected: tuple[int, ...]) -> None:
    plan = plan_budget(budget(**spec), pods, {"uid-web": ScaleTarget("uid-deployment", 10)}, now=NOW)
    status = merged(plan, "web")["status"]
    seen = (status["expectedPods"], status["desiredHealthy"], status["currentHealthy"], status["disruptionsAllowed"])
    assert seen == expected


def test_two_replica_sets_of_one_deployment_count_once() -> None:
    pods = [web("a"), pod("b", owned_by=owner("ReplicaSet", "next"))]
    scales = {"uid-web": ScaleTarget("uid-deployment", 4), "uid-next": ScaleTarget("uid-deployment", 4)}
    assert merged(plan_budget(budget(maxUnavailable=1), pods, scales, now=NOW), "web")["status"]["expectedPods"] == 4


def test_an_owner_nobody_knows_forbids_everything_and_says_so() -> None:
    status = merged(plan_budget(budget(maxUnavailable=1), THREE, {}, now=NOW), "web")["status"]
    (condition,) = status["conditions"]
    assert status["disruptionsAllowed"] == 0
    assert (condition["status"], condition["reason"]) == ("False", "SyncFailed")


@pytest.mark.parametrize(
    ("evicted", "healthy", "kept", "wake"),
    [
        pytest.param(950, 2, True, 1071, id="granted-and-not-yet-seen"),
        pytest.param(870, 3, False, None, id="two-minutes-are-long-enough"),
    ],
)
def test_an_eviction_that_was_granted(evicted: float, healthy: int, kept: bool, wake: float | None) -> None:
    seen = {"disruptedPods": {"a": write_time(at(evicted))}}
    plan = plan_budget(budget(minAvailable=1, status=seen), THREE, {}, now=NOW)
    status = merged(plan, "web")["status"]
    assert status["currentHealthy"] == healthy
    assert (status["disruptedPods"]["a"] is not None) is kept
    assert seconds(plan.wake_at) == wake


def test_a_status_that_is_true_is_not_written_again() -> None:
    first = merged(plan_budget(budget(minAvailable=1), THREE, {}, now=NOW), "web")["status"]
    assert said(plan_budget(budget(minAvailable=1, status=first), THREE, {}, now=at(2000))) == []
