"""Changing an object through a struct that knows half of it, without losing the other half."""

from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.kube.scripted import ScriptedTransport, api_over, says, status
from ullage.errors import Conflict, Unreadable
from ullage.kube.client.edit import edit, graft
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import CONFIG_MAPS, LEASES, NODES
from ullage.kube.objects.meta import Condition, OwnerReference
from ullage.kube.objects.node import KubeNode, KubeTaint
from ullage.kube.objects.pod import Container, KubePod, ResourceRequirements, SchedulingGate
from ullage.kube.objects.policy import Lease
from ullage.sim.virtual_time import run_virtual

POD: JsonObject = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "p",
        "labels": {"app": "web"},
        "managedFields": [{"manager": "kubectl"}],
        "ownerReferences": [{"uid": "u1", "name": "a", "extra": 1}, {"uid": "u2", "name": "b", "extra": 2}],
    },
    "spec": {
        "dnsPolicy": "ClusterFirst",
        "schedulingGates": [{"name": "g1", "more": 1}, {"name": "g2", "more": 2}],
        "containers": [
            {
                "name": "main",
                "env": [{"name": "A", "value": "1"}],
                "resources": {"requests": {"cpu": "1"}, "claims": [{"name": "gpu"}]},
            },
            {"name": "side", "command": ["run"]},
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"future": 1, "matchExpressions": [{"key": "zone", "operator": "Exists"}]}]
                }
            }
        },
    },
    "status": {"podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": "then"}]},
}
BEFORE = msgspec.convert(POD, KubePod)
MAIN, SIDE = BEFORE.spec.containers
GATES = BEFORE.spec.scheduling_gates


def spec(**changes: Any) -> KubePod:
    return replace(BEFORE, spec=replace(BEFORE.spec, **changes))


def meta(**changes: Any) -> KubePod:
    return replace(BEFORE, metadata=replace(BEFORE.metadata, **changes))


def at(raw: Any, *path: str | int) -> Any:
    for step in path:
        raw = raw[step]
    return raw


EDITS = [
    pytest.param(spec(node_name="n1"), ("spec", "nodeName"), "n1", id="a-new-field"),
    pytest.param(spec(host_network=True), ("spec", "hostNetwork"), True, id="a-new-flag"),
    pytest.param(meta(labels={"app": "db", "x": "y"}), ("metadata", "labels"), {"app": "db", "x": "y"}, id="labels"),
    pytest.param(
        spec(containers=(replace(MAIN, image="new"), SIDE)),
        ("spec", "containers", 0),
        at(POD, "spec", "containers", 0) | {"image": "new"},
        id="one-container",
    ),
    pytest.param(
        spec(containers=(replace(MAIN, resources=ResourceRequirements(limits={"cpu": "2"})), SIDE)),
        ("spec", "containers", 0, "resources"),
        {"limits": {"cpu": "2"}, "claims": [{"name": "gpu"}]},
        id="deep-inside-a-container",
    ),
    pytest.param(
        spec(containers=(SIDE, Container(name="new"), MAIN)),
        ("spec", "containers"),
        [at(POD, "spec", "containers", 1), {"name": "new"}, at(POD, "spec", "containers", 0)],
        id="containers-in-another-order-with-a-new-one",
    ),
    pytest.param(
        spec(containers=(replace(SIDE, image="i"), replace(MAIN, image="j"))),
        ("spec", "containers"),
        [at(POD, "spec", "containers", 1) | {"image": "i"}, at(POD, "spec", "containers", 0) | {"image": "j"}],
        id="containers-that-moved-and-changed",
    ),
    pytest.param(
        spec(containers=(replace(MAIN, name="renamed"), SIDE)),
        ("spec", "containers", 0),
        {"name": "renamed", "resources": {"requests": {"cpu": "1"}}},
        id="another-name-is-another-container",
    ),
    pytest.param(
        spec(scheduling_gates=GATES[1:]), ("spec", "schedulingGates"), [{"name": "g2", "more": 2}], id="one-gate-less"
    ),
    pytest.param(
        spec(scheduling_gates=(SchedulingGate(name="g0"), *GATES)),
        ("spec", "schedulingGates"),
        [{"name": "g0"}, {"name": "g1", "more": 1}, {"name": "g2", "more": 2}],
        id="one-gate-more-in-front",
    ),
    pytest.param(
        meta(owner_references=(replace(BEFORE.metadata.owner_references[1], name="B"), OwnerReference(uid="u3"))),
        ("metadata", "ownerReferences"),
        [{"uid": "u2", "name": "B", "extra": 2}, {"uid": "u3"}],
        id="owners-by-uid",
    ),
    pytest.param(
        replace(
            BEFORE,
            status=replace(
                BEFORE.status, conditions=(Condition(type="Ready", status="False"), Condition(type="PodScheduled"))
            ),
        ),
        ("status", "conditions"),
        [
            {"type": "Ready", "status": "False", "lastProbeTime": "then"},
            {"type": "PodScheduled", "status": "Unknown"},
        ],
        id="conditions-by-type",
    ),
]


