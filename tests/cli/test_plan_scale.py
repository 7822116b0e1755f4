"""`ullage plan scale`: the rehearsal as people and programs see it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.decide.scenes import claim, leased, pod
from tests.kube.crds.bad_provisioners import with_fields
from ullage.cli.main import run
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import NODE_PROVISIONERS
from ullage.testing.builders import of_kind


def provisioner(name: str = "pool", **fields: Any) -> JsonObject:
    plain = {"minGPUUtilizationPercent": 80, "scaleUpBatch": "0s"}
    spec = with_fields(plain | {key.replace("__", "."): value for key, value in fields.items()})
    return of_kind(NODE_PROVISIONERS, {"metadata": {"name": name, "uid": name}, "spec": spec})


def planned(folder: Path, capsys: pytest.CaptureFixture[str], *objects: Any, options: tuple[str, ...] = ()) -> str:
    flat = [one for each in objects for one in (each if isinstance(each, list) else [each])]
    file = folder / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(flat))
    assert run(["plan", "scale", "-f", str(file), *options]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def node(name: str, pool: str = "pool") -> list[JsonObject]:
    return leased(name, labels={"gpu.scheduling/provisioner": pool})


def test_what_would_be_bought(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pods = [pod(f"p{place:02}", 4) for place in range(5)]
    assert planned(tmp_path, capsys, provisioner(), pods).splitlines() == [
        "LOOP   AFTER   PROVISIONER   STEP      COUNT   SIZE   NODES   WHY",
        "1      0s      pool          ScaleUp   3       0/3    -       "
        "scale up by 3: 5 pending pods fit no existing or upcoming node",
        "",
        "pool 0 -> 3",
    ]


def test_what_would_be_tainted_and_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [part for name in "abcde" for part in node(name)]
    text = planned(
        tmp_path, capsys, provisioner(minUnutilizedGPUNodes=1), nodes, pod("p", 8, on="a"), options=("-o", "json")
    )
    plan = json.loads(text)
    assert [(one["afterSeconds"], one["step"], one["nodes"]) for one in plan["steps"]] == [
        (0.0, "TaintForDeletion", ["b", "c", "d"]),
        (600.0, "TerminateInstance", ["b", "c", "d"]),
    ]
    assert (plan["pools"], plan["settled"]) == ({"pool": {"from": 5, "to": 2}}, True)


def test_a_gang_that_cannot_be_whole_buys_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    members = [
        part
        for number in range(3)
        for part in (claim(f"c{number}", 8, gangRef="g", gangMinMember=3), pod(f"g{number}", claim=f"c{number}"))
    ]
    lines = planned(tmp_path, capsys, provisioner(maxSize=2), members).splitlines()
    assert lines == [
        *(f"team/g{number} stays without a node (pool: MaxSizeReached)" for number in range(3)),
        "pool 0 -> 0",
    ]


def test_advice_is_given_and_not_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = planned(tmp_path, capsys, provisioner(recommendOnly=True), pod("p", 8)).splitlines()
    assert "ScaleUp (advice)" in lines[1]
    assert lines[-1] == "pool 0 -> 0"


def test_a_budget_limits_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pods = [pod(f"p{place}", 8) for place in range(3)]
    lines = planned(tmp_path, capsys, provisioner(), pods, options=("--max-gpus", "17")).splitlines()
    assert lines[-2:] == ["team/p2 stays without a node (pool: FleetBudgetReached)", "pool 0 -> 2"]


def test_the_same_files_give_the_same_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene = (provisioner("one"), provisioner("two"), [pod(f"p{place}", place % 8 + 1) for place in range(20)])
    assert planned(tmp_path, capsys, *scene) == planned(tmp_path, capsys, *scene)


@pytest.mark.parametrize(
    ("objects", "says"),
    [
        pytest.param([pod("p", 1)], "there is no NodeProvisioner; add one", id="none"),
        pytest.param([provisioner(minSize=20)], "spec.minSize: must not be above maxSize", id="one-that-breaks-a-rule"),
        pytest.param([provisioner(maxSize="ten")], "spec.maxSize", id="one-that-cannot-be-read"),
    ],
)
def test_what_cannot_be_planned_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], objects: list[JsonObject], says: str
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    assert run(["plan", "scale", "-f", str(file)]) == 1
    assert says in capsys.readouterr().err
