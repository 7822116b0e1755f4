"""Hard spread constraints."""

from typing import Any

import pytest

from tests.decide.placement.filters.asking import Cluster, a_node, a_waiting
from ullage.model.pod import Pod
from ullage.model.verdict import Reason

WEB = {"app": "web"}


def spread(key: str = "zone", labels: Any = WEB, **more: Any) -> dict[str, Any]:
    selector = None if labels is None else {"matchLabels": labels}
    return {
        "topologyKey": key,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    } | more


def spreading(*constraints: dict[str, Any], labels: dict[str, str] = WEB, **spec: Any) -> Pod:
    return a_waiting(labels=labels, topologySpreadConstraints=list(constraints), **spec)


def zones(**pods: int) -> Cluster:
    """Nodes `a` and `b` in zone 1, `c` in zone 2, `d` in none; with so many web pods on each."""
    cluster = Cluster(a_node("a", {"zone": "1"}), a_node("b", {"zone": "1"}), a_node("c", {"zone": "2"}), a_node("d"))
    for node, count in pods.items():
        for number in range(count):
            cluster.run(f"{node}-{number}", node, labels=WEB)
    return cluster


@pytest.mark.parametrize(
    ("pods", "constraint", "fitting"),
    [
        pytest.param({}, spread(), "abc", id="nobody-is-there-yet"),
        pytest.param({"a": 1}, spread(), "c", id="the-emptier-zone"),
        pytest.param({"a": 1, "c": 1}, spread(), "abc", id="even-again"),
        pytest.param({"a": 1, "b": 1}, spread(maxSkew=3), "abc", id="a-larger-difference-is-allowed"),
        pytest.param({"a": 1}, spread(labels={}), "abc", id="an-empty-selector-counts-nobody"),
        pytest.param({"a": 1}, spread(labels=None), "abc", id="no-selector-counts-nobody"),
        pytest.param({"a": 1}, spread(whenUnsatisfiable="ScheduleAnyway"), "abcd", id="a-soft-one-refuses-nobody"),
        pytest.param({}, spread(minDomains=3), "abc", id="too-few-domains-and-nobody-there"),
        pytest.param({"a": 1, "c": 1}, spread(minDomains=3), "", id="too-few-domains-mean-the-least-is-zero"),
        pytest.param({"d": 5}, spread(), "abc", id="nodes-without-the-label-do-not-count"),
    ],
)
def test_over_zones(pods: dict[str, int], constraint: dict[str, Any], fitting: str) -> None:
    assert zones(**pods).fitting(spreading(constraint)) == fitting


def test_why_not() -> None:
    verdicts = zones(a=1).ask(spreading(spread()))
    assert verdicts["a"].reason is Reason.SPREAD_TOO_UNEVEN
    assert verdicts["a"].detail == "zone=1 would have 2 pods, the least is 0, allowed difference 1"
    assert verdicts["d"].reason is Reason.SPREAD_KEY_MISSING


def test_a_pod_its_own_constraint_does_not_select_adds_nothing() -> None:
    assert zones(a=1).fitting(spreading(spread(), labels={"app": "db"})) == "abc"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"namespace": "there"}, id="in-another-namespace"),
        pytest.param({"leaving": True}, id="being-deleted"),
        pytest.param({"labels": {"app": "db"}}, id="with-other-labels"),
    ],
)
def test_pods_that_do_not_count(other: dict[str, Any]) -> None:
    cluster = zones()
    cluster.run("other", "a", **({"labels": WEB} | other))
    assert cluster.fitting(spreading(spread())) == "abc"


@pytest.mark.parametrize(
    ("constraint", "fitting"),
    [
        pytest.param(spread(), "c", id="nodes-the-pod-does-not-want-are-no-domains"),
        pytest.param(spread(nodeAffinityPolicy="Ignore"), "", id="unless-it-says-so"),
    ],
)
def test_node_affinity_and_domains(constraint: dict[str, Any], fitting: str) -> None:
    cluster = zones(c=1)
    assert cluster.fitting(spreading(constraint, nodeSelector={"zone": "2"})) == fitting


@pytest.mark.parametrize(
    ("constraint", "fitting"),
    [
        pytest.param(spread(), "", id="tainted-nodes-are-domains"),
        pytest.param(spread(nodeTaintsPolicy="Honor"), "c", id="unless-it-says-so"),
    ],
)
def test_taints_and_domains(constraint: dict[str, Any], fitting: str) -> None:
    tainted = a_node("a", {"zone": "1"}, taints=[{"key": "k", "effect": "NoSchedule"}])
    cluster = Cluster(tainted, a_node("c", {"zone": "2"})).run("one", "c", labels=WEB)
    assert cluster.fitting(spreading(constraint)) == fitting


def test_a_node_must_have_all_the_keys_to_be_part_of_any_domain() -> None:
    cluster = Cluster(a_node("a", {"zone": "1", "rack": "r"}), a_node("b", {"zone": "2"}))
    cluster.run("one", "a", labels=WEB)
    both = spreading(spread(), spread("rack", maxSkew=5))
    assert cluster.fitting(both) == "a"  # zone 2 is no domain: its only node has no rack


def test_labels_whose_values_must_match_too() -> None:
    cluster = zones()
    cluster.run("old", "a", labels=WEB | {"version": "1"})
    by_version = spread(matchLabelKeys=["version", "absent"])
    assert cluster.fitting(spreading(by_version, labels=WEB | {"version": "2"})) == "abc"
    assert cluster.fitting(spreading(by_version, labels=WEB | {"version": "1"})) == "c"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"leaving": True}, id="it-is-being-deleted"),
        pytest.param({"labels": {"app": "db"}}, id="its-labels-change"),
    ],
)
def test_counts_follow_a_pod_that_stays_where_it_is(change: dict[str, Any]) -> None:
    cluster = zones(a=1)
    pod = spreading(spread())
    assert cluster.fitting(pod) == "c"
    cluster.run("a-0", "a", **({"labels": WEB} | change))
    assert cluster.fitting(pod) == "abc"


def test_counts_follow_pods_nodes_and_what_ifs() -> None:
    cluster = zones(a=1)
    pod = spreading(spread())
    assert cluster.fitting(pod) == "c"
    with cluster.snapshot.what_if():
        cluster.snapshot.assume(spreading(spread()), "c")
        assert cluster.fitting(pod) == "abc"
    assert cluster.fitting(pod) == "c"
    cluster.hear("Node", a_node("e", {"zone": "3"}))
    assert cluster.fitting(pod) == "ce"
