"""`ullage explain` for claims, gangs, quotas, nodes and NodeProvisioners."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.test_plan_scale import provisioner
from tests.decide.explain.situations import ALL, PDB, gang, h100, held, spec_of, unready, wants
from tests.decide.scenes import NOON, claim, leased, node, pod, pod_group, quota
from ullage.cli.main import run

POOL = "gpu.scheduling/provisioner"
BACKED_OFF = {"backOff": {"failure": "NoCapacity", "failures": 2, "until": "2030-01-01T12:05:00Z", "message": "none"}}


def explained(folder: Path, capsys: pytest.CaptureFixture[str], what: str, *objects: Any) -> Any:
    flat = [one for each in objects for one in (each if isinstance(each, list) else [each])]
    (folder / "cluster.yaml").write_text(yaml.safe_dump_all(flat))
    assert run(["explain", what, "-f", str(folder), "--prove"]) == 0, capsys.readouterr().err
    text = capsys.readouterr().out
    assert run(["explain", what, "-f", str(folder), "--prove", "-o", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert text.startswith(f"{said['about']}: {said['verdict']}: {said['message']}")
    assert all(f"$ {command}" in text for command in said["commands"])
    assert said["commands"], "something to look at next"
    return said


@pytest.mark.parametrize(
    ("what", "objects", "verdict", "words"),
    [
        pytest.param("claim/team/c", [h100("h"), wants()], "Fits", "1 of 1 nodes fit", id="claim-of-a-pod-that-fits"),
        pytest.param(
            "gpuclaim/team/c",
            [h100("h"), claim("c"), pod("p", claim="c", on="h", held="0")],
            "Bound",
            "pod team/p has GPU 0 of h by it",
            id="claim-that-is-bound",
        ),
        pytest.param("claim/team/c", [h100("h"), claim("c")], "Unused", "no pod names it", id="claim-nobody-names"),
        pytest.param(
            "claim/team/c",
            [h100("h"), wants(model="B200")],
            "GpuModelMismatch",
            "no node has GPUs of the model that it asks for",
            id="claim-for-a-model-nobody-has",
        ),
        pytest.param(
            "gang/team/g",
            [h100("h"), gang(2, 2, 4)],
            "GangIncomplete",
            "members of its gang are missing",
            id="gang-short",
        ),
        pytest.param(
            "gang/team/g",
            [h100("h"), gang(2, 8, 2)],
            "TooFewGpus",
            "places for 1 of the 2",
            id="gang-without-room",
        ),
        pytest.param(
            "quota/team/quota",
            [h100("h"), quota(gpus=0), wants()],
            "QuotaExceeded",
            "the one thing in the way of team/p",
            id="quota-in-the-way",
        ),
        pytest.param(
            "quota/team/quota",
            [h100("h"), held("h"), quota(gpus=0), wants()],
            "HasRoom",
            "in the way of no pod",
            id="quota-that-is-not-the-one-thing",
        ),
        pytest.param(
            "node/h",
            [spec_of(h100("h"), unschedulable=True), wants()],
            "NodeUnschedulable",
            "cordoned",
            id="node-cordoned",
        ),
        pytest.param(
            "node/h",
            [unready(h100("h"), since=NOON, created=NOON)],
            "NodeStarting",
            "not ready yet",
            id="node-starting",
        ),
        pytest.param(
            "node/bare", [node("bare", 8), leased("x")], "InventoryMissing", "kubelet counts 8", id="no-agent"
        ),
        pytest.param("node/h", [h100("h"), held("h"), wants()], "InsufficientResources", "takes none", id="node-full"),
        pytest.param("node/h", [h100("h"), wants()], "Open", "it would take 1 of the pods", id="node-open"),
        pytest.param(
            "nodeprovisioner/pool",
            [leased("x", 1), provisioner(paused=True)],
            "Paused",
            "it neither buys nor removes",
            id="pool-paused",
        ),
        pytest.param(
            "np/pool", [leased("x", 1), provisioner(), wants(8)], "ScaleUp", "scale up by 1", id="pool-that-buys"
        ),
        pytest.param(
            "pool/pool",
            [leased("x", 1), provisioner() | {"status": BACKED_OFF}, wants(8)],
            "BackedOff",
            "it buys again in 300 s (NoCapacity: none)",
            id="pool-in-back-off",
        ),
    ],
)
def test_what_is_said(
    what: str, objects: list[Any], verdict: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = explained(tmp_path, capsys, what, *objects)
    assert said["verdict"] == verdict
    assert words in said["message"]


def test_a_node_says_why_it_is_not_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = [leased("h", labels={POOL: "pool"}), provisioner(), held("h", labels={"app": "kept"}), PDB]
    said = explained(tmp_path, capsys, "node/h", *objects)
    assert any(line.startswith("removal: it stays: ") for line in said["details"])
    assert any("NodeProvisioner pool" in line for line in said["details"])


def test_a_pool_at_its_maximum_says_so_only_where_that_is_the_one_thing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = [leased("h", labels={POOL: "pool"}), held("h"), provisioner(maxSize=1)]
    said = explained(tmp_path, capsys, "nodeprovisioner/pool", *there, wants(8))
    assert (said["verdict"], said["helps"]) == ("MaxSizeReached", ["raise maxSize of NodeProvisioner pool from 1 to 2"])
    assert [(one["works"], one["proof"]) for one in said["remedies"]] == [
        (True, "tried on a copy: it goes to pool-new-001")
    ]
    assert said["message"] == "its maxSize of 1 is the one thing in the way of 1 pod that waits"
    assert any("MaxSizeReached" in line for line in said["details"])
    other = explained(tmp_path, capsys, "nodeprovisioner/pool", *there, wants(8, model="B200"))
    assert other["helps"] == []
    assert any("GpuModelMismatch" in line for line in other["details"])
    assert any(line.startswith("next: ") for line in other["details"])


def test_the_advice_of_a_gang_is_proved_for_the_whole_gang(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = [h100("a"), h100("b"), held("b"), gang(2, 8, 2)]
    said = explained(tmp_path, capsys, "gang/team/g", *objects)
    assert next((one["works"], one["advice"]) for one in said["remedies"]) == (
        True,
        "free GPU 0,1,2,3,4,5,6,7 on b by ending others/on-b-0",
    )


@pytest.mark.parametrize(
    ("fields", "waiting", "advice", "patched", "proof"),
    [
        (
            {"paused": True},
            [],
            "let NodeProvisioner pool act: set spec.paused to false",
            {"paused": False},
            "it does nothing then: all are wanted",
        ),
        (
            {"paused": True},
            wants(8),
            "resume NodeProvisioner pool: it is paused",
            {"paused": False},
            "it goes to pool-new-001",
        ),
        (
            {"recommendOnly": True},
            wants(8),
            "let NodeProvisioner pool act: set spec.recommendOnly to false",
            {"recommendOnly": False},
            "its next step is ScaleUp: scale up by 1: 1 pending pod fits no existing or upcoming node",
        ),
    ],
    ids=["paused", "paused-and-a-pod-waits", "only-recommends"],
)
def test_a_pool_that_does_not_act_is_told_how_it_would(
    fields: dict[str, Any],
    waiting: list[Any],
    advice: str,
    patched: dict[str, bool],
    proof: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = explained(tmp_path, capsys, "nodeprovisioner/pool", leased("x", 1), provisioner(**fields), *waiting)
    one = found["remedies"][0]
    assert (found["helps"][0], one["advice"], one["works"]) == (advice, advice, True)
    assert one["proof"] == f"tried on a copy: {proof}"
    body = json.dumps({"spec": patched}, separators=(",", ":"))
    assert one["commands"] == [f"kubectl patch nodeprovisioner pool --type merge -p '{body}'"]


@pytest.mark.parametrize(
    ("objects", "works", "proof"),
    [
        ([h100("h"), claim("c", devices={"model": "H100"})], True, "such a pod goes to h"),
        (
            [h100("h"), claim("c", devices={"model": "B200"})],
            False,
            "such a pod would wait: no node has GPUs of the model that it asks for (GpuModelMismatch)",
        ),
        (
            [h100("h"), held("h"), claim("c", 2)],
            False,
            "such a pod would wait: too few suitable GPUs are free (TooFewGpus)",
        ),
    ],
    ids=["fits", "never-fits", "waits"],
)
def test_a_claim_that_nobody_names_says_whether_a_pod_would_get_its_gpus(
    objects: list[Any], works: bool, proof: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (one,) = explained(tmp_path, capsys, "claim/team/c", *objects)["remedies"]
    assert one["advice"] == "name it in a pod: annotation gpu.scheduling/claim: c"
    assert one["commands"][0].startswith("kubectl -n team run c-1 --image=")
    assert one["works"] is works
    assert one["proof"].startswith(f"tried on a copy: {proof}")


@pytest.mark.parametrize(
    ("room", "works", "proof"),
    [([h100("b")], True, "they go to b"), ([], False, "they would wait: ")],
    ids=["room", "no-room"],
)
def test_a_gang_that_lost_members_says_whether_new_ones_would_get_a_place(
    room: list[Any], works: bool, proof: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = [claim("p", 8, gangRef="g", devices={"model": "H100"}), pod("p", claim="p", on="a", held=ALL)]
    found = explained(tmp_path, capsys, "gang/team/g", h100("a"), *room, first, pod_group("g", 2))
    (one,) = found["remedies"]
    assert found["helps"] == [one["advice"]]
    assert one["advice"] == "create the member of gang team/g that is missing: it needs 2, and 1 is there"
    assert one["works"] is works
    assert one["proof"].startswith(f"tried on a copy: {proof}")
