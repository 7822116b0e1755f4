"""Server-side apply: who owns what, what a change of hands does, and the arithmetic behind it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.apiserver.asking import APPLY, MAPS, Client
from ullage.sim.apiserver.merge.field_sets import dotted, leaves, merged, pruned
from ullage.sim.apiserver.merge.merge_schema import ATOMIC, SET, MergeSchema, keyed, members

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
NODES = "/api/v1/nodes"


def config(name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **fields}


def managers(obj: dict[str, Any]) -> list[tuple[str, str, Any]]:
    return [(entry["manager"], entry["operation"], entry["fieldsV1"]) for entry in obj["metadata"]["managedFields"]]


def test_applying_creates_and_says_who_owns_it(client: Client) -> None:
    made = client.apply(f"{MAPS}/a", config("a", data={"x": "1"}), "alice")
    assert made.status == 201
    assert managers(made.body) == [("alice", "Apply", {"f:data": {"f:x": {}}})]


def test_applying_again_changes_nothing(client: Client) -> None:
    made = client.apply(f"{MAPS}/a", config("a", data={"x": "1"}), "alice").body
    again = client.apply(f"{MAPS}/a", config("a", data={"x": "1"}), "alice")
    assert (again.status, again.body) == (200, made)


def test_what_is_no_longer_named_goes(client: Client) -> None:
    client.apply(f"{MAPS}/a", config("a", data={"x": "1", "y": "2"}), "alice")
    client.apply(f"{MAPS}/a", config("a", data={"z": "3"}), "bob")
    assert client.apply(f"{MAPS}/a", config("a", data={"x": "1"}), "alice").body["data"] == {"x": "1", "z": "3"}


def test_what_somebody_else_also_wants_stays(client: Client) -> None:
    client.apply(f"{MAPS}/a", config("a", data={"x": "1"}), "alice")
    client.apply(f"{MAPS}/a", config("a", data={"x": "1"}), "bob")
    assert client.apply(f"{MAPS}/a", config("a"), "alice").body["data"] == {"x": "1"}
    assert "data" not in client.apply(f"{MAPS}/a", config("a"), "bob").body


def test_a_field_of_somebody_else_is_a_conflict_until_it_is_forced(client: Client) -> None:
    client.apply(f"{MAPS}/a", config("a", data={"x": "1"}), "alice")
    refused = client.apply(f"{MAPS}/a", config("a", data={"x": "2"}), "bob")
    assert (refused.status, refused.body["reason"]) == (409, "Conflict")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "alice": .data.x'
    assert refused.causes == [(".data.x", "FieldManagerConflict")]
    forced = client.apply(f"{MAPS}/a", config("a", data={"x": "2"}), "bob", force="true").body
    assert forced["data"] == {"x": "2"}
    assert [who for who, _, _ in managers(forced)] == ["bob"]


def test_an_ordinary_write_takes_the_fields_it_changes(client: Client) -> None:
    client.apply(f"{MAPS}/a", config("a", data={"x": "1", "y": "1"}), "alice")
    written = client.merge(f"{MAPS}/a", {"data": {"x": "2"}}, fieldManager="carol").body
    assert managers(written) == [
        ("alice", "Apply", {"f:data": {"f:y": {}}}),
        ("carol", "Update", {"f:data": {"f:x": {}}}),
    ]
    refused = client.apply(f"{MAPS}/a", config("a", data={"x": "1", "y": "1"}), "alice")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "carol" using v1: .data.x'


def test_what_was_there_before_the_first_apply_is_its_creators(client: Client) -> None:
    client.post(MAPS, {"metadata": {"name": "a"}, "data": {"x": "1", "y": "1"}}, fieldManager="dave")
    refused = client.apply(f"{MAPS}/a", config("a", data={"x": "2", "y": "2"}), "alice")
    assert refused.message == 'Apply failed with 2 conflicts: conflicts with "dave" using v1:\n- .data.x\n- .data.y'
    assert client.apply(f"{MAPS}/a", config("a", data={"x": "1", "z": "1"}), "alice").status == 200


def test_containers_are_merged_by_name_and_taints_are_one_piece(client: Client) -> None:
    def deployment(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": list(containers)}}
        whole = {"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": whole}

    one, two = {"name": "one", "image": "x:1"}, {"name": "two", "image": "y:1", "env": [{"name": "E", "value": "1"}]}
    client.apply(f"{DEPLOYMENTS}/d", deployment(one, two, replicas=3), "alice")
    client.apply(
        f"{DEPLOYMENTS}/d", deployment({"name": "two", "image": "y:1", "env": [{"name": "F", "value": "2"}]}), "bob"
    )
    after = client.apply(f"{DEPLOYMENTS}/d", deployment(one), "alice").body["spec"]
    assert after["replicas"] == 1, "nobody asks for three any more, so it is the default"
    kept = {c["name"]: c for c in after["template"]["spec"]["containers"]}
    assert [entry["name"] for entry in kept["two"]["env"]] == ["F"]

    taints = [[{"key": key, "effect": "NoSchedule"}] for key in ("a", "b")]
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"taints": t}} for t in taints]
    client.apply(f"{NODES}/n", nodes[0], "alice")
    assert ".spec.taints" in client.apply(f"{NODES}/n", nodes[1], "bob").message


def test_status_is_applied_by_itself(client: Client) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    client.apply(f"{NODES}/n", {**node, "spec": {"unschedulable": True}}, "alice")
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    gpus = {"conditions": [{"type": "Gpu", "status": "True"}], "capacity": {"nvidia.com/gpu": "8"}}
    client.apply(f"{NODES}/n/status", {**node, "status": ready, "spec": {"unschedulable": False}}, "kubelet")
    both = client.apply(f"{NODES}/n/status", {**node, "status": gpus}, "agent").body
    assert [condition["type"] for condition in both["status"]["conditions"]] == ["Ready", "Gpu"]
    assert both["spec"]["unschedulable"] is True
    assert client.apply(f"{NODES}/missing/status", {**node, "metadata": {"name": "missing"}}, "agent").status == 404


@pytest.mark.parametrize(
    ("body", "query", "status", "says"),
    [
        pytest.param(config("a"), {}, 422, "fieldManager: Required value: is required for apply", id="no-manager"),
        pytest.param(
            {"metadata": {"name": "a"}}, {"fieldManager": "m"}, 400, "invalid object type: /, Kind=", id="no-kind"
        ),
        pytest.param(config("b"), {"fieldManager": "m"}, 400, "does not match the name on the URL", id="another-name"),
        pytest.param(
            {**config("a"), "metadata": {"managedFields": [{"manager": "x"}]}}, {"fieldManager": "m"}, 400,
            "metadata.managedFields must be nil", id="managed-fields",
        ),
        pytest.param(b"a: [", {"fieldManager": "m"}, 400, "error decoding YAML", id="no-yaml"),
        pytest.param(
            {**config("a"), "metadata": {"resourceVersion": "1"}}, {"fieldManager": "m"}, 409,
            "the object has been modified", id="another-version",
        ),
    ],
)  # fmt: skip
def test_configurations_that_make_no_sense(
    client: Client, body: Any, query: dict[str, str], status: int, says: str
) -> None:
    client.apply(f"{MAPS}/a", config("a", data={"x": "1"}), "alice")
    answer = client.ask("PATCH", f"{MAPS}/a", body, APPLY, **query)
    assert answer.status == status
    assert says in answer.message


def test_yaml_is_read(client: Client) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: 'yes'\n"
    assert client.apply(f"{MAPS}/a", text, "alice").body["data"] == {"x": "yes"}


SCHEMA: MergeSchema = members(
    ATOMIC,
    tags=SET,
    items=keyed("name", item=members(ATOMIC)),
    labels=members(ATOMIC),
)
DOCUMENT = st.fixed_dictionaries(
    {},
    optional={
        "one": st.integers(0, 3),
        "tags": st.lists(st.sampled_from("abc"), unique=True, max_size=3),
        "labels": st.dictionaries(st.sampled_from("xyz"), st.sampled_from("12"), max_size=3),
        "items": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from("pqr")}, optional={"v": st.integers(0, 2)}),
            unique_by=lambda item: str(item["name"]),
            max_size=3,
        ),
    },
)


@given(DOCUMENT, DOCUMENT)
def test_everything_applied_is_in_the_result(live: dict[str, Any], applied: dict[str, Any]) -> None:
    result = merged(live, applied, SCHEMA)
    wanted, found = leaves(applied, SCHEMA), leaves(result, SCHEMA)
    assert {path: found.get(path) for path in wanted if applied_value(path, applied)} == {
        path: value for path, value in wanted.items() if applied_value(path, applied)
    }
    assert merged(result, applied, SCHEMA) == result


def applied_value(path: tuple[str, ...], applied: dict[str, Any]) -> bool:
    """Empty lists and maps are merged with what is there, so they are not found again as such."""
    return not (len(path) == 1 and applied.get(path[0][2:]) in ([], {}))


@given(DOCUMENT)
def test_taking_all_away_leaves_nothing_and_nothing_takes_nothing(document: dict[str, Any]) -> None:
    assert pruned(document, SCHEMA, leaves(document, SCHEMA), frozenset()) == {}
    assert pruned(document, SCHEMA, [], frozenset()) == document


def test_paths_are_named_as_conflicts_name_them() -> None:
    path = ("f:spec", "f:containers", 'k:{"name":"main"}', "f:image")
    assert dotted(path) == '.spec.containers[name="main"].image'
    assert dotted(("f:metadata", "f:finalizers", 'v:"a/b"')) == '.metadata.finalizers[="a/b"]'
