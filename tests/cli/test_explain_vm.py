"""`ullage explain vm/…`, plans and dumps of VMs, from manifests."""

from pathlib import Path

import msgspec
import pytest
import yaml

from tests.state.test_vm_room import a_guest as guest
from tests.state.test_vm_room import a_node as node
from tests.state.test_vm_room import a_snapshot
from tests.vms import a_migration, a_vm, size
from ullage.cli.main import ullage
from ullage.model.units import Instant
from ullage.state.dump import dump, load, read_dump
from ullage.state.snapshot import ClusterSnapshot
from ullage.state.vm_document import ledger_document
from ullage.testing.builders import a_config_map, a_node, a_pod, with_meta

CONFIG = """{"nodeDefaults": {"cpu": {"watermark": 0.5, "system": "1"}, "memory": {"watermark": 0.5, "system": "1Gi"},
 "computeUnit": {"vCPUs": 1, "mem": 4}}}"""


def a_machine(name: str, cores: int, most: int = 16) -> dict[str, object]:
    guest = {
        "cpus": {"min": 1, "use": cores, "max": most},
        "memorySlots": {"min": 1, "use": 4 * cores, "max": 64},
        "memorySlotSize": "1Gi",
    }
    labels = {"autoscaling.neon.tech/enabled": "true"}
    return {
        "apiVersion": "vm.neon.tech/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"guest": guest},
    }


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
