"""`ullage plan drain`: the plan as people and programs see it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.test_plan_scale import provisioner
from tests.decide.scenes import leased, node, pod
from ullage.cli.main import run
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import BUDGETS
from ullage.testing.builders import a_budget, of_kind, with_meta

RS = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}


def web(name: str, on: str, cpu: str = "8", notes: dict[str, str] | None = None, **more: Any) -> JsonObject:
    """A pod of a ReplicaSet."""
    body = pod(name, on=on, requests={"cpu": cpu}, labels={"app": "web"}, **more)
    return with_meta(body, ownerReferences=[RS], annotations=body["metadata"]["annotations"] | (notes or {}))


def budget(allowed: int) -> JsonObject:
    status = {"status": {"disruptionsAllowed": allowed}}
    return of_kind(BUDGETS, a_budget("web", {"app": "web"}), "team") | status


def replica_set(replicas: int) -> JsonObject:
    meta = {"name": "web", "namespace": "team", "uid": "rs"}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": {"replicas": replicas}}


def planned(folder: Path, capsys: pytest.CaptureFixture[str], *objects: Any, options: tuple[str, ...] = ()) -> str:
    flat = [one for each in objects for one in (each if isinstance(each, list) else [each])]
    file = folder / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(flat))
    assert run(["plan", "drain", "-f", str(file), *options]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


FLEET = [node("a"), node("b"), node("c"), node("idle"), web("p", "a"), web("q", "b"), web("r", "c", "40")]


def test_what_programs_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = planned(tmp_path, capsys, FLEET, budget(1), options=("-o", "json"))
    assert json.loads(text) == {
        "removable": [
            {"node": "idle", "empty": True, "reason": "Empty", "moves": []},
            {"node": "a", "empty": False, "reason": "Underutilized", "moves": [{"pod": "team/p", "to": "c"}]},
        ],
        "unremovable": [
            {"node": "b", "reason": "NotEnoughPdb", "pod": "team/q"},
            {"node": "c", "reason": "NotUnderutilized", "pod": None},
        ],
        "pdbs": [{"name": "team/web", "left": 0}],
    }


def test_what_people_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert planned(tmp_path, capsys, FLEET, budget(1)).splitlines() == [
        "REMOVABLE   WHY             PODS   MOVES",
        "idle        Empty           0      -",
        "a           Underutilized   1      team/p -> c",
        "",
        "STAYS   WHY                POD      DETAIL",
        "b       NotEnoughPdb       team/q   team/web does not allow so many",
        "c       NotUnderutilized   -        62.5% in use",
        "",
        "PDB        EVICTIONS LEFT",
        "team/web   0",
        "",
        "2 of 4 nodes can go together, 1 pod would move",
    ]


BUSY = [node("z"), web("z", "z", "40")]
"""A node that stays, with room."""
DISK = [{"name": "cache", "emptyDir": {}}]
CLONE = RS | {"kind": "CloneSet", "apiVersion": "apps.kruise.io/v1alpha1"}

SWITCHES: dict[str, tuple[JsonObject, tuple[str, ...], str]] = {
    "data-on-the-node": (web("p", "a", volumes=DISK), ("--no-skip-nodes-with-local-storage",), "LocalStorage"),
    "system-pods": (web("p", "a", namespace="kube-system"), ("--no-skip-nodes-with-system-pods",), "SystemPod"),
    "custom-controllers": (
        with_meta(web("p", "a"), ownerReferences=[CLONE]),
        ("--no-skip-nodes-with-custom-controller-pods",),
        "NotReplicated",
    ),
    "used-too-much": (web("p", "a", "33"), ("--utilization-threshold", "0.6"), "NotUnderutilized"),
    "a-daemon-s-use": (
        with_meta(web("p", "a", "33"), ownerReferences=[RS | {"kind": "DaemonSet"}]),
        ("--ignore-daemonsets-utilization",),
        "NotUnderutilized",
    ),
}


@pytest.mark.parametrize(("blocking", "options", "why"), SWITCHES.values(), ids=SWITCHES)
def test_what_keeps_a_node_can_be_switched_off(
    blocking: JsonObject, options: tuple[str, ...], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    big = [*BUSY, node("y"), web("y", "y", "40")]
    kept = json.loads(planned(tmp_path, capsys, node("a"), big, blocking, options=("-o", "json")))
    assert {one["node"]: one["reason"] for one in kept["unremovable"]}["a"] == why
    freed = json.loads(planned(tmp_path, capsys, node("a"), big, blocking, options=("-o", "json", *options)))
    gone = [one["node"] for one in freed["removable"]]
    assert "a" in gone or why == "NotUnderutilized"
    assert {one["node"]: one["reason"] for one in freed["unremovable"]}.get("a") != why


def test_small_replica_sets_may_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fleet = [node("a"), BUSY, web("p", "a"), replica_set(2)]
    flat = [one for each in fleet for one in (each if isinstance(each, list) else [each])]
    assert "a           Underutilized" in planned(tmp_path, capsys, flat)
    text = planned(tmp_path, capsys, flat, options=("--min-replica-count", "3"))
    assert "a       TooFewReplicas     team/p   ReplicaSet web has 2 of at least 3" in text


def test_annotations_of_cluster_autoscaler_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note = "cluster-autoscaler.kubernetes.io/safe-to-evict"
    slow, pinned = web("p", "a", notes={note: "on-completion"}), web("q", "b", notes={note: "false"})
    kept = with_meta(node("k"), annotations={"gpu.scheduling/scale-down-disabled": "true"})
    text = planned(tmp_path, capsys, node("a"), node("b"), kept, slow, pinned, BUSY, options=("-o", "json"))
    assert json.loads(text)["unremovable"] == [
        {"node": "a", "reason": "WaitsForCompletion", "pod": "team/p"},
        {"node": "b", "reason": "NotSafeToEvict", "pod": "team/q"},
        {"node": "k", "reason": "ScaleDownDisabled", "pod": None},
        {"node": "z", "reason": "NotUnderutilized", "pod": None},
    ]


def test_pools_keep_their_minimum_and_may_be_the_only_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    label = "gpu.scheduling/provisioner"
    nodes = [part for name in "abc" for part in leased(name, labels={label: "pool"})]
    plan = json.loads(planned(tmp_path, capsys, provisioner(minSize=2), nodes, node("x"), options=("-o", "json")))
    assert [one["node"] for one in plan["removable"]] == ["a", "x"]
    assert {one["reason"] for one in plan["unremovable"]} == {"PoolMinimumReached"}
    only = planned(tmp_path, capsys, provisioner(minSize=2), nodes, node("x"), options=("-o", "json", "--pool", "pool"))
    assert {"node": "x", "reason": "NotACandidate", "pod": None} in json.loads(only)["unremovable"]


@pytest.mark.parametrize(
    ("threshold", "options", "reason"),
    [
        pytest.param(20, (), "NotUnderutilized", id="the-pool-says"),
        pytest.param(20, ("--gpu-utilization-threshold", "0.6"), "NoPlaceToMovePods", id="unless-it-is-given"),
        pytest.param(50, (), "NoPlaceToMovePods", id="as-much-as-may-be"),
    ],
)
def test_pools_that_are_drained_have_their_own_threshold(
    threshold: int, options: tuple[str, ...], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = provisioner(minGPUUtilizationPercent=0, consolidation__policy="Drain")
    pool["spec"]["consolidation"]["utilizationThresholdPercent"] = threshold
    nodes = [part for name in "ab" for part in leased(name, labels={"gpu.scheduling/provisioner": "pool"})]
    used = [with_meta(pod("p", 4, on="a"), ownerReferences=[RS])]
    plan = json.loads(planned(tmp_path, capsys, pool, nodes, used, options=("-o", "json", *options)))
    assert plan["unremovable"][0]["reason"] == reason, "the empty one went first"


BARE: dict[str, tuple[dict[str, Any], int]] = {
    "so-many-must-be-there": ({"minAvailable": 2}, 1),
    "a-part-must-be-there": ({"minAvailable": "50%"}, 1),
    "so-many-may-be-gone": ({"maxUnavailable": 2}, 2),
    "a-part-may-be-gone": ({"maxUnavailable": "30%"}, 1),
}


@pytest.mark.parametrize(("spec", "left"), BARE.values(), ids=BARE)
def test_budgets_without_a_status_are_counted(
    spec: dict[str, Any], left: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "team"}}
    bare["spec"] = {"selector": {"matchLabels": {"app": "web"}}} | spec
    pods = [web(name, "z", "15") for name in "pqr"]
    text = planned(tmp_path, capsys, node("z"), pods, bare, options=("-o", "json"))
    assert json.loads(text)["pdbs"] == [{"name": "team/web", "left": left}]
