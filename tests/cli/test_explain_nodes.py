"""`ullage explain node/NAME --prove`: steps that open a node or let it be removed, tried on a copy."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.test_plan_drain import RS, budget, web
from tests.cli.test_plan_scale import provisioner
from tests.decide.explain.situations import h100, held, spec_of, unready, wants
from tests.decide.scenes import NOON, leased, node, pod
from ullage.cli.main import run
from ullage.kube.client.resource import JsonObject
from ullage.testing.builders import with_meta

POOL = {"gpu.scheduling/provisioner": "pool"}
LATER = "2030-01-01T13:00:00Z"
SAFE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
KEPT = {"gpu.scheduling/scale-down-disabled": "true"}
Objects = list[Any]


def flat(objects: Objects) -> list[JsonObject]:
    return [one for each in objects for one in (each if isinstance(each, list) else [each])]


def told(folder: Path, capsys: pytest.CaptureFixture[str], objects: Objects, *command: str) -> Any:
    (folder / "cluster.yaml").write_text(yaml.safe_dump_all(flat(objects)))
    assert run([*command, "-f", str(folder / "cluster.yaml"), "-o", "json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def drained(**fields: Any) -> JsonObject:
    return provisioner(**{"consolidation__policy": "Drain"} | fields)


def bare(name: str = "p", notes: dict[str, str] | None = None, **more: Any) -> JsonObject:
    body = pod(name, on="h", requests={"cpu": "8"}, **more)
    return with_meta(body, annotations=body["metadata"]["annotations"] | (notes or {}))


def h(notes: dict[str, str] | None = None) -> list[JsonObject]:
    first, *others = leased("h", labels=POOL)
    return [with_meta(first, annotations=notes or {}), *others]


def second_budget() -> JsonObject:
    return with_meta(budget(1), name="other")


@dataclass(frozen=True, slots=True)
class Removal:
    """A node `h` that stays, the step that is told, and the cluster after its commands."""

    objects: Objects
    step: str
    commands: tuple[str, ...]
    after: Objects


SPARE = node("s", labels={"tier": "spare"})
REMOVALS = {
    "pod-without-a-controller": Removal(
        [h(), SPARE, drained(), bare()],
        "let team/p be evicted",
        (f"kubectl -n team annotate pod p --overwrite {next(iter(SAFE))}=true",),
        [h(), SPARE, drained(), bare(notes=SAFE)],
    ),
    "two-pods-in-the-way": Removal(
        [h(), SPARE, drained(), bare(), bare("q")],
        "let team/p be evicted; and let team/q be evicted",
        tuple(f"kubectl -n team annotate pod {name} --overwrite {next(iter(SAFE))}=true" for name in "pq"),
        [h(), SPARE, drained(), bare(notes=SAFE), bare("q", notes=SAFE)],
    ),
    "pod-that-says-no": Removal(
        [h(), SPARE, drained(), web("p", "h", notes={"karpenter.sh/do-not-disrupt": "true"})],
        "let team/p be evicted",
        (f"kubectl -n team annotate pod p --overwrite {next(iter(SAFE))}=true",),
        [h(), SPARE, drained(), web("p", "h", notes={"karpenter.sh/do-not-disrupt": "true"} | SAFE)],
    ),
    "budget-spent": Removal(
        [h(), SPARE, drained(), web("p", "h"), web("q", "h"), budget(0)],
        "let PodDisruptionBudget team/web allow 2 evictions: more replicas, or a larger maxUnavailable",
        ("kubectl -n team edit pdb web",),
        [h(), SPARE, drained(), web("p", "h"), web("q", "h"), budget(2)],
    ),
    "two-budgets": Removal(
        [h(), SPARE, drained(), web("p", "h"), budget(1), second_budget()],
        "leave only one PodDisruptionBudget for team/p: team/other, say. A pod under two is never evicted",
        ("kubectl -n team delete pdb web",),
        [h(), SPARE, drained(), web("p", "h"), second_budget()],
    ),
    "no-place-elsewhere": Removal(
        [h(), drained(), with_meta(bare(), ownerReferences=[RS | {"kind": "Job", "apiVersion": "batch/v1"}])],
        "wait for team/p to end, or end it: no other node has room for it",
        ("kubectl -n team delete pod p",),
        [h(), drained()],
    ),
    "no-place-for-a-replica": Removal(
        [h(), drained(), web("p", "h")],
        "wait for team/p to end, or end it (one replica less): no other node has room for it",
        ("kubectl -n team edit replicaset web  # one replica less",),
        [h(), drained()],
    ),
    "node-that-is-kept": Removal(
        [h(KEPT), SPARE, drained()],
        "take the annotation gpu.scheduling/scale-down-disabled off h",
        (
            "kubectl annotate node h gpu.scheduling/scale-down-disabled- "
            "cluster-autoscaler.kubernetes.io/scale-down-disabled-",
        ),
        [h(), SPARE, drained()],
    ),
    "pool-at-its-minimum": Removal(
        [h(), SPARE, drained(minSize=1)],
        "lower minSize of NodeProvisioner pool to 0",
        ("""kubectl patch nodeprovisioner pool --type merge -p '{"spec":{"minSize":0}}'""",),
        [h(), SPARE, drained(minSize=0)],
    ),
    "pool-that-keeps-an-empty-node": Removal(
        [h(), SPARE, drained(minUnutilizedGPUNodes=1)],
        "lower minUnutilizedGPUNodes of NodeProvisioner pool to 0",
        ("""kubectl patch nodeprovisioner pool --type merge -p '{"spec":{"minUnutilizedGPUNodes":0}}'""",),
        [h(), SPARE, drained()],
    ),
    "pool-that-is-not-drained": Removal(
        [h(), SPARE, provisioner(), web("p", "h")],
        "in NodeProvisioner pool, let it be drained (consolidation.policy: Drain)",
        ("""kubectl patch nodeprovisioner pool --type merge -p '{"spec":{"consolidation":{"policy":"Drain"}}}'""",),
        [h(), SPARE, drained(), web("p", "h")],
    ),
    "pool-that-is-paused-and-a-pod": Removal(
        [h(), SPARE, drained(paused=True), bare()],
        "in NodeProvisioner pool, resume it (paused: false); and let team/p be evicted",
        (
            """kubectl patch nodeprovisioner pool --type merge -p '{"spec":{"paused":false}}'""",
            f"kubectl -n team annotate pod p --overwrite {next(iter(SAFE))}=true",
        ),
        [h(), SPARE, drained(), bare(notes=SAFE)],
    ),
}


@pytest.mark.parametrize("row", [pytest.param(row, id=name) for name, row in REMOVALS.items()])
def test_steps_that_let_a_node_be_removed(row: Removal, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = told(tmp_path, capsys, row.objects, "explain", "node/h", "--prove")
    (one,) = said["remedies"]
    assert said["helps"] == [one["advice"]] == [f"to have it removed, {row.step}"]
    assert one["commands"] == list(row.commands)
    assert (one["works"], one["proof"]) == (True, "tried on a copy: it can be removed then")
    plan = told(tmp_path, capsys, row.after, "plan", "drain", "--pool", "pool")
    assert [node["node"] for node in plan["removable"]] == ["h"], plan


STAYING = {
    "removable-and-drained": [h(), SPARE, drained(), web("p", "h")],
    "empty-and-its-pool-takes-it": [h(), SPARE, provisioner()],
    "of-no-pool": [node("h"), SPARE],
    "of-the-control-plane": [node("h", labels={"node-role.kubernetes.io/control-plane": ""}), SPARE, bare()],
    "in-use": [h(), SPARE, drained(), held("h")],
}


@pytest.mark.parametrize("objects", [pytest.param(row, id=name) for name, row in STAYING.items()])
def test_nodes_without_a_step_to_take(objects: Objects, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = told(tmp_path, capsys, objects, "explain", "node/h")
    assert (said["helps"], said["remedies"]) == ([], [])
    assert any(line.startswith("removal: it ") for line in said["details"])


def test_steps_that_do_not_help_are_told_only_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = [h(), SPARE, provisioner(paused=True), held("h")]
    assert told(tmp_path, capsys, objects, "explain", "node/h")["helps"] == []
    (one,) = told(tmp_path, capsys, objects, "explain", "node/h", "--prove")["remedies"]
    assert one["works"] is False
    assert one["proof"] == "tried on a copy: that is not enough: it stays: NotUnderutilized: 100.0% in use"


OPENINGS: dict[str, tuple[Objects, str, str]] = {
    "cordoned": (
        [spec_of(h100("h"), unschedulable=True), wants()],
        "uncordon h",
        "tried on a copy: it takes team/p then",
    ),
    "cordoned-and-nobody-waits": (
        [spec_of(h100("h"), unschedulable=True)],
        "uncordon h",
        "tried on a copy: nothing keeps pods off it then",
    ),
    "cordoned-and-of-another-model": (
        [spec_of(h100("h"), unschedulable=True), wants(model="B200")],
        "uncordon h",
        "tried on a copy: nothing keeps pods off it then; those that wait: 1 GpuModelMismatch",
    ),
    "starting": (
        [unready(h100("h"), since=NOON, created=NOON), wants()],
        "wait: h is starting",
        "tried on a copy: it takes team/p then",
    ),
    "not-ready": (
        [unready(h100("h"), since=NOON), wants()],
        "bring h back to Ready: its kubelet and its network",
        "tried on a copy: it takes team/p then",
    ),
    "no-agent": (
        [node("h", 8), leased("x", 1), wants(2)],
        "run the agent on h: nobody reports which GPUs it has",
        "tried on a copy: it takes team/p then",
    ),
    "silent-agent": (
        [h100("h"), leased("x", 1, at=LATER), wants(2)],
        "start the agent of h again: it reported 3600 s ago",
        "tried on a copy: it takes team/p then",
    ),
    "ill-gpus": (
        [h100("h", ill=range(8)), wants()],
        "repair GPU 0,1,2,3,4,5,6,7 of h: reset it, or replace the node",
        "tried on a copy: it takes team/p then",
    ),
    "cordoned-with-a-silent-agent": (
        [spec_of(h100("h"), unschedulable=True), leased("x", 1, at=LATER), wants(2)],
        "uncordon h; and start the agent of h again: it reported 3600 s ago",
        "tried on a copy: it takes team/p then",
    ),
    "full": (
        [h100("h"), held("h"), wants()],
        "free GPU 0,1,2,3,4,5,6,7 on h by ending others/on-h-0",
        "tried on a copy: it goes to h",
    ),
}


@pytest.mark.parametrize(("objects", "step", "proof"), [pytest.param(*row, id=name) for name, row in OPENINGS.items()])
def test_steps_that_open_a_node(
    objects: Objects, step: str, proof: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = told(tmp_path, capsys, objects, "explain", "node/h", "--prove")
    one = said["remedies"][0]
    assert (said["helps"][0], one["advice"], one["works"], one["proof"]) == (step, step, True, proof)
    assert one["commands"]


@pytest.mark.parametrize(
    ("count", "verdict", "proof"),
    [(7, "Open", "it takes team/p then"), (8, "GpusUnhealthy", "it takes team/p then")],
    ids=["enough-are-left", "too-few-are-left"],
)
def test_one_ill_gpu_closes_no_node(
    count: int, verdict: str, proof: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = told(tmp_path, capsys, [h100("h", ill=[3]), wants(count)], "explain", "node/h", "--prove")
    assert said["verdict"] == verdict
    assert "GPU 3 is not healthy" in said["details"]
    one = said["remedies"][0]
    assert (one["advice"], one["proof"]) == (
        "repair GPU 3 of h: reset it, or replace the node",
        f"tried on a copy: {proof}",
    )


def test_the_taint_of_agents_closes_no_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taint = {"key": "gpu.scheduling/leased", "value": "true", "effect": "NoSchedule"}
    said = told(tmp_path, capsys, [spec_of(h100("h"), taints=[taint])], "explain", "node/h")
    assert (said["verdict"], said["helps"]) == ("Open", [])
    assert "pods need a GpuClaim to be placed on it" in said["details"]


def test_a_taint_of_somebody_is_told_where_no_pod_waits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    said = told(tmp_path, capsys, [spec_of(h100("h"), taints=[taint])], "explain", "node/h")
    assert (said["verdict"], said["message"]) == (
        "TaintNotTolerated",
        "only pods that tolerate taint team=a:NoSchedule",
    )


def test_the_settings_of_the_controller_decide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "settings" / "file.yaml"
    file.parent.mkdir()
    file.write_text("draining: {utilizationThreshold: 0.1}\n")
    objects = [node("h"), SPARE, web("p", "h"), pod("busy", on="s", requests={"cpu": "40"})]
    as_usual = told(tmp_path, capsys, objects, "explain", "node/h")
    said = told(tmp_path, capsys, objects, "explain", "node/h", "--settings", str(file))
    assert (
        "removal: it can be removed now: its pods have places elsewhere, and every budget lasts" in as_usual["details"]
    )
    assert "removal: it stays: NotUnderutilized: 12.5% in use" in said["details"]


def test_a_node_waits_for_a_pod_that_is_to_finish(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notes = {next(iter(SAFE)): "on-completion"}
    said = told(tmp_path, capsys, [h(), SPARE, drained(), bare(notes=notes)], "explain", "node/h")
    assert "removal: it stays: WaitsForCompletion: it can be removed when team/p is over" in said["details"]
    assert said["helps"] == []


def test_a_node_that_could_go_alone_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = told(tmp_path, capsys, [node("h"), SPARE, web("p", "h")], "explain", "node/h")
    assert (
        "removal: it could be removed alone, and other nodes go before it; beside them it stays: "
        "NoPlaceToMovePods (pod team/p): there is no other node"
    ) in said["details"]
