"""Affinity and anti-affinity between pods, in both directions."""

from typing import Any

import pytest

from tests.decide.placement.filters.asking import Cluster, a_node, a_waiting
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.verdict import Reason

WEB, DB = {"app": "web"}, {"app": "db"}


def term(labels: Any = WEB, key: str = "zone", **more: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": None if labels is None else {"matchLabels": labels}} | more


def near(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def away(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def zones() -> Cluster:
    """Nodes `a` and `b` in zone 1, `c` in zone 2, `d` in none."""
    return Cluster(a_node("a", {"zone": "1"}), a_node("b", {"zone": "1"}), a_node("c", {"zone": "2"}), a_node("d"))


def pod(rules: dict[str, Any], labels: dict[str, str] = DB) -> Pod:
    return a_waiting(labels=labels, **rules)


@pytest.mark.parametrize(
    ("rules", "fitting"),
    [
        pytest.param(near(term()), "ab", id="near-in-the-same-zone"),
        pytest.param(near(term(key="kubernetes.io/hostname")), "a", id="near-on-the-same-host"),
        pytest.param(near(term({"app": "cache"})), "", id="near-somebody-who-is-nowhere"),
        pytest.param(near(term(None)), "", id="no-selector-means-nobody"),
        pytest.param(near(term({})), "ab", id="an-empty-selector-means-everybody"),
        pytest.param(near(term(), term(WEB | {"tier": "1"})), "", id="one-pod-must-match-all-terms"),
        pytest.param(near(term(), term(key="kubernetes.io/hostname")), "a", id="every-term-must-hold"),
        pytest.param(away(term()), "cd", id="away-from-the-zone-and-nodes-without-zones-are-no-conflict"),
        pytest.param(away(term(key="kubernetes.io/hostname")), "bcd", id="away-from-the-host"),
        pytest.param(away(term(DB)), "abcd", id="away-from-nobody"),
        pytest.param(away(term(DB), term(key="kubernetes.io/hostname")), "bcd", id="any-term-refuses"),
        pytest.param(near(term(namespaces=["there"])), "", id="near-pods-of-another-namespace"),
        pytest.param(near(term(namespaces=["there", "here"])), "ab", id="near-pods-of-several-namespaces"),
        pytest.param(near(term(namespaceSelector={})), "ab", id="near-pods-of-any-namespace"),
        pytest.param(
            near(term(namespaceSelector={"matchLabels": {"team": "x"}})), "", id="near-pods-of-namespaces-with-labels"
        ),
    ],
)
def test_with_a_web_pod_on_a(rules: dict[str, Any], fitting: str) -> None:
    assert zones().run("web", "a", labels=WEB).fitting(pod(rules)) == fitting


def test_reasons() -> None:
    cluster = zones().run("web", "a", labels=WEB)
    assert cluster.ask(pod(near(term())))["c"].reason is Reason.POD_AFFINITY_UNMET
    assert cluster.ask(pod(near(term())))["d"].detail == "the node has no label zone"
    assert cluster.ask(pod(away(term())))["a"].reason is Reason.POD_ANTI_AFFINITY


def test_somebody_has_to_be_first() -> None:
    cluster = zones()
    together = pod(near(term()), labels=WEB)
    assert cluster.fitting(together) == "abc"
    cluster.run("web", "c", labels=WEB)
    assert cluster.fitting(together) == "c"


def test_a_pod_on_a_node_without_the_label_is_near_to_nobody() -> None:
    cluster = zones().run("web", "d", labels=WEB)
    assert cluster.fitting(pod(near(term()), labels=WEB)) == "abc"


@pytest.mark.parametrize("leaving", [pytest.param(False, id="running"), pytest.param(True, id="being-deleted")])
def test_pods_already_there_keep_others_away(leaving: bool) -> None:
    cluster = zones().run("web", "a", labels=WEB, leaving=leaving, **away(term(DB)))
    assert cluster.fitting(a_waiting(labels=DB)) == "cd"
    assert cluster.ask(a_waiting(labels=DB))["b"].reason is Reason.EXISTING_ANTI_AFFINITY
    assert cluster.fitting(a_waiting(labels=WEB)) == "abcd"


def test_pods_already_there_keep_away_by_namespace() -> None:
    cluster = zones().run("web", "a", labels=WEB, **away(term(DB, namespaces=["there"])))
    assert cluster.fitting(a_waiting(labels=DB)) == "abcd"
    assert cluster.fitting(a_waiting(labels=DB, namespace="there")) == "cd"


def test_namespaces_by_label_follow_the_labels() -> None:
    cluster = zones().run("web", "a", labels=WEB, namespace="there")
    rules = pod(near(term(namespaceSelector={"matchLabels": {"team": "x"}})))
    assert cluster.fitting(rules) == ""
    cluster.hear("Namespace", {"metadata": {"name": "there", "labels": {"team": "x"}}})
    assert cluster.fitting(rules) == "ab"


def test_every_namespace_has_its_name_as_a_label() -> None:
    named = term(namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "there"}})
    assert zones().run("web", "a", labels=WEB, namespace="there").fitting(pod(near(named))) == "ab"


@pytest.mark.parametrize(
    ("keys", "fitting"),
    [
        pytest.param({"matchLabelKeys": ["version"]}, "", id="of-the-same-version"),
        pytest.param({"mismatchLabelKeys": ["version"]}, "ab", id="of-another-version"),
    ],
)
def test_near_pods_of_a_version(keys: dict[str, Any], fitting: str) -> None:
    cluster = zones().run("web", "a", labels=WEB | {"version": "1"})
    assert cluster.fitting(pod(near(term(**keys)), labels=DB | {"version": "2"})) == fitting


def test_what_is_tried_is_seen_by_every_rule() -> None:
    cluster = zones().run("web", "a", labels=WEB, **away(term(DB)))
    db = a_waiting(labels=DB)
    with cluster.snapshot.what_if():
        cluster.snapshot.forget(ObjectKey("here", "web"))
        assert cluster.fitting(db) == "abcd"
        cluster.snapshot.assume(pod(away(term(DB)), labels=WEB), "c")
        assert cluster.fitting(db) == "abd"
    assert cluster.fitting(db) == "cd"
