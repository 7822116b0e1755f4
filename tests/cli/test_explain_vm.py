"""`ullage explain vm/…`, plans and dumps of VMs, from manifests."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.decide.scenes import NOON, report
from tests.state.test_vm_room import a_guest as guest
from tests.state.test_vm_room import a_node as node
from tests.state.test_vm_room import a_snapshot
from tests.vms import a_migration, a_vm, size
from ullage.cli.main import ullage
from ullage.kube.client.resources import VIRTUAL_MACHINES
from ullage.model.units import Instant
from ullage.model.vm import MIGRATION_ENABLED
from ullage.state.dump import dump, load, read_dump
from ullage.state.snapshot import ClusterSnapshot
from ullage.state.vm_document import ledger_document
from ullage.testing.builders import a_config_map, a_node, a_pod, a_virtual_machine, of_kind, with_meta

CONFIG = """{"nodeDefaults": {"cpu": {"watermark": 0.5, "system": "1"}, "memory": {"watermark": 0.5, "system": "1Gi"},
 "computeUnit": {"vCPUs": 1, "mem": 4}}}"""


MOVES = {"autoscaling.neon.tech/enabled": "true", MIGRATION_ENABLED: "true"}


def a_machine(name: str, cores: int, most: int = 16) -> dict[str, object]:
    slots = {"min": 1, "use": 4 * cores, "max": 64}
    body = a_virtual_machine(name, cores, most, guest={"memorySlots": slots, "memorySlotSize": "1Gi"})
    return of_kind(VIRTUAL_MACHINES, body)


def a_guest(name: str, node: str = "", **notes: str) -> dict[str, object]:
    pod = with_meta(a_pod(name, nodeName=node), labels={"vm.neon.tech/name": name}, annotations=notes)
    return {"apiVersion": "v1", "kind": "Pod", **pod}


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    offered = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    approved = {
        "gpu.scheduling/vm-approved": '{"cpu":"10","memory":"40Gi"}',
        "gpu.scheduling/vm-requested": '{"cpu":"12","memory":"40Gi"}',
    }
    objects = [
        {"apiVersion": "v1", "kind": "Node", **a_node("node-a", allocatable=offered)},
        {"apiVersion": "v1", "kind": "ConfigMap", **a_config_map("vm-nodes"), "data": {"config.json": CONFIG}},
        a_machine("db", 8),
        a_guest("db", "node-a", **approved),
        a_machine("new", 6),
        a_guest("new"),
        a_machine("bad", 8, most=4),
        a_guest("bad"),
        a_guest("orphan"),
    ]
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    ullage.main(arguments, standalone_mode=False)
    return capsys.readouterr().out


def test_a_vm_is_explained_with_its_node(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, "explain", "vm/default/db", "-f", cluster).splitlines()
    assert lines == [
        "default/db: Fits: min 1 CPU and 1Gi of memory, use 8 CPU and 32Gi of memory, max 16 CPU and 64Gi of memory",
        "pod default/db on node-a: reserved 10 CPU and 40Gi of memory; asked for 2 CPU and 0 of memory more than was "
        "granted",
        "node node-a: CPU 10 of 15 reserved, watermark 7, denied 2; memory 40 of 63 reserved, watermark 31; pressure "
        "of 5 CPU and 9Gi of memory; this VM is not migrated: NotMigratable; 5 CPU and 9Gi of memory of it no "
        "migration can relieve",
    ]


def test_room_that_a_permit_holds_after_autoscaling_was_switched_off_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    approved = {
        "gpu.scheduling/vm-approved": '{"cpu":"10","memory":"40Gi"}',
        "gpu.scheduling/vm-requested": '{"cpu":"10","memory":"40Gi"}',
    }
    objects = [
        {"apiVersion": "v1", "kind": "Node", **a_node("node-a", allocatable={"cpu": "16", "memory": "64Gi"})},
        with_meta(a_machine("db", 8), labels={}),
        a_guest("db", "node-a", **approved),
    ]
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    text = said(capsys, "explain", "vm/default/db", "-f", str(path))
    assert "reserved 10 CPU and 40Gi of memory; autoscaling is off, and its agent's last permit still counts" in text


def a_pressed_cluster(folder: Path, **other: Any) -> str:
    """VMs a and b use 6 cores each on node-a, whose watermark is at 7; node-b is empty. a was migrated 600 s ago."""
    offered = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    now = 1893499200
    machines = [with_meta(a_machine(name, 6), labels=MOVES) for name in "ab"]
    machines[0] = with_meta(machines[0], annotations={"gpu.scheduling/vm-last-migration": str(now - 600)})
    approved = {"gpu.scheduling/vm-approved": '{"cpu":"6","memory":"24Gi"}'}
    objects = [
        report("gone", 1, at=NOON),
        {"apiVersion": "v1", "kind": "Node", **a_node("node-a", allocatable=offered)},
        {"apiVersion": "v1", "kind": "Node", **a_node("node-b", allocatable=offered, **other)},
        {"apiVersion": "v1", "kind": "ConfigMap", **a_config_map("vm-nodes"), "data": {"config.json": CONFIG}},
        *machines,
        *(a_guest(name, "node-a", **approved) for name in "ab"),
    ]
    path = folder / "cluster.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


@pytest.mark.parametrize(
    ("vm", "settings", "other", "says"),
    [
        pytest.param("b", {}, {}, "this VM is migrated once that has lasted 30 s", id="the-only-one-that-can-be"),
        pytest.param("b", {"pressureSustained": "5s"}, {}, "once that has lasted 5 s", id="sustained"),
        pytest.param("a", {}, {}, "this VM is not migrated: CoolingDown", id="rests"),
        pytest.param(
            "a", {"migrationCooldown": "5m"}, {}, "this VM may be migrated, by load", id="rested-by-the-settings"
        ),
        pytest.param("b", {"migrationCooldown": "5m"}, {}, "(else NotNeeded)", id="by-load"),
        pytest.param("b", {"migrate": False}, {}, "nothing is migrated for it (vms.migrate is off)", id="off"),
        pytest.param(
            "b", {}, {"taints": [{"key": "k", "effect": "NoSchedule"}]}, "NoRoomElsewhere", id="taint-elsewhere"
        ),
        pytest.param("b", {}, {"unschedulable": True}, "NoRoomElsewhere", id="cordoned-elsewhere"),
    ],
)
def test_a_vm_is_explained_as_the_scheduler_decides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], vm: str, settings: object, other: dict[str, object], says: str
) -> None:
    (tmp_path / "settings.yml").write_text(yaml.safe_dump({"vms": settings}))
    cluster = a_pressed_cluster(tmp_path, **other)
    text = said(capsys, "explain", f"vm/default/{vm}", "-f", cluster, "--settings", str(tmp_path / "settings.yml"))
    assert says in text


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        ("new", "VmInsufficientRoom"),
        ("bad", "VmAmountsInvalid"),
        ("orphan", "VmMissing"),
    ],
)
def test_pods_of_vms_are_explained(cluster: str, capsys: pytest.CaptureFixture[str], pod: str, reason: str) -> None:
    assert reason in said(capsys, "explain", f"pod/default/{pod}", "-f", cluster)


def test_an_unknown_vm_is_a_clear_error(cluster: str) -> None:
    with pytest.raises(Exception, match="VirtualMachine default/nobody is not in the files; there is default/bad"):
        ullage.main(["explain", "vm/default/nobody", "-f", cluster], standalone_mode=False)


def test_a_dump_holds_vms_and_comes_back() -> None:
    snapshot = a_snapshot(node(), a_vm("v", size(2, 8)), guest("v", size(4, 16)), a_migration("v"))
    text = dump(snapshot.state, now=Instant(0.0), vm_ledger=ledger_document(snapshot.vms))
    again, _ = load(text)
    document = ledger_document(ClusterSnapshot(again).vms)
    assert msgspec.json.decode(msgspec.json.encode(document)) == read_dump(text).vm_ledger
    assert snapshot.vms.ledger.ledger("n").reserved == size(4, 16)
