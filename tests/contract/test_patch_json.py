"""JSON patches: operations in order, all or nothing."""

import pytest

from tests.contract.expect import refused
from tests.contract.kinds import CONFIG_MAP, NODE, POD
from tests.contract.steps import version
from ullage.errors import Invalid, NotFound
from ullage.kube.client.api import JsonPatch, KubeApi
from ullage.kube.client.resource import JsonObject
from ullage.testing.builders import a_config_map, a_node, a_pod, a_taint

REJECTED = "the server rejected our request due to an error in our request"


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        pytest.param([{"op": "add", "path": "/data/z", "value": "3"}], {"x": "1", "y": "2", "z": "3"}, id="add"),
        pytest.param([{"op": "add", "path": "/data/x", "value": "9"}], {"x": "9", "y": "2"}, id="add-over"),
        pytest.param([{"op": "replace", "path": "/data/x", "value": "9"}], {"x": "9", "y": "2"}, id="replace"),
        pytest.param([{"op": "remove", "path": "/data/x"}], {"y": "2"}, id="remove"),
        pytest.param([{"op": "copy", "from": "/data/x", "path": "/data/z"}], {"x": "1", "y": "2", "z": "1"}, id="copy"),
        pytest.param([{"op": "move", "from": "/data/x", "path": "/data/z"}], {"y": "2", "z": "1"}, id="move"),
        pytest.param(
            [{"op": "test", "path": "/data/x", "value": "1"}, {"op": "remove", "path": "/data/x"}],
            {"y": "2"},
            id="test-holds",
        ),
        pytest.param([{"op": "replace", "path": "/data", "value": {"n": "0"}}], {"n": "0"}, id="whole-object"),
    ],
)
async def test_operations(api: KubeApi, ns: str, operations: list[JsonObject], expected: dict[str, str]) -> None:
    await api.create(CONFIG_MAP, a_config_map("a", x="1", y="2"), ns)
    patched = await api.patch(CONFIG_MAP, "a", JsonPatch(operations), ns)
    assert patched["data"] == expected
    assert await api.get(CONFIG_MAP, "a", ns) == patched


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param({"op": "test", "path": "/data/x", "value": "other"}, id="test-fails"),
        pytest.param({"op": "test", "path": "/data/missing", "value": "1"}, id="test-of-a-missing-field"),
        pytest.param({"op": "remove", "path": "/data/missing"}, id="remove-of-a-missing-field"),
        pytest.param({"op": "add", "path": "/metadata/labels/x", "value": "1"}, id="add-under-a-missing-object"),
        pytest.param({"op": "frobnicate", "path": "/data/x"}, id="operation-nobody-knows"),
    ],
)
async def test_one_failing_operation_undoes_all(api: KubeApi, ns: str, operation: JsonObject) -> None:
    made = await api.create(CONFIG_MAP, a_config_map("a", x="1"), ns)
    with refused(Invalid, reason="Invalid", says=REJECTED, causes=[]):
        await api.patch(CONFIG_MAP, "a", JsonPatch([{"op": "add", "path": "/data/y", "value": "2"}, operation]), ns)
    assert await api.get(CONFIG_MAP, "a", ns) == made


async def test_slash_in_a_key_is_escaped(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, a_config_map("a", labels={"ullage.dev/x": "1"}), ns)
    operation = {"op": "replace", "path": "/metadata/labels/ullage.dev~1x", "value": "2"}
    patched = await api.patch(CONFIG_MAP, "a", JsonPatch([operation]), ns)
    assert patched["metadata"]["labels"] == {"ullage.dev/x": "2"}


async def test_lists_are_reached_by_index_and_grow_at_the_end(api: KubeApi, ns: str) -> None:
    name = f"{ns}-a"
    await api.create(NODE, a_node(name, taints=[a_taint("one", "1"), a_taint("two", "2")]))
    operations: list[JsonObject] = [
        {"op": "test", "path": "/spec/taints/0/key", "value": "one"},
        {"op": "remove", "path": "/spec/taints/0"},
        {"op": "add", "path": "/spec/taints/-", "value": a_taint("three", "3")},
        {"op": "add", "path": "/spec/taints/0", "value": a_taint("zero", "0")},
    ]
    patched = await api.patch(NODE, name, JsonPatch(operations))
    assert [taint["key"] for taint in patched["spec"]["taints"]] == ["zero", "two", "three"]


async def test_test_of_the_version_makes_it_conditional(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, a_config_map("a", x="1"), ns)
    operations = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": version(made)},
        {"op": "replace", "path": "/data/x", "value": "2"},
    ]
    await api.patch(CONFIG_MAP, "a", JsonPatch(operations), ns)
    with refused(Invalid, reason="Invalid", says=REJECTED):
        await api.patch(CONFIG_MAP, "a", JsonPatch(operations), ns)


async def test_patching_what_is_not_there_is_not_found(api: KubeApi, ns: str) -> None:
    with refused(NotFound, reason="NotFound"):
        await api.patch(POD, "missing", JsonPatch([{"op": "remove", "path": "/metadata/labels"}]), ns)


async def test_patch_that_changes_nothing_is_no_write(api: KubeApi, ns: str) -> None:
    made = await api.create(POD, a_pod("a"), ns)
    same = JsonPatch([{"op": "replace", "path": "/spec/schedulerName", "value": "default-scheduler"}])
    assert version(await api.patch(POD, "a", same, ns)) == version(made)
