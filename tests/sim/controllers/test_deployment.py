"""Deployments: sizes on the way from an old template to a new one, and what is said about it."""

from typing import Any

import pytest

from tests.sim.controllers.things import at, deployment, merged, owner, pod, replica_set, said
from ullage.kube.objects.workload import KubeWorkload
from ullage.sim.controllers.deployment import plan_deployment
from ullage.sim.controllers.deployment_scale import (
    DESIRED,
    MAXIMUM,
    RolloutBounds,
    fenceposts,
    new_size,
    old_sizes,
    proportional_sizes,
)
from ullage.sim.controllers.writes import ControllerPlan, CreateObject, MergeObject

NOW = at(1000)
NEW_TEMPLATE = {"metadata": {"labels": {"app": "web"}, "annotations": {"v": "2"}}, "spec": {"containers": []}}


def rolling(surge: Any, unavailable: Any) -> dict[str, Any]:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


@pytest.mark.parametrize(
    ("replicas", "strategy", "expected"),
    [
        pytest.param(10, {}, RolloutBounds(3, 2), id="a-quarter-is-the-default"),
        pytest.param(10, rolling("30%", "30%"), RolloutBounds(3, 3), id="percent"),
        pytest.param(10, rolling("25%", "25%"), RolloutBounds(3, 2), id="surge-rounds-up-unavailable-down"),
        pytest.param(1, rolling("0%", "25%"), RolloutBounds(0, 1), id="both-zero-would-stand-still"),
        pytest.param(3, rolling(1, 5), RolloutBounds(1, 3), id="no-more-missing-than-there-are"),
        pytest.param(3, {"type": "Recreate"}, RolloutBounds(0, 0), id="recreate-has-none"),
    ],
)
def test_fenceposts(replicas: int, strategy: dict[str, Any], expected: RolloutBounds) -> None:
    assert fenceposts(deployment(replicas=replicas, strategy=strategy)) == expected


def a_set(name: str, replicas: int, available: int, *, created: int = 0, maximum: int = 0) -> KubeWorkload:
    notes = {DESIRED: "10", MAXIMUM: str(maximum)} if maximum else {}
    meta = {"annotations": notes, "creationTimestamp": f"2026-01-01T00:00:{created:02}Z"}
    status = {"replicas": replicas, "availableReplicas": available, "readyReplicas": available}
    return replica_set(name, replicas=replicas, status=status, meta=meta)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(10, 0, 3, id="grows-by-the-surge"),
        pytest.param(8, 3, 5, id="fills-what-the-old-ones-left"),
        pytest.param(0, 9, 10, id="never-beyond-what-is-wanted"),
        pytest.param(13, 0, 0, id="no-room-no-growth"),
        pytest.param(0, 12, 10, id="too-large-shrinks-at-once"),
    ],
)
def test_the_size_of_the_new_set(old: int, new: int, expected: int) -> None:
    everyone = [a_set("old", old, old), a_set("new", new, new)]
    assert new_size(deployment(replicas=10), everyone, new, RolloutBounds(3, 2)) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param([(10, 10)], (3, 0), [("a", 8)], id="by-what-may-be-missing"),
        pytest.param([(8, 8)], (5, 5), [("a", 3)], id="by-what-is-new-and-available"),
        pytest.param([(8, 8)], (5, 0), [], id="not-while-the-new-ones-are-not-available"),
        pytest.param([(4, 0), (6, 6)], (3, 0), [("a", 2)], id="unavailable-ones-first"),
        pytest.param([(5, 5), (5, 5)], (3, 3), [("a", 0)], id="oldest-first"),
        pytest.param([(0, 0)], (10, 10), [], id="nothing-left"),
    ],
)
def test_the_sizes_of_old_sets(
    old: list[tuple[int, int]], new: tuple[int, int], expected: list[tuple[str, int]]
) -> None:
    sets = [a_set("ab"[index], *size, created=index) for index, size in enumerate(old)]
    resizes = old_sizes(deployment(replicas=10), a_set("new", *new, created=30), sets, RolloutBounds(3, 2))
    assert [(each.replica_set.metadata.name, each.replicas) for each in resizes] == expected


def test_scaling_in_the_middle_of_a_rollout_is_shared_by_size() -> None:
    old, new = a_set("old", 8, 8, maximum=13), a_set("new", 5, 2, created=9, maximum=13)
    resizes = proportional_sizes(deployment(replicas=20), new, [old], RolloutBounds(5, 5))
    assert {each.replica_set.metadata.name: each.replicas for each in resizes} == {"old": 15, "new": 10}


