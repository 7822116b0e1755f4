"""Whose demand counts."""

import pytest

from tests.decide.scenes import Scene, claim, pod
from ullage.decide.gang.placement import GangRequest
from ullage.decide.provisioning.pending import buys_for, pending_pods_and_gangs
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.kube.client.resource import JsonObject

OURS = "gpu-scheduler"


def said(body: JsonObject, reason: str = "", status: str = "False") -> JsonObject:
    """A pod whose scheduler has said this of it."""
    condition = {"type": "PodScheduled", "status": status, "reason": reason}
    return body | {"status": {"phase": "Pending", "conditions": [condition] if reason else []}}


def counted(*objects: JsonObject) -> list[str]:
    assigner = PodAssigner(Scene(*objects).snapshot)
    turns = pending_pods_and_gangs(assigner, buys_for((OURS, "batch-scheduler")))
    return [str(turn.key) for turn in turns]


@pytest.mark.parametrize(
    ("scheduler", "reason", "counts"),
    [
        pytest.param(OURS, "", True, id="ours-before-anything-is-said-of-it"),
        pytest.param(OURS, "Unschedulable", True, id="ours-found-unschedulable"),
        pytest.param("batch-scheduler", "", True, id="of-another-profile-of-ours"),
        pytest.param(OURS, "WaitingForCapacity", False, id="ours-for-which-a-node-is-on-its-way"),
        pytest.param("default-scheduler", "", False, id="of-others-who-have-not-looked-at-it"),
        pytest.param("default-scheduler", "Unschedulable", True, id="of-others-found-unschedulable"),
        pytest.param("default-scheduler", "SchedulerError", False, id="of-others-who-failed-themselves"),
        pytest.param("default-scheduler", "WaitingForCapacity", False, id="of-others-served-by-other-means"),
    ],
)
def test_for_whom_nodes_are_bought(scheduler: str, reason: str, counts: bool) -> None:
    assert counted(said(pod("p", 1, schedulerName=scheduler), reason)) == (["team/p"] if counts else [])


def test_a_pod_that_was_unschedulable_and_is_no_longer_does_not_count() -> None:
    assert counted(said(pod("p", 1, schedulerName="other"), "Unschedulable", status="True")) == []


@pytest.mark.parametrize(
    ("of_others", "counts"),
    [pytest.param("Unschedulable", True, id="all-of-it-waits"), pytest.param("", False, id="one-has-not-been-asked")],
)
def test_a_gang_counts_with_those_who_count(of_others: str, counts: bool) -> None:
    members = [
        part
        for number, (scheduler, reason) in enumerate([(OURS, ""), ("other", of_others)])
        for part in (
            claim(f"c{number}", 1, gangRef="g", gangMinMember=2),
            said(pod(f"g{number}", claim=f"c{number}", schedulerName=scheduler), reason),
        )
    ]
    assert counted(*members) == (["team/g"] if counts else [])


def test_without_a_choice_everybody_counts_who_waits() -> None:
    assigner = PodAssigner(Scene(pod("p", 1, schedulerName="other"), pod("q", 1, on="a")).snapshot)
    turns = list(pending_pods_and_gangs(assigner))
    assert not any(isinstance(turn, GangRequest) for turn in turns)
    assert [str(turn.key) for turn in turns] == ["team/p"]
