"""kube-scheduler's scores, each on nodes where the points can be worked out by hand."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decide.placement.filters.asking import Cluster, a_node, a_waiting
from tests.state.worlds import a_pod, a_step
from ullage.decide.placement.score.kube import WEIGHTS, KubeScores
from ullage.model.pod import Pod
from ullage.state.snapshot import ClusterSnapshot

WEB, DB = {"app": "web"}, {"app": "db"}
MB = 2**20


def points(cluster: Cluster, pod: Pod, score: str) -> dict[str, int]:
    """Points of the nodes that fit."""
    fits = cluster.table.codes(pod) == 0
    part = KubeScores(cluster.snapshot).parts(pod, fits).get(score, np.zeros(len(fits), np.int64))
    rows = cluster.snapshot.columns.rows
    return {name: int(part[rows[name]]) for name in sorted(rows) if fits[rows[name]]}


def taint(effect: str = "PreferNoSchedule", key: str = "k") -> dict[str, str]:
    return {"key": key, "effect": effect}


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        pytest.param([], {"a": 100, "b": 50, "c": 0}, id="more-taints-fewer-points"),
        pytest.param([{"key": "k"}], {"a": 100, "b": 100, "c": 0}, id="what-is-tolerated-does-not-count"),
        pytest.param([{"operator": "Exists"}], {"a": 0, "b": 0, "c": 0}, id="nothing-to-tell-them-apart"),
        pytest.param(
            [{"operator": "Exists", "effect": "NoSchedule"}], {"a": 100, "b": 50, "c": 0}, id="of-another-effect"
        ),
    ],
)
def test_taints(tolerations: list[Any], expected: dict[str, int]) -> None:
    cluster = Cluster(a_node("a"), a_node("b", taints=[taint()]), a_node("c", taints=[taint(), taint(key="l")]))
    assert points(cluster, a_waiting(tolerations=tolerations), "taints") == expected


def test_only_nodes_that_fit_are_compared() -> None:
    worst = a_node("c", taints=[taint(), taint(key="l")], unschedulable=True)
    cluster = Cluster(a_node("a"), a_node("b", taints=[taint()]), worst)
    assert points(cluster, a_waiting(), "taints") == {"a": 100, "b": 0}


def wish(weight: int, **labels: str) -> dict[str, Any]:
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
    return {"weight": weight, "preference": {"matchExpressions": expressions}}


def preferring_nodes(*wishes: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": list(wishes)}}}


def test_preferred_nodes() -> None:
    cluster = Cluster(a_node("a", {"disk": "ssd", "zone": "1"}), a_node("b", {"disk": "ssd"}), a_node("c"))
    pod = a_waiting(**preferring_nodes(wish(3, disk="ssd"), wish(1, zone="1"), wish(50)))
    assert points(cluster, pod, "nodeAffinity") == {"a": 100, "b": 75, "c": 0}


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        pytest.param({"cpu": "2", "memory": "4Gi"}, {"a": 75, "b": 37}, id="what-is-left-with-the-pod"),
        pytest.param({}, {"a": 98, "b": 60}, id="a-pod-that-says-nothing-counts-a-little"),
    ],
)
def test_least_allocated(requests: dict[str, str], expected: dict[str, int]) -> None:
    """8 CPUs and 16 GiB; on b, 4 CPUs and 4 GiB are taken."""
    cluster = Cluster(a_node("a"), a_node("b")).run("one", "b", requests={"cpu": "4", "memory": "4Gi"})
    assert points(cluster, a_waiting(requests=requests), "fullness") == expected


def test_full_nodes_may_be_better() -> None:
    cluster = Cluster(a_node("a"), a_node("b")).run("one", "b", requests={"cpu": "4", "memory": "4Gi"})
    scores = KubeScores(cluster.snapshot, full_is_better=True)
    fullness = scores.parts(a_waiting(requests={"cpu": "2", "memory": "4Gi"}), np.ones(2, np.bool_))["fullness"]
    assert fullness.tolist() == [25, 62]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_points_repaired_by_row_equal_points_from_nothing(seed: int, full_is_better: bool) -> None:
    rng, snapshot = Random(seed), ClusterSnapshot()
    kept = KubeScores(snapshot, full_is_better=full_is_better)
    pods = [a_pod(rng, f"waiting-{number}") for number in range(3)]
    for _ in range(30):
        snapshot.apply(a_step(rng, snapshot.state))
        pod, fits = rng.choice(pods), snapshot.columns.alive[: snapshot.columns.size]
        fresh = KubeScores(snapshot, full_is_better=full_is_better)
        remembered, worked_out = kept.parts(pod, fits), fresh.parts(pod, fits)
        assert remembered.keys() == worked_out.keys()
        for score, points in worked_out.items():
            assert np.array_equal(remembered[score][fits], points[fits]), score
            assert ((points[fits] >= 0) & (points[fits] <= 100)).all(), score
        assert np.array_equal(kept.total(pod, fits)[fits], fresh.total(pod, fits)[fits])


def test_balanced_allocation() -> None:
    """On b half the CPU and none of the memory is taken: a pod of memory brings them closer."""
    cluster = Cluster(a_node("a"), a_node("b")).run("one", "b", requests={"cpu": "4"})
    assert points(cluster, a_waiting(requests={"memory": "8Gi"}), "balance") == {"a": 62, "b": 87}
    assert points(cluster, a_waiting(requests={"cpu": "4", "memory": "8Gi"}), "balance") == {"a": 75, "b": 75}
    assert points(cluster, a_waiting(), "balance") == {"a": 0, "b": 0}


@pytest.mark.parametrize(
    ("size", "copies", "expected"),
    [
        pytest.param(523 * MB, 2, 51, id="half-of-a-large-image"),
        pytest.param(523 * MB, 1, 24, id="an-image-that-one-of-two-nodes-has-counts-half"),
        pytest.param(20 * MB, 2, 0, id="a-small-image-is-fetched-soon"),
        pytest.param(9000 * MB, 2, 100, id="never-more-than-all"),
    ],
)
def test_images(size: int, copies: int, expected: int) -> None:
    nodes = [a_node("a"), a_node("b")]
    for node in nodes[:copies]:
        node["status"]["images"] = [{"names": ["app:latest", "app@sha256:1"], "sizeBytes": size}]
    assert points(Cluster(*nodes), a_waiting(), "images")["a"] == expected


def test_images_follow_the_nodes() -> None:
    node = a_node("a")
    cluster = Cluster(node)
    scores, pod, fits = KubeScores(cluster.snapshot), a_waiting(), np.ones(1, np.bool_)
    assert "images" not in scores.parts(pod, fits)
    node["status"]["images"] = [{"names": ["app:latest"], "sizeBytes": 2000 * MB}]
    cluster.hear("Node", node)
    assert scores.parts(pod, fits)["images"].tolist() == [100]


def soft(key: str = "zone", **more: Any) -> dict[str, Any]:
    constraint = {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    return constraint | {"labelSelector": {"matchLabels": WEB}} | more


def zones() -> Cluster:
    return Cluster(a_node("a", {"zone": "1"}), a_node("b", {"zone": "1"}), a_node("c", {"zone": "2"}), a_node("d"))


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        # three pods in zone 1, one in zone 2; two domains weigh ln 4: raw 4.16 and 1.39, rounded 4 and 1
        pytest.param(soft(), {"a": 25, "b": 25, "c": 100, "d": 0}, id="zones"),
        # by host a has 2, b 1, c 1, d 0 pods; four domains weigh ln 6: raw 3.58, 1.79, 1.79, 0 rounded 4, 2, 2, 0
        pytest.param(soft("kubernetes.io/hostname"), {"a": 0, "b": 50, "c": 50, "d": 100}, id="hosts"),
        # maxSkew adds the same to all: raw 8.16 and 5.39, rounded 8 and 5
        pytest.param(soft(maxSkew=5), {"a": 62, "b": 62, "c": 100, "d": 0}, id="a-larger-skew-waters-it-down"),
        pytest.param(
            soft(labelSelector={"matchLabels": DB}), {"a": 100, "b": 100, "c": 100, "d": 0}, id="nobody-to-spread"
        ),
    ],
)
def test_soft_spread(constraint: dict[str, Any], expected: dict[str, int]) -> None:
    cluster = zones()
    for number, node in enumerate("aabc"):
        cluster.run(f"web-{number}", node, labels=WEB)
    pod = a_waiting(labels=WEB, topologySpreadConstraints=[constraint])
    assert points(cluster, pod, "spread") == expected


def pod_wish(weight: int, labels: dict[str, str], key: str = "zone") -> dict[str, Any]:
    return {"weight": weight, "podAffinityTerm": {"topologyKey": key, "labelSelector": {"matchLabels": labels}}}


def wishing(kind: str, *wishes: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": list(wishes)}}}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        pytest.param(wishing("podAffinity", pod_wish(5, WEB)), {"a": 100, "b": 100, "c": 50, "d": 0}, id="near"),
        pytest.param(wishing("podAntiAffinity", pod_wish(5, WEB)), {"a": 0, "b": 0, "c": 50, "d": 100}, id="away"),
        pytest.param(
            wishing("podAffinity", pod_wish(5, WEB), pod_wish(10, WEB, "kubernetes.io/hostname")),
            {"a": 100, "b": 33, "c": 50, "d": 0},
            id="two-wishes-add-up",
        ),
        pytest.param(wishing("podAffinity", pod_wish(5, DB)), {"a": 0, "b": 0, "c": 0, "d": 0}, id="near-nobody"),
    ],
)
def test_wishes(rules: dict[str, Any], expected: dict[str, int]) -> None:
    cluster = zones().run("one", "a", labels=WEB).run("two", "a", labels=WEB).run("three", "c", labels=WEB)
    assert points(cluster, a_waiting(**rules), "podAffinity") == expected


def test_placed_pods_wish_too() -> None:
    required = {
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "zone", "labelSelector": {"matchLabels": DB}}
                ]
            }
        }
    }
    cluster = zones().run("likes", "c", **wishing("podAffinity", pod_wish(4, DB)))
    cluster.run("needs", "a", **required).run("dislikes", "d", **wishing("podAntiAffinity", pod_wish(9, DB, "none")))
    assert points(cluster, a_waiting(labels=DB), "podAffinity") == {"a": 25, "b": 25, "c": 100, "d": 0}


def test_nobody_wishes_anything() -> None:
    cluster = zones()
    assert "podAffinity" not in KubeScores(cluster.snapshot).parts(a_waiting(), np.ones(4, np.bool_))


def test_the_total_has_kube_schedulers_weights() -> None:
    cluster = Cluster(a_node("a", {"disk": "ssd"}), a_node("b", taints=[taint()]))
    pod = a_waiting(requests={"cpu": "2", "memory": "4Gi"}, **preferring_nodes(wish(1, disk="ssd")))
    fits = np.ones(2, np.bool_)
    scores = KubeScores(cluster.snapshot)
    rows = cluster.snapshot.columns.rows
    total = scores.total(pod, fits)
    assert WEIGHTS["taints"] == 3
    assert int(total[rows["a"]]) == 3 * 100 + 2 * 100 + 75 + 75
    assert int(total[rows["b"]]) == 75 + 75


def test_no_nodes_at_all() -> None:
    assert KubeScores(Cluster().snapshot).total(a_waiting(labels=WEB), np.zeros(0, np.bool_)).tolist() == []
