"""What a new pod is changed to."""

from typing import Any

import pytest

from tests.decide.admission.asking import (
    ALICE,
    BY_INDEX,
    MISSING,
    OURS,
    POLICY,
    SCHEDULER,
    a_claim,
    admit,
    claiming,
    env_of,
    guarded,
    reference,
    reviewed,
)
from ullage.act.fence import FENCE
from ullage.decide.admission import mutate
from ullage.kube.admission.reviews import json_patch, read_pod
from ullage.kube.client.resource import JsonObject
from ullage.model.admission import AS_IT_IS, OUTPUTS, UNSETTLED_BIND
from ullage.model.allocation import ALLOCATED, CLAIM_TEMPLATE, VISIBLE_DEVICES, VISIBLE_INDICES
from ullage.model.claim import DevicePolicy, Exclusivity
from ullage.sim.apiserver.merge.json_patches import apply_operations
from ullage.testing.builders import GPU, a_container, a_pod

BY_UUID = [
    {"name": "NVIDIA_VISIBLE_DEVICES", **reference(VISIBLE_DEVICES)},
    {"name": "CUDA_VISIBLE_DEVICES", **reference(VISIBLE_DEVICES)},
]
BY_NUMBER = [
    {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
    {"name": "CUDA_VISIBLE_DEVICES", **reference(VISIBLE_INDICES)},
    {"name": "CUDA_DEVICE_ORDER", "value": "PCI_BUS_ID"},
]


def test_every_container_gets_the_env() -> None:
    sidecar = a_container("sidecar") | {"restartPolicy": "Always"}
    pod = claiming(containers=[a_container("a"), a_container("b")], initContainers=[a_container("init"), sidecar])
    stored, _ = admit(pod)
    everyone = stored["spec"]["containers"] + stored["spec"]["initContainers"]
    assert [env_of(container) for container in everyone] == [BY_UUID] * 4


def test_by_index_the_container_sees_all_in_the_hosts_order() -> None:
    stored, _ = admit(claiming(), policy=BY_INDEX)
    assert env_of(stored["spec"]["containers"][0]) == BY_NUMBER


OTHER = {"name": "LOG", "value": "$(CUDA_VISIBLE_DEVICES)"}
SECRET = {"name": "CUDA_VISIBLE_DEVICES", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}


@pytest.mark.parametrize(
    ("env", "kept"),
    [
        pytest.param(None, [], id="no-env"),
        pytest.param([], [], id="an-empty-env"),
        pytest.param([OTHER], [OTHER], id="others-stay-behind-ours-so-that-they-can-refer-to-them"),
        pytest.param([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}, OTHER], [OTHER], id="a-users-own"),
        pytest.param([OTHER, SECRET, OTHER, SECRET], [OTHER, OTHER], id="several-also-out-of-secrets"),
        pytest.param([*BY_UUID, {"name": "CUDA_VISIBLE_DEVICES", "value": "0"}], [], id="ours-and-a-later-one"),
        pytest.param(
            [{"name": "CUDA_VISIBLE_DEVICES", **reference("mine")}], [], id="a-reference-to-another-annotation"
        ),
    ],
)
def test_user_set_duplicates_are_replaced(env: list[JsonObject] | None, kept: list[JsonObject]) -> None:
    container = a_container() | ({} if env is None else {"env": env})
    stored, _ = admit(claiming(containers=[container]))
    assert env_of(stored["spec"]["containers"][0]) == [*BY_UUID, *kept]


def gpus(app: int = 0, second: int = 0, init: int = 0, sidecar: int = 0) -> dict[str, Any]:
    def asking(name: str, count: int) -> JsonObject:
        asked = {GPU: str(count)} if count else None
        return a_container(name, requests=asked, limits=asked)

    inits = [asking("side", sidecar) | {"restartPolicy": "Always"}, asking("init", init)]
    return {"containers": [asking("first", app), asking("second", second)], "initContainers": inits}


@pytest.mark.parametrize(
    ("asked", "count", "first", "second"),
    [
        pytest.param(gpus(), 2, "2", None, id="none-asked-for-goes-to-the-first"),
        pytest.param(gpus(app=2), 2, "2", None, id="as-many-stay"),
        pytest.param(gpus(app=4), 2, "4", None, id="more-stay"),
        pytest.param(gpus(app=1), 4, "4", None, id="fewer-are-raised"),
        pytest.param(gpus(second=1), 4, None, "4", id="to-the-container-that-asks"),
        pytest.param(gpus(app=1, second=1), 4, "3", "1", id="what-others-ask-for-counts"),
        pytest.param(gpus(sidecar=1), 4, "3", None, id="sidecars-count"),
        pytest.param(gpus(init=4), 4, None, None, id="an-init-step-that-takes-all-is-enough"),
        pytest.param(gpus(init=2), 4, "4", None, id="an-init-step-that-takes-some-is-not-added-up"),
        pytest.param(gpus(sidecar=1, init=3), 4, None, None, id="an-init-step-beside-a-sidecar"),
    ],
)
def test_the_request_is_not_less_than_the_claim(
    asked: dict[str, Any], count: int, first: str | None, second: str | None
) -> None:
    stored, _ = admit(claiming(**asked), a_claim(count))
    for container, expected in zip(stored["spec"]["containers"], (first, second), strict=True):
        resources = container.get("resources", {})
        assert resources.get("requests", {}).get(GPU) == expected
        assert resources.get("limits", {}).get(GPU) == expected


