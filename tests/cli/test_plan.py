"""`ullage plan schedule` on manifests, as a user and as a program meets it."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ullage.cli.main import run

FOLDER = Path(__file__).with_name("manifests")
CLUSTER, PENDING, CLAIMS = FOLDER / "cluster.yaml", FOLDER / "pending.yaml", FOLDER / "claims.yaml"


class Placement(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """As promised to programs."""

    pod: str
    node: str
    gpus: list[int]
    islands: int
    score: int | None
    share_milli: int = 1000
    instances: list[str] = []
    by_count: bool = False


class Reason(msgspec.Struct, forbid_unknown_fields=True):
    reason: str
    nodes: int
    example: str | None
    detail: str


class Unschedulable(msgspec.Struct, forbid_unknown_fields=True):
    pod: str
    reasons: list[Reason]
    reason: str
    helps: list[str]


class Gang(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    gang: str
    min_member: int
    members: list[str]
    bound: int
    placed: int
    complete: bool
    detail: str


class Plan(msgspec.Struct, forbid_unknown_fields=True):
    placements: list[Placement]
    unschedulable: list[Unschedulable]
    gangs: list[Gang]


def planned(capsys: pytest.CaptureFixture[str], *files: Path, options: tuple[str, ...] = ()) -> Plan:
    arguments = ["plan", "schedule", "-o", "json", *options]
    for file in files:
        arguments += ["-f", str(file)]
    assert run(arguments) == 0
    return msgspec.json.decode(capsys.readouterr().out, type=Plan)


def test_a_plan_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, CLUSTER, PENDING)
    by_pod = {one.pod: one for one in plan.placements}
    assert by_pod.keys() == {"default/no-gpus", "team/four-linked"}
    assert by_pod["team/four-linked"].node == "node-a"
    assert by_pod["team/four-linked"].gpus == [4, 5, 6, 7]
    assert by_pod["team/four-linked"].islands == 1
    assert by_pod["default/no-gpus"].gpus == []
    waiting = {one.pod: one for one in plan.unschedulable}
    assert waiting.keys() == {"team/eight", "team/gated"}
    assert {one.reason: one.nodes for one in waiting["team/eight"].reasons} == {
        "InsufficientResources": 2,
        "NodeUnschedulable": 1,
        "TaintNotTolerated": 1,
        "NodeTooSmall": 1,
    }
    assert waiting["team/eight"].reasons[0].example == "node-a"
    assert "uncordon node-cordoned" in waiting["team/eight"].helps
    assert [one.reason for one in waiting["team/gated"].reasons] == ["SchedulingGated"]


@pytest.mark.parametrize(
    ("pod", "reason", "detail"),
    [
        pytest.param("team/names-nothing", "ClaimMissing", "team/not-there is not there", id="missing"),
        pytest.param("team/looks-elsewhere", "ClaimMissing", "team/elsewhere is not there", id="of-another-namespace"),
        pytest.param("team/reaches-elsewhere", "ClaimMissing", "its own namespace", id="named-with-a-namespace"),
        pytest.param("team/second", "ClaimInUse", "belongs to pod team/first", id="used-by-two"),
        pytest.param("team/too-few-ids", "ClaimInvalid", "spec.devices.preferIds", id="prefer-ids-do-not-match-count"),
        pytest.param("team/ids-nobody-has", "PreferredGpusTaken", "the node has no GPU 14, 15", id="ids-nobody-has"),
        pytest.param("team/ids-taken", "PreferredGpusTaken", "GPU 3 is not free", id="ids-taken"),
        pytest.param("team/sixteen", "NodeTooSmall", "wants 16 of nvidia.com/gpu", id="count-above-any-node"),
        pytest.param("team/lonely", "GangSizeUnknown", "there is no PodGroup team/nothing", id="gang-of-nothing"),
        pytest.param("team/both", "ClaimInvalid", "a claim and a claim template", id="two-annotations"),
        pytest.param("team/other-model", "GpuModelMismatch", "B200 asked", id="another-model"),
        pytest.param("team/five-linked", "NoIslandLargeEnough", "5 asked in one island", id="no-such-island"),
        pytest.param("poor/greedy", "QuotaExceeded", "2 GPUs asked, 0 of 1 are held", id="quota"),
    ],
)
def test_claims_gone_wrong(pod: str, reason: str, detail: str, capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, CLUSTER, CLAIMS)
    reasons = next(one.reasons for one in plan.unschedulable if one.pod == pod)
    found = {one.reason: one.detail for one in reasons}
    assert detail in found[reason]


def test_claims_gone_right(capsys: pytest.CaptureFixture[str]) -> None:
    by_pod = {one.pod: one for one in planned(capsys, CLUSTER, CLAIMS).placements}
    assert by_pod.keys() == {"team/first", "team/asks-for-more", "team/copy-1", "team/copy-2"}
    exact = [(by_pod[pod].node, *by_pod[pod].gpus) for pod in ("team/copy-1", "team/copy-2")]
    assert len(set(exact)) == 2, "each copy of a template has GPUs of its own"
    bigger = by_pod["team/asks-for-more"]
    assert bigger.by_count or len(bigger.gpus) == 3


def test_a_gang_for_programs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    gang = {
        "apiVersion": "gpu.scheduling/v1",
        "kind": "GpuClaim",
        "metadata": {"name": "member"},
        "spec": {"devices": {"count": 3}, "gangRef": "g", "gangMinMember": 2},
    }
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"g{n}", "annotations": {"gpu.scheduling/claim-template": "member"}},
            "spec": {"containers": [{"name": "main", "image": "x"}]},
        }
        for n in range(2)
    ]
    (tmp_path / "gang.json").write_text("\n".join(map(json.dumps, [gang, *pods])))
    plan = planned(capsys, CLUSTER, tmp_path / "gang.json")
    assert plan.gangs == [Gang("default/g", 2, ["default/g0", "default/g1"], 0, 2, True, "")]
    assert {one.pod for one in plan.placements} == {"default/g0", "default/g1"}


def test_a_plan_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "schedule", "-f", str(FOLDER / "cluster.yaml"), "-f", str(PENDING)]) == 0
    said = capsys.readouterr()
    assert "team/four-linked   node-a   4,5,6,7   1" in said.out
    assert "team/eight has no place" in said.out
    assert "  2 nodes   InsufficientResources   node-a: wants 8 of nvidia.com/gpu, 3 of 8 free" in said.out
    assert said.out.endswith("2 placed, 2 without a place\n")
    assert said.err == "warning: ignored 1 Deployment\n"


@pytest.mark.parametrize(
    ("files", "options", "code"),
    [
        pytest.param((CLUSTER,), ("--exit-code",), 0, id="nobody-waits"),
        pytest.param((CLUSTER, PENDING), (), 0, id="not-asked-for"),
        pytest.param((CLUSTER, PENDING), ("--exit-code",), 3, id="somebody-has-no-place"),
    ],
)
def test_exit_codes(files: tuple[Path, ...], options: tuple[str, ...], code: int) -> None:
    assert run(["plan", "schedule", *options, *(part for file in files for part in ("-f", str(file)))]) == code


@pytest.mark.parametrize("policy", ["fragmentation", "best-fit", "packing", "spread"])
def test_every_policy_plans(policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, CLUSTER, PENDING, options=("--policy", policy))
    assert len(plan.placements) == 2


def test_a_plan_is_the_same_to_the_byte() -> None:
    program = Path(sys.executable).with_name("ullage")
    arguments = (program, "plan", "schedule", "-f", CLUSTER, "-f", CLAIMS, "-o", "json")
    outputs = {
        subprocess.run(arguments, capture_output=True, check=True, env={"PYTHONHASHSEED": seed}).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Stdin:
        buffer = io.BytesIO(PENDING.read_bytes())

    monkeypatch.setattr("sys.stdin", Stdin())
    plan = planned(capsys, CLUSTER, Path("-"))
    assert len(plan.placements) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        pytest.param(("-f", "/nowhere/x.yaml"), 1, "/nowhere/x.yaml: no such file", id="missing-file"),
        pytest.param(("-f", "{bad}"), 1, "bad.yaml: document 1 is not YAML", id="bad-yaml"),
        pytest.param(("-f", "{wrong}"), 1, "wrong.yaml: document 1: Pod p: spec.containers: expected", id="wrong-type"),
        pytest.param(("--policy", "worst-fit"), 2, "'worst-fit' is not one of 'fragmentation'", id="unknown-policy"),
        pytest.param(("-o", "xml"), 2, "'xml' is not one of", id="unknown-output"),
        pytest.param(("extra",), 2, "unexpected extra argument", id="an-argument-too-many"),
    ],
)
def test_bad_input_is_a_sentence(
    arguments: tuple[str, ...], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.yaml").write_text("a: [")
    (tmp_path / "wrong.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: 5}\n")
    places: dict[str, Any] = {"bad": tmp_path / "bad.yaml", "wrong": tmp_path / "wrong.yaml"}
    assert run(["plan", "schedule", *(argument.format(**places) for argument in arguments)]) == code
    told = capsys.readouterr()
    assert said in told.err
    assert told.out == ""
    assert "Traceback" not in told.err


@pytest.mark.parametrize(
    ("kind", "spec", "said"),
    [
        pytest.param(
            "GpuClaim",
            "{devices: {cuont: 1}}",
            "spec.devices.cuont: has no effect: there is no such field; did you mean count?",
            id="in-a-claim",
        ),
        pytest.param("GpuClaim", "{zebra: 1}", "spec.zebra: has no effect: there is no such field; allowed", id="far"),
        pytest.param("GpuQuota", "{gpus: 1, gpu: 1}", "did you mean gpus?", id="in-a-quota"),
    ],
)
def test_a_field_that_has_no_effect_is_told(
    kind: str, spec: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"apiVersion: gpu.scheduling/v1\nkind: {kind}\nmetadata: {{name: c}}\nspec: {spec}\n"
    (tmp_path / "one.yaml").write_text(text)
    assert run(["plan", "schedule", "-f", str(tmp_path / "one.yaml")]) == 0
    assert said in capsys.readouterr().err


def test_examples_have_no_field_without_an_effect(capsys: pytest.CaptureFixture[str]) -> None:
    for folder in sorted((Path(__file__).parents[2] / "examples").iterdir()):
        if folder.is_dir() and run(["plan", "schedule", "-f", str(folder)]) == 0:
            assert "has no effect" not in capsys.readouterr().err, folder.name