def test_scaling_at_rest_goes_to_the_one_active_set() -> None:
    old, new = a_set("old", 0, 0), a_set("new", 10, 10, created=9)
    (resize,) = proportional_sizes(deployment(replicas=4), new, [old], RolloutBounds(1, 1))
    assert (resize.replica_set.metadata.name, resize.replicas) == ("new", 4)


def test_a_new_deployment_makes_its_replica_set() -> None:
    plan = plan_deployment(deployment(replicas=3), [], [], now=NOW)
    create = plan.writes[0]
    assert isinstance(create, CreateObject)
    label = create.body["metadata"]["labels"]["pod-template-hash"]
    assert create.body["metadata"]["name"] == f"web-{label}"
    assert create.body["spec"]["replicas"] == 3
    assert create.body["spec"]["template"]["metadata"]["labels"] == {"app": "web", "pod-template-hash": label}
    assert said(plan)[1:] == ["merge deployments/web/status"]


def test_a_name_taken_by_a_stranger_leads_to_another_name() -> None:
    first = plan_deployment(deployment(replicas=1), [], [], now=NOW).writes[0]
    assert isinstance(first, CreateObject)
    taken = first.body["metadata"]["name"]
    collided = plan_deployment(deployment(replicas=1), [], [], frozenset({taken}), now=NOW)
    assert merged(collided, "web")["status"] == {"collisionCount": 1}
    again = plan_deployment(deployment(replicas=1, status={"collisionCount": 1}), [], [], frozenset({taken}), now=NOW)
    assert isinstance(again.writes[0], CreateObject)
    assert again.writes[0].body["metadata"]["name"] != taken


def grown(plan: ControllerPlan) -> dict[str, int]:
    """Replicas each ReplicaSet is told to have."""
    return {
        write.name: write.body["spec"]["replicas"]
        for write in plan.writes
        if isinstance(write, MergeObject) and "replicas" in write.body.get("spec", {})
    }


def noted(each: KubeWorkload, *, revision: int = 1) -> KubeWorkload:
    each.metadata.annotations.update({"deployment.kubernetes.io/revision": str(revision), DESIRED: "2", MAXIMUM: "3"})
    return each


def test_recreate_first_empties_then_waits_then_fills() -> None:
    wanted = deployment(replicas=2, strategy={"type": "Recreate"}, template=NEW_TEMPLATE)
    old = noted(replica_set("old", labels={"app": "web"}, replicas=2, status={"replicas": 2}))
    assert grown(plan_deployment(wanted, [old], [], now=NOW)) == {"old": 0}
    emptied = noted(replica_set("old", labels={"app": "web"}, replicas=0))
    lingering = pod("a", owned_by=owner("ReplicaSet", "old"), going=999)
    waiting = plan_deployment(wanted, [emptied], [lingering], now=NOW)
    assert said(waiting) == ["merge deployments/web/status"]
    filling = plan_deployment(wanted, [emptied], [], now=NOW)
    assert isinstance(filling.writes[0], CreateObject)
    assert filling.writes[0].body["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"


def conditions(plan: ControllerPlan) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in merged(plan, "web")["status"]["conditions"]}


def progressing(reason: str, updated: float, status: str = "True") -> dict[str, Any]:
    moment = f"2026-01-01T00:{int(updated) // 60:02}:{int(updated) % 60:02}Z"
    return {
        "type": "Progressing",
        "status": status,
        "reason": reason,
        "lastUpdateTime": moment,
        "lastTransitionTime": moment,
    }


@pytest.mark.parametrize(
    ("available", "before", "expected"),
    [
        pytest.param(2, progressing("ReplicaSetUpdated", 900), ("True", "NewReplicaSetAvailable"), id="complete"),
        pytest.param(1, progressing("ReplicaSetUpdated", 0), ("True", "ReplicaSetUpdated"), id="some-progress"),
        pytest.param(0, progressing("ReplicaSetUpdated", 0), ("False", "ProgressDeadlineExceeded"), id="stuck"),
        pytest.param(0, progressing("ReplicaSetUpdated", 900), ("True", "ReplicaSetUpdated"), id="not-stuck-yet"),
    ],
)
def test_what_is_said_of_progress(available: int, before: dict[str, Any], expected: tuple[str, str]) -> None:
    counts = {"replicas": 2, "readyReplicas": available, "availableReplicas": available}
    new = noted(replica_set("new", labels={"app": "web"}, replicas=2, status=counts))
    seen = {"replicas": 2, "updatedReplicas": 2, "observedGeneration": 1, "conditions": [before]}
    plan = plan_deployment(deployment(replicas=2, status=seen), [new], [], now=NOW)
    assert conditions(plan)["Progressing"] == expected
