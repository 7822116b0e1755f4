"""The worked example of docs/vms.md, number by number."""

from dataclasses import replace

import msgspec
import pytest

from tests.vms import GI, a_ledger, a_migration, a_vm, a_vm_pod, an_ordinary_pod, key, node_config, size, vm_config
from ullage.decide.vms.migration import MigrationCandidate, MigrationRules, NotMigrated, plan_migrations
from ullage.decide.vms.permit import PermitDecision, PermitRequest, decide_permit
from ullage.decide.vms.pressure import unaccounted_pressure
from ullage.model.intents import ApproveVm
from ullage.model.units import Instant
from ullage.model.vm import GrantMode, MigrationPhase, VmAmounts
from ullage.state.vm_ledger import VmLedger

NODE = "node_a"
LOADS = {"c": 0.2, "b": 3.1, "a": 7.5}


@pytest.fixture
def ledger() -> VmLedger:
    return a_ledger(
        *(a_vm(name, use) for name, use in _USES.items()),
        *(a_vm_pod(name, NODE, use) for name, use in _USES.items()),
        an_ordinary_pod("web", NODE, VmAmounts(1000, 2 * GI)),
        an_ordinary_pod("log", NODE, VmAmounts(200, GI // 2)),
        config=vm_config(node_config(watermark=0.8, system=VmAmounts(500, GI), unit=size(1, 4))),
        node_a=VmAmounts(16_300, 64 * GI),
    )


_USES = {"a": size(4, 16), "b": size(4, 16), "c": size(2, 8)}


def ask(ledger: VmLedger, name: str, wanted: VmAmounts, mode: GrantMode = GrantMode.PER_RESOURCE) -> VmAmounts:
    """Ask, and write the approval as the scheduler does."""
    decided = decide_permit(ledger, PermitRequest(pod=key(name), wanted=wanted), mode=mode)
    assert isinstance(decided, PermitDecision)
    if decided.write is not None:
        write(ledger, decided.write)
    return decided.permit.granted


def write(ledger: VmLedger, approve: ApproveVm) -> None:
    ledger.put_pod(
        msgspec.structs.replace(approve.pod, approved=approve.approved, requested=approve.requested, unit=approve.unit)
    )


def pressed(ledger: VmLedger) -> VmLedger:
    """After the first two requests."""
    ask(ledger, "a", size(8, 32))
    ask(ledger, "b", size(6, 24))
    return ledger


def candidates(ledger: VmLedger) -> list[MigrationCandidate]:
    found = []
    for pod in ledger.pods_on(NODE):
        vm = ledger.vm(pod.vm_key)
        assert vm is not None
        found.append(MigrationCandidate(pod=pod, vm=vm, account=ledger.account(pod.key), load=LOADS[pod.key.name]))
    return found


def test_the_node_before_anything_is_asked(ledger: VmLedger) -> None:
    rows = ledger.ledger(NODE)
    cpu, memory = rows.cpu, rows.memory
    assert (cpu.total, cpu.system, cpu.watermark, cpu.reserved) == (16_000, 1_000, 12_000, 11_000)
    assert (memory.total, memory.system, memory.watermark, memory.reserved) == (64 * GI, GI, 50 * GI, 43 * GI)
    assert rows.free == size(4, 20)
    assert unaccounted_pressure(rows) == size(0, 0)


def test_a_request_with_room_is_granted_and_makes_logical_pressure(ledger: VmLedger) -> None:
    assert ask(ledger, "a", size(8, 32)) == size(8, 32)
    rows = ledger.ledger(NODE)
    assert rows.reserved == size(15, 59)
    assert (rows.cpu.logical_pressure, rows.memory.logical_pressure) == (3_000, 9 * GI)


def test_a_request_without_room_is_granted_in_part(ledger: VmLedger) -> None:
    ask(ledger, "a", size(8, 32))
    assert ask(ledger, "b", size(6, 24)) == size(4, 20)
    rows = ledger.ledger(NODE)
    assert (rows.cpu.capacity_pressure, rows.memory.capacity_pressure) == (2_000, 4 * GI)
    assert unaccounted_pressure(rows) == size(5, 17)


def test_joint_mode_grants_no_half_unit(ledger: VmLedger) -> None:
    ask(ledger, "a", size(8, 32), GrantMode.JOINT)
    assert ask(ledger, "b", size(6, 24), GrantMode.JOINT) == size(4, 16)
    rows = ledger.ledger(NODE)
    assert (rows.cpu.capacity_pressure, rows.memory.capacity_pressure) == (2_000, 8 * GI)


def test_two_vms_migrate_and_account_for_all_pressure(ledger: VmLedger) -> None:
    pressed(ledger)
    plan = plan_migrations(
        unaccounted_pressure(ledger.ledger(NODE)), candidates(ledger), MigrationRules(), now=Instant(0.0)
    )
    assert [one.pod.key.name for one in plan.start] == ["c", "b"]
    assert plan.passed_over == {key("a"): NotMigrated.NOT_NEEDED}
    assert plan.unrelieved == size(0, 0)
    for name in ("c", "b"):
        ledger.put_migration(a_migration(name))
    rows = ledger.ledger(NODE)
    assert (rows.cpu.pressure_accounted_for, rows.memory.pressure_accounted_for) == (8_000, 32 * GI)
    assert unaccounted_pressure(rows) == size(0, 0)


def test_pressure_is_gone_when_both_have_moved(ledger: VmLedger) -> None:
    pressed(ledger)
    for name in ("c", "b"):
        ledger.drop_pod(key(name))
    assert ledger.ledger(NODE).reserved == size(9, 35)
    assert unaccounted_pressure(ledger.ledger(NODE)) == size(0, 0)


def test_a_failed_migration_leaves_the_sums_at_once(ledger: VmLedger) -> None:
    pressed(ledger)
    before = ledger.ledger(NODE)
    ledger.put_migration(a_migration("b"))
    assert ledger.ledger(NODE).cpu == replace(before.cpu, pressure_accounted_for=6_000)
    ledger.put_migration(a_migration("b", MigrationPhase.FAILED))
    assert ledger.ledger(NODE) == before
