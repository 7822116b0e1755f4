"""Pods without a claim that tolerate the taint of leased nodes, and pods with one that know ways around it."""

from typing import Any

import pytest

from tests.decide.admission.asking import ALICE, BY_INDEX, POLICY, SCHEDULER, admit, claiming, env_of, guarded, reviewed
from ullage.decide.admission import guard
from ullage.kube.admission.reviews import read_pod
from ullage.kube.client.resource import JsonObject
from ullage.model.admission import AS_IT_IS, AdmissionDenied, DenialReason
from ullage.testing.builders import a_container, a_pod

KIND = "gpu.scheduling/node-kind"
NOT_LEASED = {"key": KIND, "operator": "NotIn", "values": ["leased"]}
EVERYTHING = [{"operator": "Exists"}]
THIS = [{"key": "gpu.scheduling/leased", "operator": "Exists"}]
ALL = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
VOID = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
ZONE = {"key": "zone", "operator": "In", "values": ["a"]}


def pod(tolerations: list[JsonObject] | None = None, **spec: Any) -> JsonObject:
    return a_pod("p", tolerations=EVERYTHING if tolerations is None else tolerations, **spec)


def seeing(*env: JsonObject, **container: Any) -> dict[str, Any]:
    return {"containers": [a_container() | {"env": list(env)} | container]}


def terms_of(stored: JsonObject) -> list[JsonObject]:
    affinity = stored["spec"].get("affinity", {}).get("nodeAffinity", {})
    found: list[JsonObject] = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get(
        "nodeSelectorTerms", []
    )
    return found


