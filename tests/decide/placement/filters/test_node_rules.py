"""Name, cordon, readiness, taints, labels: what a node says by itself."""

from typing import Any

import msgspec
import pytest

from tests.decide.placement.filters.asking import Cluster, a_node, a_waiting
from ullage.model.shape import interned
from ullage.model.verdict import Reason


def reason(pod: dict[str, Any], **node: Any) -> Reason:
    return Cluster(a_node("a", **node)).ask(a_waiting(**pod))["a"].reason


TAINT = {"key": "team", "value": "x", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "effect", "fits"),
    [
        pytest.param(
            {"key": "team", "value": "x", "effect": "NoSchedule"}, "NoSchedule", True, id="equal-is-the-default"
        ),
        pytest.param({"key": "team", "operator": "Equal", "value": "x"}, "NoExecute", True, id="no-effect-means-all"),
        pytest.param({"key": "team", "value": "y"}, "NoSchedule", False, id="another-value"),
        pytest.param(
            {"key": "team", "operator": "Exists", "value": "y"}, "NoSchedule", True, id="exists-ignores-the-value"
        ),
        pytest.param({"operator": "Exists"}, "NoExecute", True, id="no-key-means-all"),
        pytest.param({"value": "x"}, "NoSchedule", True, id="no-key-still-compares-the-value"),
        pytest.param({"key": "team", "value": "x", "effect": "NoExecute"}, "NoSchedule", False, id="another-effect"),
        pytest.param(
            {"key": "team", "operator": "Gt", "value": "0"}, "NoSchedule", False, id="comparing-numbers-is-off"
        ),
        pytest.param(
            {"key": "team", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
            "NoExecute",
            True,
            id="for-some-seconds-is-enough",
        ),
        pytest.param({"key": "other"}, "PreferNoSchedule", True, id="preferring-not-to-keeps-nobody-off"),
        pytest.param({"key": "other"}, "NoExecute", False, id="no-execute-keeps-off-too"),
    ],
)
def test_taints(toleration: dict[str, Any], effect: str, fits: bool) -> None:
    expected = Reason.FITS if fits else Reason.TAINT_NOT_TOLERATED
    assert reason({"tolerations": [toleration]}, taints=[TAINT | {"effect": effect}]) is expected


def test_every_taint_must_be_tolerated() -> None:
    taints = [TAINT, {"key": "gpu", "effect": "NoSchedule"}]
    assert reason({"tolerations": [{"key": "gpu"}]}, taints=taints) is Reason.TAINT_NOT_TOLERATED
    assert reason({"tolerations": [{"key": "gpu"}, {"key": "team", "value": "x"}]}, taints=taints) is Reason.FITS


def test_a_taint_is_named() -> None:
    verdict = Cluster(a_node("a", taints=[TAINT])).ask(a_waiting())["a"]
    assert verdict.detail == "taint team=x:NoSchedule"


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        pytest.param([], Reason.NODE_UNSCHEDULABLE, id="a-cordoned-node-takes-no-pods"),
        pytest.param(
            [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}],
            Reason.FITS,
            id="but-those-that-tolerate-it",
        ),
        pytest.param(
            [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoExecute"}],
            Reason.NODE_UNSCHEDULABLE,
            id="with-the-right-effect",
        ),
    ],
)
def test_cordoned(tolerations: list[dict[str, Any]], expected: Reason) -> None:
    assert reason({"tolerations": tolerations}, unschedulable=True) is expected


DEFAULT_TOLERATION = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
UNREADY = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("tolerations", "taints", "expected"),
    [
        pytest.param([], [], Reason.NODE_NOT_READY, id="not-ready-and-not-tainted-yet"),
        pytest.param([DEFAULT_TOLERATION], [], Reason.NODE_NOT_READY, id="what-every-pod-tolerates-is-not-enough"),
        pytest.param([{"operator": "Exists"}], [], Reason.FITS, id="a-pod-that-tolerates-everything"),
        pytest.param([], [UNREADY], Reason.NODE_NOT_READY, id="tainted-for-it-it-says-the-same"),
        pytest.param([DEFAULT_TOLERATION], [UNREADY], Reason.FITS, id="and-may-be-tolerated"),
    ],
)
def test_not_ready(tolerations: list[Any], taints: list[Any], expected: Reason) -> None:
    assert reason({"tolerations": tolerations}, ready=False, taints=taints) is expected


def test_a_shape_may_name_its_node() -> None:
    pod = a_waiting()
    named = msgspec.structs.replace(pod, shape=interned(msgspec.structs.replace(pod.shape, node_name="b")))
    cluster = Cluster(a_node("a"), a_node("b"))
    assert cluster.fitting(named) == "b"
    assert cluster.ask(named)["a"].reason is Reason.NOT_THE_NODE_NAMED


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def required(*terms: Any) -> dict[str, Any]:
    selector = {"nodeSelectorTerms": [{"matchExpressions": t} if isinstance(t, list) else t for t in terms]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}}