@pytest.mark.parametrize(("after", "path", "expected"), EDITS)
def test_a_change_arrives_and_nothing_else_does(after: KubePod, path: tuple[str | int, ...], expected: Any) -> None:
    untouched = deepcopy(POD)
    grafted = graft(POD, BEFORE, after)
    assert untouched == POD
    assert at(grafted, *path) == expected
    assert msgspec.convert(grafted, KubePod) == after
    # Everything beside the path is as it was.
    here, there = deepcopy(grafted), deepcopy(POD)
    for raw in (here, there):
        parent = at(raw, *path[:-1])
        if isinstance(parent, list):
            parent[path[-1]] = None  # type: ignore[index]  # an index where the parent is a list
        else:
            parent.pop(path[-1], None)
    assert here == there


def test_items_without_a_name_are_taken_for_what_stood_there() -> None:
    raw = deepcopy(POD)
    affinity = BEFORE.spec.affinity
    assert affinity is not None
    assert affinity.node_affinity is not None
    required = affinity.node_affinity.required
    assert required is not None
    (term,) = required.node_selector_terms
    changed = replace(term, match_expressions=(replace(term.match_expressions[0], operator="In", values=("z",)),))
    after = spec(
        affinity=replace(
            affinity,
            node_affinity=replace(affinity.node_affinity, required=replace(required, node_selector_terms=(changed,))),
        )
    )
    place = ("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", 0)
    assert at(graft(raw, BEFORE, after), "spec", "affinity", *place) == {
        "future": 1,
        "matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}],
    }


def test_what_is_set_back_to_nothing_is_removed() -> None:
    after = replace(meta(labels={}), spec=replace(BEFORE.spec, scheduling_gates=(), affinity=None))
    grafted = graft(POD, BEFORE, after)
    assert "labels" not in grafted["metadata"]
    assert "schedulingGates" not in grafted["spec"]
    assert "affinity" not in grafted["spec"]
    assert grafted["spec"]["dnsPolicy"] == "ClusterFirst"


def test_taints_with_one_key_and_two_effects_are_kept_apart() -> None:
    raw = {
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule", "x": 1}, {"key": "k", "effect": "NoExecute", "x": 2}]}
    }
    before = msgspec.convert(raw, KubeNode)
    no_schedule, no_execute = before.spec.taints
    after = replace(before, spec=replace(before.spec, taints=(replace(no_execute, value="v"), no_schedule)))
    assert graft(raw, before, after)["spec"]["taints"] == [
        {"key": "k", "effect": "NoExecute", "value": "v", "x": 2},
        {"key": "k", "effect": "NoSchedule", "x": 1},
    ]


WORD = st.sampled_from(["a", "b", "c"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | WORD,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORD, inner, max_size=2),
    max_leaves=4,
)
UNKNOWN = st.dictionaries(st.sampled_from(["future", "x-new", "other"]), JSON, max_size=2)


