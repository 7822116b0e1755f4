"""Strategic merge patches: which lists are merged, by what, and in which order."""

from typing import Any

import pytest

from tests.sim.apiserver.asking import DEFINITIONS, WIDGETS, Client, a_definition, a_widget
from ullage.sim.apiserver.merge.json_patches import PatchFailed
from ullage.sim.apiserver.merge.strategic import strategic_merge
from ullage.sim.apiserver.merge.type_merging import merge_schema_of

POD = merge_schema_of("core.v1.Pod")

STRATEGIC = "application/strategic-merge-patch+json"


def containers(*items: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"containers": list(items)}}


X, Y = {"name": "x", "image": "1"}, {"name": "y", "image": "1"}


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        pytest.param(
            containers(X, Y), containers({"name": "y", "image": "2"}), containers(X, {"name": "y", "image": "2"}),
            id="items-are-found-by-key",
        ),
        pytest.param(
            containers(X, Y), containers({"name": "z"}), containers({"name": "z"}, X, Y), id="new-items-come-first"
        ),
        pytest.param(
            containers(X), {"spec": {"$setElementOrder/containers": [{"name": "x"}, {"name": "z"}],
                                     "containers": [{"name": "z"}]}},
            containers(X, {"name": "z"}), id="unless-told-otherwise",
        ),
        pytest.param(containers(X, Y), containers({"name": "x", "$patch": "delete"}), containers(Y), id="delete-item"),
        pytest.param(containers(X, Y), containers({"$patch": "replace"}, Y), containers(Y), id="replace-list"),
        pytest.param(
            {"spec": {"tolerations": [{"key": "a"}]}}, {"spec": {"tolerations": [{"key": "b"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}}, id="lists-without-a-key-are-replaced",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]}},
            {"metadata": {"finalizers": ["c", "b"]}}, id="sets",
        ),
        pytest.param(
            {"spec": {"a": {"x": 1, "y": 2}}}, {"spec": {"a": {"$retainKeys": ["x", "z"], "z": 3}}},
            {"spec": {"a": {"x": 1, "z": 3}}}, id="retain-keys",
        ),
        pytest.param(
            {"spec": {"a": {"x": 1}}}, {"spec": {"a": {"$patch": "replace", "y": 2}}}, {"spec": {"a": {"y": 2}}},
            id="replace-object",
        ),
        pytest.param({"spec": {"a": 1, "b": 2}}, {"spec": {"a": None}}, {"spec": {"b": 2}}, id="null-deletes"),
    ],
)  # fmt: skip
def test_strategic_merge(document: Any, patch: Any, result: Any) -> None:
    assert strategic_merge(document, patch, POD) == result


def test_an_item_without_its_key_is_refused() -> None:
    with pytest.raises(PatchFailed, match="does not contain declared merge key: name"):
        strategic_merge(containers(X), containers({"image": "2"}), POD)


def test_cordoning_as_kubectl_does(client: Client) -> None:
    client.post(
        "/api/v1/nodes", {"metadata": {"name": "n"}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}
    )
    patched = client.ask("PATCH", "/api/v1/nodes/n", {"spec": {"unschedulable": True}}, STRATEGIC)
    assert patched.body["spec"] == {"unschedulable": True, "taints": [{"key": "a", "effect": "NoSchedule"}]}


def test_custom_kinds_have_no_strategy(client: Client) -> None:
    client.post(DEFINITIONS, a_definition({"type": "object"}))
    client.post(WIDGETS, a_widget("a"))
    refused = client.ask("PATCH", f"{WIDGETS}/a", {}, STRATEGIC)
    assert refused.status == 415
    assert "accepted media types include: application/json-patch+json, application/merge-patch+json" in refused.message
