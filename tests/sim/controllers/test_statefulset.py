"""StatefulSets: one step at a time, in order."""

from typing import Any

import msgspec
import pytest

from tests.sim.controllers.things import NS, at, merged, owner, pod, said, stateful_set
from ullage.sim.controllers.objects import ActorPod, ControllerRevision, StatefulSet
from ullage.sim.controllers.statefulset import plan_stateful_set
from ullage.sim.controllers.statefulset_pod import POD_REVISION, snapshot
from ullage.sim.controllers.writes import ControllerPlan, CreateObject

NOW = at(1000)
OLD_TEMPLATE = {"metadata": {"labels": {"app": "db"}, "annotations": {"v": "1"}}, "spec": {"containers": []}}


def revision(number: int, template: dict[str, Any]) -> ControllerRevision:
    name = f"db-{number}"
    body = {
        "metadata": {"name": f"rev-{number}", "namespace": NS, "uid": f"uid-{name}", "resourceVersion": "1"},
        "data": snapshot(template),
        "revision": number,
    }
    return msgspec.convert(body, ControllerRevision)


def numbered(ordinal: int, made_from: int = 1, **more: Any) -> ActorPod:
    labels = {"app": "db", POD_REVISION: f"rev-{made_from}"}
    return pod(f"db-{ordinal}", labels=labels, owned_by=owner("StatefulSet", "db"), **more)


def planned(owner_set: StatefulSet, pods: list[ActorPod]) -> list[str]:
    """Steps on pods only, with the present template recorded as revision 1."""
    known = [revision(1, owner_set.spec.template)]
    plan = plan_stateful_set(owner_set, known, pods, frozenset(), now=NOW)
    return [each for each in said(plan) if " pods" in each]


@pytest.mark.parametrize(
    ("replicas", "pods", "in_order", "in_parallel"),
    [
        pytest.param(2, [], ["create pods/db-0"], ["create pods/db-0", "create pods/db-1"], id="the-first"),
        pytest.param(2, [numbered(0, phase="Pending")], [], ["create pods/db-1"], id="the-second-waits-for-the-first"),
        pytest.param(2, [numbered(0)], ["create pods/db-1"], ["create pods/db-1"], id="then-the-second"),
        pytest.param(2, [numbered(1)], ["create pods/db-0"], ["create pods/db-0"], id="a-gap-is-filled"),
        pytest.param(
            1, [numbered(0, phase="Failed")], ["delete pods/db-0"], ["delete pods/db-0"], id="a-failed-one-goes-first"
        ),
        pytest.param(1, [numbered(0, going=999)], [], [], id="its-name-is-free-only-when-it-is-gone"),
        pytest.param(
            1,
            [numbered(0), numbered(1), numbered(2)],
            ["delete pods/db-2"],
            ["delete pods/db-2", "delete pods/db-1"],
            id="the-highest-goes-first",
        ),
        pytest.param(
            1, [numbered(0), numbered(1), numbered(2, going=999)], [], ["delete pods/db-1"], id="one-goes-at-a-time"
        ),
        pytest.param(
            1,
            [numbered(0, phase="Pending"), numbered(1)],
            [],
            ["delete pods/db-1"],
            id="nobody-goes-while-a-keeper-is-not-ready",
        ),
    ],
)
def test_steps(replicas: int, pods: list[ActorPod], in_order: list[str], in_parallel: list[str]) -> None:
    assert planned(stateful_set(replicas=replicas), pods) == in_order
    assert planned(stateful_set(replicas=replicas, podManagementPolicy="Parallel"), pods) == in_parallel


def updating(pods: list[ActorPod], **spec: Any) -> ControllerPlan:
    """A step of the way from revision 1 to revision 2."""
    owner_set = stateful_set(replicas=3, status={"currentRevision": "rev-1"}, **spec)
    known = [revision(1, OLD_TEMPLATE), revision(2, owner_set.spec.template)]
    return plan_stateful_set(owner_set, known, pods, frozenset(), now=NOW)


ALL_OLD = [numbered(0), numbered(1), numbered(2)]


@pytest.mark.parametrize(
    ("pods", "strategy", "expected"),
    [
        pytest.param(ALL_OLD, {}, ["delete pods/db-2"], id="from-the-highest-down"),
        pytest.param([*ALL_OLD[:2], numbered(2, 2)], {}, ["delete pods/db-1"], id="then-the-next"),
        pytest.param([*ALL_OLD[:2], numbered(2, 2, ready=False)], {}, [], id="the-next-waits-until-it-is-ready"),
        pytest.param(ALL_OLD, {"type": "OnDelete"}, [], id="on-delete-leaves-them"),
        pytest.param(
            [*ALL_OLD[:2], numbered(2, 2)], {"rollingUpdate": {"partition": 2}}, [], id="not-below-the-partition"
        ),
        pytest.param(
            ALL_OLD,
            {"rollingUpdate": {"maxUnavailable": 2}},
            ["delete pods/db-2", "delete pods/db-1"],
            id="several-at-a-time-if-allowed",
        ),
    ],
)
def test_updates(pods: list[ActorPod], strategy: dict[str, Any], expected: list[str]) -> None:
    assert [each for each in said(updating(pods, updateStrategy=strategy)) if " pods" in each] == expected


@pytest.mark.parametrize(
    ("partition", "expected"),
    [pytest.param(0, "rev-2", id="new"), pytest.param(3, "rev-1", id="below-the-partition-the-old-one")],
)
def test_the_template_a_missing_pod_is_made_from(partition: int, expected: str) -> None:
    plan = updating([], updateStrategy={"rollingUpdate": {"partition": partition}})
    create = plan.writes[0]
    assert isinstance(create, CreateObject)
    assert create.body["metadata"]["labels"][POD_REVISION] == expected


def test_a_new_template_is_recorded_before_anything_else() -> None:
    plan = plan_stateful_set(stateful_set(replicas=1), [], [], frozenset(), now=NOW)
    (create,) = plan.writes
    assert isinstance(create, CreateObject)
    assert (create.resource.plural, create.body["revision"]) == ("controllerrevisions", 1)


def test_a_template_that_comes_back_becomes_the_newest_revision() -> None:
    owner_set = stateful_set(replicas=1)
    known = [revision(1, owner_set.spec.template), revision(2, OLD_TEMPLATE)]
    plan = plan_stateful_set(owner_set, known, [], frozenset(), now=NOW)
    assert merged(plan, "rev-1")["revision"] == 3


def test_claims_are_made_once() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    owner_set = stateful_set(replicas=1, volumeClaimTemplates=[claim])
    known = [revision(1, owner_set.spec.template)]
    fresh = plan_stateful_set(owner_set, known, [], frozenset(), now=NOW)
    again = plan_stateful_set(owner_set, known, [], frozenset({"data-db-0"}), now=NOW)
    assert said(fresh)[:2] == ["create persistentvolumeclaims/data-db-0", "create pods/db-0"]
    assert said(again)[0] == "create pods/db-0"


def test_when_all_are_updated_the_update_is_the_present() -> None:
    status = merged(updating([numbered(0, 2), numbered(1, 2), numbered(2, 2)]), "db")["status"]
    assert (status["currentRevision"], status["currentReplicas"], status["updatedReplicas"]) == ("rev-2", 3, 3)