def with_unknown(known: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[JsonObject]:
    return st.builds(lambda fields, more: fields | more, st.fixed_dictionaries({}, optional=known), UNKNOWN)


TAINTS = st.lists(with_unknown({"key": WORD, "value": WORD, "effect": WORD}), max_size=4)
CONDITIONS = st.lists(with_unknown({"type": WORD, "status": WORD, "reason": WORD}), max_size=3)
RAW_NODES = with_unknown(
    {
        "metadata": with_unknown({"name": WORD, "labels": st.dictionaries(WORD, WORD)}),
        "spec": with_unknown({"unschedulable": st.booleans(), "taints": TAINTS, "providerID": WORD}),
        "status": with_unknown({"conditions": CONDITIONS, "capacity": st.dictionaries(WORD, WORD)}),
    }
)


@given(RAW_NODES)
def test_no_change_changes_nothing(raw: JsonObject) -> None:
    assert graft(raw, msgspec.convert(raw, KubeNode), msgspec.convert(raw, KubeNode)) == raw


@given(RAW_NODES, RAW_NODES)
def test_the_result_reads_as_what_was_meant_whatever_the_change(raw: JsonObject, other: JsonObject) -> None:
    before, after = msgspec.convert(raw, KubeNode), msgspec.convert(other, KubeNode)
    untouched = deepcopy(raw)
    grafted = graft(raw, before, after)
    assert msgspec.convert(grafted, KubeNode) == after
    assert raw == untouched
    known = {"metadata", "spec", "status"}
    assert {key: grafted[key] for key in grafted if key not in known} == {
        key: raw[key] for key in raw if key not in known
    }
    for part, fields in (("metadata", {"name", "labels"}), ("spec", {"unschedulable", "taints", "providerID"})):
        mine = {key: value for key, value in raw.get(part, {}).items() if key not in fields}
        theirs = {key: value for key, value in grafted.get(part, {}).items() if key not in fields}
        assert theirs == mine


@given(RAW_NODES, st.data())
def test_a_taint_more_leaves_every_other_taint_whole(raw: JsonObject, data: st.DataObject) -> None:
    before = msgspec.convert(raw, KubeNode)
    place = data.draw(st.integers(0, len(before.spec.taints)))
    fresh = KubeTaint(key="fresh", effect="NoSchedule")
    taints = (*before.spec.taints[:place], fresh, *before.spec.taints[place:])
    grafted = graft(raw, before, replace(before, spec=replace(before.spec, taints=taints)))
    written = grafted["spec"]["taints"]
    assert written[place] == {"key": "fresh", "effect": "NoSchedule"}
    rest = written[:place] + written[place + 1 :]
    # Taints that read the same may trade places; what they carry is all still there.
    assert sorted(map(repr, rest)) == sorted(map(repr, raw.get("spec", {}).get("taints", [])))


LEASE: JsonObject = {
    "metadata": {"name": "l", "namespace": "n", "resourceVersion": "1"},
    "spec": {"holderIdentity": "me", "strategy": "OldestEmulationVersion"},
}


def take_over(lease: Lease) -> Lease:
    return replace(lease, spec=replace(lease.spec, holder_identity="you"))


def test_an_edit_writes_back_what_it_read_with_the_change() -> None:
    transport = ScriptedTransport([says(LEASE), says(LEASE)])
    run_virtual(edit(api_over(transport), LEASES, "l", "n", take_over))
    assert transport.requests[1].method == "PUT"
    assert transport.last_body == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": LEASE["metadata"],
        "spec": {"holderIdentity": "you", "strategy": "OldestEmulationVersion"},
    }


def test_an_edit_that_changes_nothing_writes_nothing() -> None:
    transport = ScriptedTransport([says(LEASE)])
    lease = run_virtual(edit(api_over(transport), LEASES, "l", "n", lambda lease: lease))
    assert lease.spec.holder_identity == "me"
    assert len(transport.requests) == 1


def test_an_edit_that_loses_a_race_is_made_again_on_what_won() -> None:
    winner = LEASE | {"metadata": LEASE["metadata"] | {"resourceVersion": "2"}}
    transport = ScriptedTransport([says(LEASE), status(409, "Conflict", "changed"), says(winner), says(winner)])
    run_virtual(edit(api_over(transport), LEASES, "l", "n", take_over))
    assert transport.last_body["metadata"]["resourceVersion"] == "2"


def test_an_edit_that_always_loses_gives_up() -> None:
    transport = ScriptedTransport([says(LEASE), status(409, "Conflict", "changed")] * 20)
    with pytest.raises(Conflict):
        run_virtual(edit(api_over(transport), LEASES, "l", "n", take_over))
    assert len(transport.requests) == 12


def test_a_change_made_in_place_is_a_change() -> None:
    raw = {"metadata": {"name": "c", "namespace": "n"}, "data": {"a": "b"}}
    transport = ScriptedTransport([says(raw), says(raw)])

    def add(config: JsonObject) -> JsonObject:
        config["data"]["c"] = "d"
        return config

    run_virtual(edit(api_over(transport), CONFIG_MAPS, "c", "n", add))
    assert transport.last_body["data"] == {"a": "b", "c": "d"}


def test_a_subresource_is_written_where_it_is_asked_for() -> None:
    raw = {"metadata": {"name": "x"}, "status": {"conditions": [], "nodeInfo": {"os": "linux"}}}
    transport = ScriptedTransport([says(raw), says(raw)])

    def ready(node: KubeNode) -> KubeNode:
        return replace(node, status=replace(node.status, conditions=(Condition(type="Ready", status="True"),)))

    run_virtual(edit(api_over(transport), NODES, "x", "", ready, subresource="status"))
    assert transport.requests[1].path == "/api/v1/nodes/x/status"
    assert transport.last_body["status"]["nodeInfo"] == {"os": "linux"}


def test_an_object_that_cannot_be_read_is_not_written() -> None:
    transport = ScriptedTransport([says({"metadata": {"name": "l"}, "spec": {"holderIdentity": 5}})])
    with pytest.raises(Unreadable, match=r"leases.coordination.k8s.io: not a readable Lease"):
        run_virtual(edit(api_over(transport), LEASES, "l", "n", take_over))
    assert len(transport.requests) == 1