def test_other_resources_of_the_container_stay() -> None:
    container = a_container(requests={"cpu": "1"}, limits={"memory": "1Gi"})
    stored, _ = admit(claiming(containers=[container]), a_claim(2))
    assert stored["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "1", GPU: "2"},
        "limits": {"memory": "1Gi", GPU: "2"},
    }


@pytest.mark.parametrize("exclusivity", [Exclusivity.SHARED, Exclusivity.MIG])
def test_parts_of_gpus_request_no_whole_ones(exclusivity: Exclusivity) -> None:
    stored, _ = admit(claiming(), a_claim(2, exclusivity=exclusivity, memory=1 << 30))
    assert "resources" not in stored["spec"]["containers"][0]
    assert env_of(stored["spec"]["containers"][0]) == BY_UUID


@pytest.mark.parametrize(
    ("named", "stored_as", "warned"),
    [
        pytest.param("default-scheduler", "gpu-scheduler", False, id="the-default-becomes-ours"),
        pytest.param("", "gpu-scheduler", False, id="none-becomes-ours"),
        pytest.param("gpu-scheduler", "gpu-scheduler", False, id="ours-stays"),
        pytest.param("volcano", "volcano", True, id="anothers-stays-with-a-warning"),
    ],
)
def test_scheduler_name(named: str, stored_as: str, warned: bool) -> None:
    stored, judged = admit(claiming() | {"spec": claiming()["spec"] | {"schedulerName": named}})
    assert stored["spec"]["schedulerName"] == stored_as
    assert any("volcano" in text for text in judged.warnings) == warned


LEASED, GPU_NODES = "gpu.scheduling/leased", "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("tolerations", "added"),
    [
        pytest.param(None, [LEASED, GPU_NODES], id="none"),
        pytest.param([{"key": "x", "operator": "Exists"}], [LEASED, GPU_NODES], id="another"),
        pytest.param([{"key": LEASED, "operator": "Exists"}], [GPU_NODES], id="leased-nodes"),
        pytest.param([{"key": GPU_NODES, "operator": "Exists"}], [LEASED], id="gpu-nodes"),
        pytest.param([{"key": GPU_NODES, "value": "x"}], [LEASED, GPU_NODES], id="gpu-nodes-with-one-value"),
        pytest.param([{"operator": "Exists"}], [], id="everything"),
        pytest.param(
            [{"operator": "Exists", "effect": "NoExecute"}], [LEASED, GPU_NODES], id="everything-of-another-effect"
        ),
    ],
)
def test_taints_of_gpu_nodes_are_tolerated(tolerations: list[JsonObject] | None, added: list[str]) -> None:
    stored, _ = admit(claiming(**({} if tolerations is None else {"tolerations": tolerations})))
    ours = [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in added]
    assert stored["spec"].get("tolerations", []) == [*(tolerations or []), *ours]


KIND = "gpu.scheduling/node-kind"


@pytest.mark.parametrize(
    ("selector", "stored_as"),
    [
        pytest.param(None, {KIND: "leased"}, id="none"),
        pytest.param({}, {KIND: "leased"}, id="empty"),
        pytest.param({"zone": "a"}, {"zone": "a", KIND: "leased"}, id="another"),
        pytest.param({KIND: "leased"}, {KIND: "leased"}, id="said-already"),
        pytest.param({KIND: "counted"}, {KIND: "counted"}, id="a-device-plugin-is-wanted"),
    ],
)
def test_a_pod_with_our_env_goes_only_where_we_choose_the_gpus(
    selector: dict[str, str] | None, stored_as: dict[str, str]
) -> None:
    stored, _ = admit(claiming(**({} if selector is None else {"nodeSelector": selector})))
    assert stored["spec"]["nodeSelector"] == stored_as


def test_a_template_is_a_claim() -> None:
    pod = a_pod("p", annotations={CLAIM_TEMPLATE: "c"})
    stored, _ = admit(pod, a_claim(2))
    assert env_of(stored["spec"]["containers"][0]) == BY_UUID
    assert stored["spec"]["containers"][0]["resources"]["limits"] == {GPU: "2"}


