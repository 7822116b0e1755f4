"""What `plan` says, done: advice, purchases and drains are carried out on the files, and the next plan agrees."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.test_plan_drain import web
from tests.cli.test_plan_scale import node, provisioner
from tests.decide.scenes import node as plain_node
from tests.decide.scenes import pod
from ullage.cli.main import run
from ullage.decide.explain.plan_schedule import SchedulePlan, plan_schedule
from ullage.decide.explain.planning import PlanInputs
from ullage.decide.explain.proof import apply
from ullage.decide.placement.observed_gpus import account_for_bound
from ullage.kube.manifests.manifests import read_manifests
from ullage.model.units import Instant
from ullage.state.snapshot import ClusterSnapshot

FOLDER = Path(__file__).with_name("manifests")


def read(*names: str) -> tuple[ClusterSnapshot, PlanInputs, Instant]:
    """The cluster of some files, as `plan` reads it."""
    found = read_manifests([str(FOLDER / name) for name in names], stdin=None, namespace="default")
    snapshot = ClusterSnapshot(found.state)
    account_for_bound(snapshot)
    newest = max(inventory.reported_at for inventory in found.state.inventories.values())
    return snapshot, PlanInputs(unreadable_claims=found.unreadable_claims), Instant(newest)


@pytest.fixture(scope="module", params=["pending.yaml", "claims.yaml"])
def proved(request: pytest.FixtureRequest) -> tuple[str, SchedulePlan]:
    snapshot, known, now = read("cluster.yaml", request.param)
    return request.param, plan_schedule(snapshot, known, now=now, prove=True)


def test_advice_that_was_found_to_work_gives_the_pod_a_place_in_the_next_plan(
    proved: tuple[str, SchedulePlan],
) -> None:
    file, plan = proved
    tried = 0
    for one in plan.unschedulable:
        for step in one.remedies:
            snapshot, known, now = read("cluster.yaml", file)
            for change in step.remedy.changes:
                apply(snapshot, change)
            claims = {key: why for key, why in known.unreadable_claims.items() if key not in step.remedy.readable}
            after = plan_schedule(snapshot, PlanInputs(unreadable_claims=claims), now=now)
            placed = {each.pod: each.placement.node for each in after.placements}
            assert (one.pod in placed) == step.proof.works, (one.pod, step.remedy.sentence)
            assert placed.get(one.pod, "") == step.proof.node, (one.pod, step.remedy.sentence)
            tried += 1
    assert tried >= 3


def test_nearly_every_pod_without_a_place_is_told_something_that_works(proved: tuple[str, SchedulePlan]) -> None:
    file, plan = proved
    hopeless = [one.pod.name for one in plan.unschedulable if not any(step.proof.works for step in one.remedies)]
    # Whatever these two name instead is the claim of a pod ahead of them.
    assert hopeless == ([] if file == "pending.yaml" else ["both", "reaches-elsewhere"])


def test_a_kind_of_pods_is_tried_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    waiting = [pod(f"wl-{number}", 8) for number in range(40)]
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([*node("a"), pod("busy", 1, on="a"), *waiting]))
    assert run(["plan", "schedule", "--prove", "-f", str(file)]) == 0
    said = capsys.readouterr().out
    assert "team/wl-* (40 pods) have no place" in said
    assert said.count("helps, tried for team/wl-0:") == 1
    assert "tried on a copy: it goes to a" in said
    assert run(["plan", "schedule", "--prove", "-f", str(file), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["unschedulable"]
    assert {one["triedFor"] for one in found} == {"team/wl-0"}
    assert found[39]["remedies"][0]["works"] is True


def plan_of(folder: Path, capsys: pytest.CaptureFixture[str], verb: str, *objects: Any) -> dict[str, Any]:
    flat = [one for each in objects for one in (each if isinstance(each, list) else [each])]
    file = folder / f"{verb}.yaml"
    file.write_text(yaml.safe_dump_all(flat))
    assert run(["plan", verb, "-f", str(file), "-o", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_nodes_that_plan_scale_buys_take_the_pods_it_bought_them_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pods = [*(pod(f"p{place}", 4) for place in range(5)), pod("too-large", 16)]
    scale = plan_of(tmp_path, capsys, "scale", provisioner(), pods)
    bought = scale["pools"]["pool"]["to"]
    assert bought == 3
    new = [part for number in range(bought) for part in node(f"new-{number}")]
    after = plan_of(tmp_path, capsys, "schedule", provisioner(), pods, new)
    assert {one["pod"] for one in after["unschedulable"]} == {"team/too-large"}
    assert {one["node"] for one in after["placements"]} == {"new-0", "new-1", "new-2"}
    fewer = plan_of(tmp_path, capsys, "schedule", provisioner(), pods, new[: -len(node("n"))])
    assert len(fewer["unschedulable"]) == 2, "one node less would not do"


def test_pods_of_nodes_that_plan_drain_removes_have_a_place_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    running = {name: web(f"p-{name}", name) for name in "abcd"}
    drain = plan_of(tmp_path, capsys, "drain", *map(plain_node, running), *running.values())
    going = {one["node"] for one in drain["removable"]}
    assert len(going) == 3
    left = running.keys() - going
    replaced = [web(f"p-{name}", "") for name in going]
    after = plan_of(tmp_path, capsys, "schedule", *map(plain_node, left), *(running[name] for name in left), replaced)
    assert after["unschedulable"] == []
    moved = {move["pod"]: move["to"] for one in drain["removable"] for move in one["moves"]}
    assert {one["pod"]: one["node"] for one in after["placements"]} == moved
