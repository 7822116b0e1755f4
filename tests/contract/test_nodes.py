"""Nodes: what they offer, their taints, and what may not change."""

import pytest

from tests.contract.expect import refused
from tests.contract.kinds import NODE
from tests.contract.steps import version
from ullage.errors import Conflict, Invalid, NotFound
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import NODES
from ullage.testing.builders import a_node, a_taint, with_meta

DUPLICATE, UNSUPPORTED, REQUIRED = "FieldValueDuplicate", "FieldValueNotSupported", "FieldValueRequired"
INVALID, FORBIDDEN = "FieldValueInvalid", "FieldValueForbidden"


async def test_new_node_keeps_the_status_it_brings(api: KubeApi, ns: str) -> None:
    made = await api.create(NODE, a_node(f"{ns}-a", gpus=8, labels={"zone": "z1"}))
    assert made["status"]["capacity"] == {"cpu": "32", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"}
    assert [one["type"] for one in made["status"]["conditions"]] == ["Ready"]
    assert "namespace" not in made["metadata"]


async def test_new_node_has_no_taints_of_its_own(api: KubeApi, ns: str) -> None:
    read = (await api.create(NODES, a_node(f"{ns}-a", ready=False))).spec
    assert (read.taints, read.unschedulable) == ((), False)


async def test_capacity_alone_is_allocatable_too(api: KubeApi, ns: str) -> None:
    made = await api.create(NODE, {"metadata": {"name": f"{ns}-a"}, "status": {"capacity": {"cpu": "4000m"}}})
    assert made["status"]["allocatable"] == {"cpu": "4"}


async def test_cordon_and_uncordon(api: KubeApi, ns: str) -> None:
    await api.create(NODE, a_node(f"{ns}-a"))
    cordoned = await api.patch(NODE, f"{ns}-a", MergePatch({"spec": {"unschedulable": True}}))
    assert cordoned["spec"]["unschedulable"] is True
    opened = await api.patch(NODE, f"{ns}-a", MergePatch({"spec": {"unschedulable": False}}))
    assert "unschedulable" not in opened["spec"]


async def test_taints_come_and_go(api: KubeApi, ns: str) -> None:
    name, doom = f"{ns}-a", a_taint("gpu.scheduling/deletion-time", "1800000000")
    await api.create(NODE, a_node(name))
    tainted = await api.patch(NODE, name, MergePatch({"spec": {"taints": [doom]}}))
    assert tainted["spec"]["taints"] == [doom]
    assert "taints" not in (await api.patch(NODE, name, MergePatch({"spec": {"taints": []}})))["spec"]


async def test_taint_is_conditional_on_the_node_we_saw(api: KubeApi, ns: str) -> None:
    name = f"{ns}-a"
    seen = await api.create(NODE, a_node(name))
    await api.patch(NODE, name, MergePatch({"spec": {"taints": [a_taint("theirs", "1")]}}))
    ours = {"metadata": {"resourceVersion": version(seen)}, "spec": {"taints": [a_taint("ours", "1")]}}
    with refused(Conflict, reason="Conflict", says="the object has been modified"):
        await api.patch(NODE, name, MergePatch(ours))


@pytest.mark.parametrize(
    ("taints", "causes"),
    [
        pytest.param([{"key": "k", "effect": "Maybe"}], [("metadata.taints[0].effect", UNSUPPORTED)], id="effect"),
        pytest.param([{"key": "k"}], [("metadata.taints[0].effect", REQUIRED)], id="no-effect"),
        pytest.param([a_taint("k k", "v")], [("metadata.taints[0].key", INVALID)], id="key-with-space"),
        pytest.param(
            [a_taint("k", "2030-01-01T00:00:00Z")], [("metadata.taints[0].value", INVALID)], id="value-with-colons"
        ),
        pytest.param([a_taint("k", "1"), a_taint("k", "2")], [("metadata.taints[1]", DUPLICATE)], id="twice"),
    ],
)
async def test_bad_taints_are_refused(
    api: KubeApi, ns: str, taints: list[JsonObject], causes: list[tuple[str, str]]
) -> None:
    await api.create(NODE, a_node(f"{ns}-a"))
    with refused(Invalid, reason="Invalid", causes=causes):
        await api.patch(NODE, f"{ns}-a", MergePatch({"spec": {"taints": taints}}))


async def test_one_key_may_have_two_effects(api: KubeApi, ns: str) -> None:
    taints = [a_taint("k", "1", "NoSchedule"), a_taint("k", "1", "NoExecute")]
    made = await api.create(NODE, a_node(f"{ns}-a", taints=taints))
    assert [taint["effect"] for taint in made["spec"]["taints"]] == ["NoSchedule", "NoExecute"]


@pytest.mark.parametrize(("changed", "done"), [("aws:///z/i-2", "modified"), (None, "cleared")], ids=["other", "none"])
async def test_provider_id_is_given_once(api: KubeApi, ns: str, minor: int, changed: str | None, done: str) -> None:
    await api.create(NODE, a_node(f"{ns}-a"))
    await api.patch(NODE, f"{ns}-a", MergePatch({"spec": {"providerID": "aws:///z/i-1"}}))
    says, why = f"field cannot be {done} once set", INVALID
    if minor < 37:
        says, why = 'node updates may not change providerID except from "" to valid', FORBIDDEN
    with refused(Invalid, reason="Invalid", says=says, causes=[("spec.providerID", why)]):
        await api.patch(NODE, f"{ns}-a", MergePatch({"spec": {"providerID": changed}}))


async def test_gpus_of_a_node_are_whole(api: KubeApi, ns: str) -> None:
    await api.create(NODE, a_node(f"{ns}-a"))
    half = MergePatch({"status": {"capacity": {"nvidia.com/gpu": "8500m"}}})
    causes = [("status.capacity.nvidia.com/gpu", INVALID)]
    with refused(Invalid, reason="Invalid", says="must be an integer", causes=causes):
        await api.patch(NODE, f"{ns}-a", half, subresource="status")


async def test_quantities_are_written_in_one_way(api: KubeApi, ns: str) -> None:
    made = await api.create(NODE, a_node(f"{ns}-a", allocatable={"cpu": "3920m", "memory": "1024Gi"}))
    assert made["status"]["allocatable"]["cpu"] == "3920m"
    assert made["status"]["allocatable"]["memory"] == "1Ti"


async def test_generation_of_a_node_is_not_counted(api: KubeApi, ns: str) -> None:
    await api.create(NODE, a_node(f"{ns}-a"))
    patched = await api.patch(NODE, f"{ns}-a", MergePatch({"spec": {"unschedulable": True}}))
    assert "generation" not in patched["metadata"]


async def test_node_has_no_namespace(api: KubeApi, ns: str) -> None:
    await api.create(NODE, with_meta(a_node(f"{ns}-a"), labels={"x": "y"}))
    assert (await api.get(NODES, f"{ns}-a")).metadata.labels == {"x": "y"}
    with refused(NotFound, reason="NotFound", says=f'nodes "{ns}-missing" not found'):
        await api.get(NODES, f"{ns}-missing")