ASKING = [
    pytest.param({"gpus": 1}, id="by-number"),
    pytest.param(seeing(ALL), id="by-env"),
    pytest.param(seeing({"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"secretKeyRef": {}}}), id="by-a-secret"),
    pytest.param({"containers": [a_container(limits={"nvidia.com/mig-1g.10gb": "1"})]}, id="by-instance"),
    pytest.param({"annotations": {"cdi.k8s.io/gpu": "nvidia.com/gpu=all"}}, id="by-cdi"),
    pytest.param(
        seeing(volumeMounts=[{"name": "v", "mountPath": "/var/run/nvidia-container-devices/all"}]), id="by-mount"
    ),
    pytest.param({"containers": [a_container()], "initContainers": [a_container("i") | {"env": [ALL]}]}, id="at-start"),
]


@pytest.mark.parametrize("asks", ASKING)
@pytest.mark.parametrize(
    "tolerations",
    [
        pytest.param(EVERYTHING, id="everything"),
        pytest.param(THIS, id="this-taint"),
        pytest.param([{"key": "gpu.scheduling/leased", "value": "true", "effect": "NoSchedule"}], id="its-value"),
    ],
)
def test_whoever_asks_for_gpus_otherwise_is_kept_off_leased_nodes(
    asks: dict[str, Any], tolerations: list[JsonObject]
) -> None:
    asked = pod(tolerations, **asks)
    assert isinstance(refused := guarded(asked), AdmissionDenied)
    assert refused.reason is DenialReason.LEASED_TOLERATED
    stored, judged = admit(asked)
    assert terms_of(stored) == [{"matchExpressions": [NOT_LEASED]}]
    assert "kept off leased nodes" in judged.warnings[0]
    assert guarded(stored) == AS_IT_IS
    assert admit(stored)[0] == stored


@pytest.mark.parametrize(
    ("affinity", "terms"),
    [
        pytest.param({}, [{"matchExpressions": [NOT_LEASED]}], id="empty"),
        pytest.param({"podAffinity": {}}, [{"matchExpressions": [NOT_LEASED]}], id="of-pods"),
        pytest.param(
            {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
            [{"matchExpressions": [NOT_LEASED]}],
            id="only-wishes",
        ),
        pytest.param(
            [{"matchExpressions": [ZONE]}, {"matchFields": [ZONE]}, {}],
            [{"matchExpressions": [ZONE, NOT_LEASED]}, {"matchFields": [ZONE], "matchExpressions": [NOT_LEASED]}, {}],
            id="each-of-several-and-not-the-one-that-matches-nothing",
        ),
        pytest.param(
            [{"matchExpressions": [{"key": KIND, "operator": "In", "values": ["counted"]}]}],
            [{"matchExpressions": [{"key": KIND, "operator": "In", "values": ["counted"]}]}],
            id="it-says-so-itself",
        ),
    ],
)
def test_what_it_says_of_its_node_stays(affinity: Any, terms: list[JsonObject]) -> None:
    if isinstance(affinity, list):
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": affinity}}
        affinity = {"nodeAffinity": required}
    stored, _ = admit(pod(gpus=1, affinity=affinity))
    assert terms_of(stored) == terms


@pytest.mark.parametrize(
    ("asked", "env"),
    [
        pytest.param(pod(), [VOID], id="plain"),
        pytest.param(pod(**seeing({"name": "A", "value": "b"})), [VOID, {"name": "A", "value": "b"}], id="with-env"),
        pytest.param(pod(**seeing(VOID)), [VOID], id="said-already"),
        pytest.param(pod(**seeing({"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"})), None, id="said-otherwise"),
        pytest.param(pod([]), None, id="the-taint-keeps-it-off"),
        pytest.param(pod([{"key": "other", "operator": "Exists"}]), None, id="another-taint-is-tolerated"),
        pytest.param(pod([{"operator": "Exists", "effect": "NoExecute"}]), None, id="another-effect"),
        pytest.param(pod(nodeSelector={KIND: "counted"}), None, id="it-goes-elsewhere"),
        pytest.param(pod([], gpus=1), None, id="by-number-and-the-taint-keeps-it-off"),
    ],
)
def test_whoever_asks_for_none_sees_none_whatever_its_image_says(
    asked: JsonObject, env: list[JsonObject] | None
) -> None:
    stored, judged = admit(asked)
    assert stored == asked if env is None else env_of(stored["spec"]["containers"][0]) == env
    assert (terms_of(stored), judged.warnings, guarded(stored)) == ([], (), AS_IT_IS)
    assert admit(stored)[0] == stored


def test_a_toleration_cannot_come_later() -> None:
    late = read_pod(reviewed(pod(THIS)), "team")
    assert isinstance(guard.tolerating_pod(late, ALICE, POLICY), AdmissionDenied)
    assert guard.tolerating_pod(late, SCHEDULER, POLICY) == AS_IT_IS
    confined = read_pod(reviewed(claiming(tolerations=THIS)), "team")
    elsewhere = read_pod(reviewed(pod(THIS, nodeSelector={KIND: "counted"})), "team")
    assert guard.tolerating_pod(confined, ALICE, POLICY) == guard.tolerating_pod(elsewhere, ALICE, POLICY) == AS_IT_IS


PRIVILEGED = a_container() | {"securityContext": {"privileged": True}}


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        pytest.param({"containers": [PRIVILEGED]}, "securityContext.privileged of container main", id="privileged"),
        pytest.param({"annotations": {"cdi.k8s.io/x": "y"}}, "metadata.annotations[cdi.k8s.io/x]", id="cdi"),
        pytest.param(
            {"volumes": [{"name": "d", "hostPath": {"path": "/dev/"}}]}, "hostPath /dev of volume d", id="all-devices"
        ),
        pytest.param(
            {"volumes": [{"name": "d", "hostPath": {"path": "/dev/nvidia3"}}]}, "hostPath /dev/nvidia3", id="a-device"
        ),
        pytest.param({"volumes": [{"name": "d", "hostPath": {"path": "/"}}]}, "hostPath /", id="the-whole-host"),
        pytest.param({"volumes": [{"name": "d", "hostPath": {"path": "/data"}}]}, None, id="another-folder"),
        pytest.param({"volumes": [{"name": "d", "emptyDir": {}}]}, None, id="no-host-path"),
    ],
)
def test_ways_around_the_env_are_refused_to_pods_with_claims(spec: dict[str, Any], named: str | None) -> None:
    stored, _ = admit(claiming(**spec))
    judged = guarded(stored)
    if named is None:
        assert judged == AS_IT_IS
        return
    assert isinstance(judged, AdmissionDenied)
    assert (judged.reason, named in judged.message) == (DenialReason.UNCONFINED, True)
    assert guarded(stored, policy=BY_INDEX) == AS_IT_IS, "there nobody is confined"
    elsewhere = admit(claiming(nodeSelector={KIND: "counted"}, **spec))[0]
    assert guarded(elsewhere) == AS_IT_IS, "there a device plugin chooses"


SMART = {"tensor-fusion.ai/component": "smart-scheduler"}
CONTROLLER = POLICY.controllers[0]


def test_a_smart_pod_of_the_controller_may_go_where_leased_gpus_are_and_sees_none() -> None:
    asked = pod(THIS, gpus=1, labels=SMART)
    stored, judged = admit(asked, user=CONTROLLER)
    assert (terms_of(stored), judged.warnings) == ([], ())
    assert env_of(stored["spec"]["containers"][0]) == [VOID]
    assert guarded(stored, user=CONTROLLER) == AS_IT_IS


@pytest.mark.parametrize(
    ("labels", "user"),
    [
        pytest.param(SMART, ALICE, id="a-user-with-its-labels"),
        pytest.param({}, CONTROLLER, id="the-controller-with-any-other-pod"),
    ],
)
def test_neither_labels_nor_the_controllers_name_alone_open_leased_nodes(labels: dict[str, str], user: str) -> None:
    asked = pod(THIS, gpus=1, labels=labels)
    assert isinstance(guarded(asked, user=user), AdmissionDenied)
    stored, _ = admit(asked, user=user)
    assert terms_of(stored) == [{"matchExpressions": [NOT_LEASED]}]