def test_without_its_claim_a_pod_is_prepared_but_for_the_request() -> None:
    stored, judged = admit(claiming(), MISSING)
    assert env_of(stored["spec"]["containers"][0]) == BY_UUID
    assert stored["spec"]["schedulerName"] == "gpu-scheduler"
    assert "resources" not in stored["spec"]["containers"][0]
    assert judged.warnings == (
        "GpuClaim team/c is not there; nvidia.com/gpu is not set, and the pod waits until there is one",
    )


def test_a_pod_without_a_claim_is_only_stripped() -> None:
    pod = a_pod("p", annotations={"gpu.scheduling/scale-down-disabled": "true", ALLOCATED: "n:0"})
    stored, _ = admit(pod)
    assert stored == a_pod("p", annotations={"gpu.scheduling/scale-down-disabled": "true"})


def test_every_output_annotation_a_user_writes_is_stripped() -> None:
    stored, _ = admit(claiming(annotations=dict.fromkeys(OUTPUTS, "x") | {"mine": "stays"}))
    assert stored["metadata"]["annotations"] == {"gpu.scheduling/claim": "c", "mine": "stays"}
    assert UNSETTLED_BIND == FENCE


WRITTEN = {ALLOCATED: "n:0,1", VISIBLE_DEVICES: "GPU-a,GPU-b", VISIBLE_INDICES: "0,1"}


@pytest.mark.parametrize(
    ("policy", "values"),
    [
        pytest.param(POLICY, ["GPU-a,GPU-b", "GPU-a,GPU-b"], id="by-uuid"),
        pytest.param(BY_INDEX, ["all", "0,1", "PCI_BUS_ID"], id="by-index"),
    ],
)
def test_what_the_scheduler_has_allocated_already_becomes_literal(policy: Any, values: list[str]) -> None:
    stored, _ = admit(claiming(annotations=WRITTEN), user=SCHEDULER, policy=policy)
    assert [entry["value"] for entry in env_of(stored["spec"]["containers"][0])] == values
    assert stored["metadata"]["annotations"] == {"gpu.scheduling/claim": "c", **WRITTEN}


def test_anybody_elses_allocation_never_becomes_literal() -> None:
    stored, _ = admit(claiming(annotations=WRITTEN), user=ALICE)
    assert env_of(stored["spec"]["containers"][0]) == BY_UUID


@pytest.mark.parametrize(
    ("spec", "labels"),
    [
        pytest.param({"nodeSelector": {"gpu.scheduling/node-kind": "counted"}}, (), id="by-the-pods-selector"),
        pytest.param({}, (("gpu.scheduling/node-kind", "Counted"),), id="by-the-claims-labels"),
    ],
)
def test_where_a_device_plugin_chooses_the_env_is_the_plugins(spec: dict[str, Any], labels: Any) -> None:
    stored, _ = admit(claiming(**spec), a_claim(2, node_labels=labels))
    assert env_of(stored["spec"]["containers"][0]) == []
    assert stored["spec"]["containers"][0]["resources"]["requests"] == {GPU: "2"}


def test_where_it_may_go_is_the_pods_own_word_whatever_becomes_of_the_claim() -> None:
    """The claim is edited after the pod was let in: one without our env must not come to leased GPUs."""
    for labels, kind, confined in (
        ((("gpu.scheduling/node-kind", "counted"),), "counted", False),
        ((), "leased", True),
    ):
        stored, _ = admit(claiming(), a_claim(2, node_labels=labels))
        assert stored["spec"]["nodeSelector"] == {KIND: kind}
        assert (env_of(stored["spec"]["containers"][0]) == BY_UUID) is confined
        keys = [one["key"] for one in stored["spec"]["tolerations"]]
        assert keys == ([LEASED, GPU_NODES] if confined else [GPU_NODES])
        assert guarded(stored) == AS_IT_IS


def test_a_request_above_the_named_ids_is_warned_of() -> None:
    exact = a_claim(2, policy=DevicePolicy.PREFER_IDS, prefer_ids=(0, 1))
    _, judged = admit(claiming(gpus=3), exact)
    assert judged.warnings == ("the pod requests 3 nvidia.com/gpu, and preferIds of GpuClaim team/c names 2",)


def test_only_new_ephemeral_containers_get_the_env() -> None:
    old = a_container("old")
    pod = claiming(ephemeralContainers=[old, a_container("new") | {"env": [{"name": "CUDA_VISIBLE_DEVICES"}]}])
    before = read_pod(reviewed(claiming(ephemeralContainers=[old])), "team").containers
    judgement = mutate.new_ephemeral(read_pod(reviewed(pod), "team"), before, a_claim(8), POLICY)
    patch = json_patch(judgement.changes, reviewed(pod))
    assert all(step["path"].startswith("/spec/ephemeralContainers/1/") for step in patch)
    stored = apply_operations(pod, patch)
    assert env_of(stored["spec"]["ephemeralContainers"][1]) == BY_UUID
    assert {entry["name"] for entry in BY_UUID + BY_NUMBER} == OURS
