"""Merge patches: objects merge, null deletes, lists are replaced."""

import asyncio

import pytest

from tests.contract.expect import refused
from tests.contract.kinds import CONFIG_MAP, DEPLOYMENT, NODE, POD
from tests.contract.steps import uid, version
from ullage.errors import BadRequest, Conflict, Invalid, NotFound
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.testing.builders import a_config_map, a_node, a_pod, a_taint, a_workload, with_meta


async def test_names_change_and_the_rest_stays(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, a_config_map("a", x="1", y="1"), ns)
    patched = await api.patch(CONFIG_MAP, "a", MergePatch({"data": {"y": "2", "z": "3"}}), ns)
    assert patched["data"] == {"x": "1", "y": "2", "z": "3"}
    assert int(version(patched)) > int(version(made))
    assert await api.get(CONFIG_MAP, "a", ns) == patched


async def test_null_deletes(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, a_config_map("a", labels={"keep": "1", "drop": "1"}, x="1"), ns)
    patch = MergePatch({"metadata": {"labels": {"drop": None, "never-there": None}}, "data": None})
    patched = await api.patch(CONFIG_MAP, "a", patch, ns)
    assert patched["metadata"]["labels"] == {"keep": "1"}
    assert "data" not in patched


async def test_lists_are_replaced_whole(api: KubeApi, ns: str) -> None:
    await api.create(NODE, a_node(f"{ns}-a", taints=[a_taint("one", "1"), a_taint("two", "2")]))
    patched = await api.patch(NODE, f"{ns}-a", MergePatch({"spec": {"taints": [a_taint("three", "3")]}}))
    assert patched["spec"]["taints"] == [a_taint("three", "3")]


async def test_patch_that_changes_nothing_is_no_write(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, a_config_map("a", x="1"), ns)
    for body in ({"data": {"x": "1"}}, {}, {"data": {"never-there": None}}):
        assert version(await api.patch(CONFIG_MAP, "a", MergePatch(body), ns)) == version(made)


async def test_patching_what_is_not_there_is_not_found(api: KubeApi, ns: str) -> None:
    with refused(NotFound, reason="NotFound", says='configmaps "missing" not found'):
        await api.patch(CONFIG_MAP, "missing", MergePatch({"data": {"x": "1"}}), ns)


async def test_version_in_the_patch_makes_it_conditional(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, a_config_map("a", x="1"), ns)

    def from_version(at: str, x: str) -> MergePatch:
        return MergePatch({"metadata": {"resourceVersion": at}, "data": {"x": x}})

    current = await api.patch(CONFIG_MAP, "a", from_version(version(made), "2"), ns)
    with refused(Conflict, reason="Conflict", says="the object has been modified"):
        await api.patch(CONFIG_MAP, "a", from_version(version(made), "3"), ns)
    assert await api.get(CONFIG_MAP, "a", ns) == current


async def test_uid_in_the_patch_must_be_the_objects(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, a_config_map("a", x="1"), ns)
    with refused(Invalid, reason="Invalid", says="field is immutable", causes=[("metadata.uid", "FieldValueInvalid")]):
        await api.patch(CONFIG_MAP, "a", MergePatch({"metadata": {"uid": "another"}, "data": {"x": "2"}}), ns)
    await api.patch(CONFIG_MAP, "a", MergePatch({"metadata": {"uid": uid(made)}, "data": {"x": "3"}}), ns)


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        pytest.param(
            {"name": "b"}, "the name of the object (b) does not match the name on the URL (a)", id="another-name"
        ),
        pytest.param(
            {"namespace": "elsewhere"},
            "the namespace of the provided object does not match the namespace sent on the request",
            id="another-namespace",
        ),
    ],
)
async def test_objects_cannot_be_moved(api: KubeApi, ns: str, metadata: JsonObject, says: str) -> None:
    await api.create(CONFIG_MAP, a_config_map("a"), ns)
    with refused(BadRequest, reason="BadRequest", says=says):
        await api.patch(CONFIG_MAP, "a", MergePatch({"metadata": metadata}), ns)


async def test_result_is_validated(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, a_config_map("a", x="1"), ns)
    with refused(Invalid, reason="Invalid", causes=[("metadata.labels", "FieldValueInvalid")]):
        await api.patch(CONFIG_MAP, "a", MergePatch({"metadata": {"labels": {"a": "x y"}}}), ns)
    assert await api.get(CONFIG_MAP, "a", ns) == made


async def test_wrong_type_in_the_result_is_invalid(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, a_config_map("a", x="1"), ns)
    with refused(Invalid, reason="Invalid", causes=[("patch", "FieldValueInvalid")]):
        await api.patch(CONFIG_MAP, "a", MergePatch({"data": "text"}), ns)


async def test_result_is_defaulted(api: KubeApi, ns: str) -> None:
    await api.create(DEPLOYMENT, a_workload("a", replicas=3), ns)
    patched = await api.patch(DEPLOYMENT, "a", MergePatch({"spec": {"replicas": None}}), ns)
    assert patched["spec"]["replicas"] == 1


async def test_deletion_cannot_be_patched_in(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, a_config_map("a"), ns)
    with refused(Invalid, reason="Invalid", causes=[("metadata.deletionTimestamp", "FieldValueInvalid")]):
        body = {"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}}
        await api.patch(CONFIG_MAP, "a", MergePatch(body), ns)


async def test_parallel_patches_of_different_fields_all_land(api: KubeApi, ns: str) -> None:
    await api.create(POD, a_pod("a"), ns)
    patches = (MergePatch({"metadata": {"annotations": {f"writer-{i}": "was-here"}}}) for i in range(8))
    await asyncio.gather(*(api.patch(POD, "a", patch, ns) for patch in patches))
    notes = (await api.get(POD, "a", ns))["metadata"]["annotations"]
    assert notes == {f"writer-{i}": "was-here" for i in range(8)}


async def test_owner_references_can_be_patched(api: KubeApi, ns: str) -> None:
    owner = await api.create(CONFIG_MAP, a_config_map("owner"), ns)
    await api.create(CONFIG_MAP, with_meta(a_config_map("owned"), labels={"x": "y"}), ns)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid(owner)}
    patch = MergePatch({"metadata": {"ownerReferences": [reference]}})
    assert (await api.patch(CONFIG_MAP, "owned", patch, ns))["metadata"]["ownerReferences"] == [reference]
