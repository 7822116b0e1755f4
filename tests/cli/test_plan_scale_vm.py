"""`ullage plan scale` and `explain nodeprovisioner` with VMs in need of a node: what would be bought for them."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.test_explain_vm import CONFIG, a_machine
from tests.cli.test_plan_drain_vm import OFFERED, a_guest, migratable
from tests.cli.test_plan_scale import provisioner
from ullage.cli.main import run
from ullage.model.vm import VM_NEEDS_NODE
from ullage.testing.builders import a_config_map, a_node, with_meta


def a_full_cluster(folder: Path, *, cores: int = 16, in_need: bool = True) -> str:
    """Two VMs on one node of 16 cores whose watermark is at 7; `b` needs another node."""
    config = json.dumps(json.loads(CONFIG) | {"nodeSelector": {"gpu.scheduling/provisioner": "pool"}})
    noted: dict[str, Any] = {"annotations": {VM_NEEDS_NODE: "1893499000"}} if in_need else {}
    room = {"cpu": str(cores), "memory": f"{4 * cores}Gi", "pods": "110"}
    objects = [

        {"apiVersion": "v1", "kind": "Node", **a_node("node-a", allocatable=OFFERED)},
        {"apiVersion": "v1", "kind": "ConfigMap", **a_config_map("vm-nodes"), "data": {"config.json": config}},
        migratable(a_machine("a", 6)), a_guest("a", "node-a", 6),
        with_meta(migratable(a_machine("b", 5)), **noted), a_guest("b", "node-a", 5),
        provisioner(template__resources=room),
    ]  # fmt: skip
    (folder / "cluster.yaml").write_text(yaml.safe_dump_all(objects))
    return str(folder / "cluster.yaml")


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(list(arguments)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("cluster", "lines"),
    [
        pytest.param({"in_need": False}, ["pool 0 -> 0"], id="nobody-in-need"),
        pytest.param({}, ["pool 0 -> 1"], id="a-node-for-the-vm"),
        pytest.param(
            {"cores": 4},
            ["VM pod default/b finds no other node (pool: VmInsufficientRoom)", "pool 0 -> 0"],
            id="no-pool-has-nodes-that-large",
        ),
    ],
)
def test_nodes_are_planned_for_vms_in_need(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cluster: dict[str, Any], lines: list[str]
) -> None:
    text = said(capsys, "plan", "scale", "-f", a_full_cluster(tmp_path, **cluster))
    assert text.splitlines()[-len(lines) :] == lines
    assert ("ScaleUp" in text) is (lines[-1] == "pool 0 -> 1")


def test_the_pool_says_for_whom_it_buys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "explain", "nodeprovisioner/pool", "-f", a_full_cluster(tmp_path))
    assert "buying: for 1 pod that waits" in text
    text = said(capsys, "explain", "nodeprovisioner/pool", "-f", a_full_cluster(tmp_path, in_need=False))
    assert "not buying: no pod waits that it would serve" in text
