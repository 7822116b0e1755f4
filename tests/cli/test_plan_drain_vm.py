"""`ullage plan drain` with VMs: one goes only where the VM ledger has room for it, whatever its pod requests."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.test_explain_vm import CONFIG, a_machine
from ullage.cli.main import ullage
from ullage.model.vm import MIGRATION_ENABLED
from ullage.testing.builders import a_config_map, a_node, a_pod, with_meta

OFFERED = {"cpu": "16", "memory": "64Gi", "pods": "110"}


def a_guest(name: str, node: str, cores: int) -> dict[str, Any]:
    notes = {"gpu.scheduling/vm-approved": f'{{"cpu":"{cores}","memory":"{4 * cores}Gi"}}'}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": True}
    pod = a_pod(name, nodeName=node, requests={"cpu": "100m", "memory": "1Gi"})
    pod = with_meta(pod, labels={"vm.neon.tech/name": name}, annotations=notes, ownerReferences=[owner])
    return {"apiVersion": "v1", "kind": "Pod", **pod, "status": {"phase": "Running"}}


def migratable(machine: dict[str, Any]) -> dict[str, Any]:
    return with_meta(machine, labels={**machine["metadata"].get("labels", {}), MIGRATION_ENABLED: "true"})


@pytest.mark.parametrize(
    ("cores_elsewhere", "fits"),
    [
        pytest.param(3, True, id="room-below-the-watermark"),
        pytest.param(8, False, id="room-above-it-alone"),
        pytest.param(14, False, id="room-by-requests-alone"),
    ],
)
def test_a_vm_goes_where_the_ledger_has_room(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cores_elsewhere: int, fits: bool
) -> None:
    objects = [
        *({"apiVersion": "v1", "kind": "Node", **a_node(name, allocatable=OFFERED)} for name in ("node-a", "node-b")),
        {"apiVersion": "v1", "kind": "ConfigMap", **a_config_map("vm-nodes"), "data": {"config.json": CONFIG}},
        migratable(a_machine("small", 4)), a_guest("small", "node-a", 4),
        migratable(a_machine("large", cores_elsewhere)), a_guest("large", "node-b", cores_elsewhere),
    ]  # fmt: skip
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    ullage.main(["plan", "drain", "-f", str(path)], standalone_mode=False)
    said = capsys.readouterr().out
    assert ("VmInsufficientRoom" not in said) is fits, said
    assert "VmNotMigratable" not in said