def by_name(operator: str, *names: str) -> dict[str, Any]:
    return {"matchFields": [expression("metadata.name", operator, *names)]}


LABELS = {"a": {"zone": "1", "size": "10"}, "b": {"zone": "2", "size": "9"}, "c": {}}


@pytest.mark.parametrize(
    ("spec", "fitting"),
    [
        pytest.param({"nodeSelector": {"zone": "1"}}, "a", id="selector"),
        pytest.param({"nodeSelector": {"zone": "1", "size": "9"}}, "", id="all-labels-of-a-selector"),
        pytest.param(required([expression("zone", "In", "1", "2", "3")]), "ab", id="in"),
        pytest.param(required([expression("zone", "NotIn", "1")]), "bc", id="not-in-holds-where-the-label-is-absent"),
        pytest.param(required([expression("zone", "Exists")]), "ab", id="exists"),
        pytest.param(required([expression("zone", "DoesNotExist")]), "c", id="does-not-exist"),
        pytest.param(required([expression("size", "Gt", "9")]), "a", id="greater-as-numbers"),
        pytest.param(required([expression("size", "Lt", "10")]), "b", id="less-as-numbers"),
        pytest.param(required([expression("zone", "Exists"), expression("size", "Gt", "9")]), "a", id="all-of-a-term"),
        pytest.param(required([expression("zone", "In", "1")], [expression("zone", "In", "2")]), "ab", id="any-term"),
        pytest.param(required({}), "", id="an-empty-term-matches-nothing"),
        pytest.param(required(), "", id="no-terms-match-nothing"),
        pytest.param(required({}, [expression("zone", "In", "1")]), "a", id="an-empty-term-spoils-no-other"),
        pytest.param(required([expression("zone", "Maybe", "1")]), "", id="an-unknown-operator-matches-nothing"),
        pytest.param(
            required([expression("zone", "In", "not a label")], [expression("zone", "In", "2")]),
            "b",
            id="a-malformed-term-spoils-no-other",
        ),
        pytest.param(required([expression("zone", "In")]), "", id="in-nothing-is-malformed"),
        pytest.param(required([expression("zone", "Exists", "1")]), "", id="exists-with-values-is-malformed"),
        pytest.param(required([expression("size", "Gt", "many")]), "", id="greater-than-a-word-is-malformed"),
        pytest.param(required(by_name("In", "b")), "b", id="by-name"),
        pytest.param(required(by_name("NotIn", "b")), "ac", id="by-name-but-not"),
        pytest.param(required(by_name("In", "a", "b")), "", id="by-two-names-is-malformed"),
        pytest.param(required(by_name("Exists")), "", id="by-name-exists-is-malformed"),
        pytest.param(required(by_name("In", "a"), by_name("In", "c")), "ac", id="one-term-per-name"),
        pytest.param(
            required([expression("zone", "In", "1")]) | {"nodeSelector": {"size": "9"}}, "", id="selector-and-affinity"
        ),
    ],
)
def test_labels(spec: dict[str, Any], fitting: str) -> None:
    cluster = Cluster(*(a_node(name, labels) for name, labels in LABELS.items()))
    pod = a_waiting(**spec)
    assert cluster.fitting(pod) == fitting
    refused = {verdict.reason for verdict in cluster.ask(pod).values() if not verdict}
    assert refused <= {Reason.NODE_SELECTOR_MISMATCH}


@pytest.mark.parametrize(
    ("size", "fitting"),
    [
        pytest.param("10", "a", id="a-number"),
        pytest.param("1_0", "", id="not-a-number-to-kubernetes"),
        pytest.param("ten", "", id="a-word"),
    ],
)
def test_labels_compared_as_numbers(size: str, fitting: str) -> None:
    assert (
        Cluster(a_node("a", {"size": size})).fitting(a_waiting(**required([expression("size", "Gt", "9")]))) == fitting
    )


def test_the_first_rule_that_refuses_is_the_reason() -> None:
    node = {"unschedulable": True, "taints": [TAINT], "allocatable": {"cpu": "1"}}
    everything = {"nodeSelector": {"zone": "9"}, "requests": {"cpu": "4"}}
    assert reason(everything, **node) is Reason.NODE_UNSCHEDULABLE
    node["unschedulable"] = False
    assert reason(everything, **node) is Reason.TAINT_NOT_TOLERATED
    assert reason(everything | {"tolerations": [{"operator": "Exists"}]}, **node) is Reason.NODE_SELECTOR_MISMATCH
