"""VmCore: writes that are settled or not, agents that fall silent, and migrations of a node under pressure."""

import msgspec

from tests.vms import a_ledger, a_migration, a_vm, a_vm_pod, an_ordinary_pod, key, size
from ullage.decide.vms.core import VmCore, VmRules
from ullage.decide.vms.permit import PermitDecision, PermitRefused, PermitRequest
from ullage.model.intents import ApproveVm, DeleteMigration, StartMigration
from ullage.model.outcomes import ApprovalWritten, MigrationDeleted, MigrationStarted, VmIntentRefused, VmIntentUnknown
from ullage.model.units import Instant, Seconds
from ullage.model.vm import MigrationPhase, VmAmounts, VmPod, VmRefusal

ROOM = size(16, 64)
"""15 cores and 63Gi may be reserved; the watermark is at 12 and 50Gi."""


def at(seconds: float) -> Instant:
    return Instant(seconds)


def a_core(*uses: VmAmounts, rules: VmRules | None = None, nodes: int = 2) -> VmCore:
    """VMs a, b, c, ... on the first of some equal nodes."""
    names = "abcdefgh"[: len(uses)]
    ledger = a_ledger(
        *(a_vm(name, use) for name, use in zip(names, uses, strict=True)),
        *(a_vm_pod(name, "n0", use) for name, use in zip(names, uses, strict=True)),
    )
    for number in range(nodes):
        ledger.put_node(f"n{number}", ROOM)
    return VmCore(ledger, rules or VmRules())


def a_pressed_core() -> VmCore:
    """A VM of 12 cores and ordinary pods of 2 on the first of two nodes: two cores above the watermark."""
    core = a_core(size(12, 8), rules=VmRules(sustained=Seconds(0.0)))
    core.ledger.put_ordinary(an_ordinary_pod("web", "n0", size(2, 0)))
    return core


def ask(core: VmCore, name: str, wanted: VmAmounts, now: float = 0.0, load: float | None = 1.0) -> PermitDecision:
    decided = core.request(PermitRequest(pod=key(name), wanted=wanted, unit=size(1, 4)), load, now=at(now))
    assert isinstance(decided, PermitDecision)
    return decided


def written(write: ApproveVm | None) -> VmPod:
    assert write is not None
    return msgspec.structs.replace(write.pod, approved=write.approved, requested=write.requested, unit=write.unit)


def settle(core: VmCore, name: str, wanted: VmAmounts, now: float = 0.0, load: float | None = 1.0) -> None:
    core.approval_written(written(ask(core, name, wanted, now, load).write))


def test_a_vm_whose_autoscaling_was_switched_off_keeps_the_room_of_its_permit_and_gets_no_more() -> None:
    core = a_core(size(4, 8), size(4, 8))
    settle(core, "a", size(8, 8))
    vm = core.ledger.vm(key("a"))
    assert vm is not None
    core.ledger.put_vm(msgspec.structs.replace(vm, scaling=False))
    request = PermitRequest(pod=key("a"), wanted=size(9, 8), unit=size(1, 4))
    assert core.needs_fresh_read(request), "what its use is now"
    found = ask(core, "a", size(9, 8))
    assert (found.permit.granted, found.write) == (size(4, 8), None)
    assert ask(core, "b", size(8, 8)).permit.granted == size(7, 8)


def test_a_grant_counts_before_it_is_written_and_another_request_sees_it() -> None:
    core = a_core(size(4, 8), size(4, 8))
    assert ask(core, "a", size(8, 8)).permit.granted == size(8, 8)
    assert ask(core, "b", size(8, 8)).permit.granted == size(7, 8)


def test_a_refused_write_gives_the_room_back() -> None:
    core = a_core(size(4, 8), size(4, 8))
    write = ask(core, "a", size(8, 8)).write
    assert write is not None
    core.approval_refused(write)
    assert ask(core, "b", size(8, 8)).permit.granted == size(8, 8)


def test_a_write_of_unknown_outcome_keeps_the_room_until_the_pod_was_read() -> None:
    core = a_core(size(4, 8), size(4, 8))
    ask(core, "a", size(8, 8))
    request = PermitRequest(pod=key("a"), wanted=size(8, 8))
    assert core.needs_fresh_read(request)
    assert core.ledger.ledger("n0").reserved == size(12, 16)
    core.approval_read(a_vm_pod("a", "n0", size(4, 8)))
    assert core.ledger.ledger("n0").reserved == size(8, 16)
    assert not core.needs_fresh_read(request)


def test_objects_are_read_before_anything_is_lowered() -> None:
    core = a_core(size(4, 8))
    for wanted, fresh in ((size(4, 8), False), (size(6, 12), False), (size(3, 8), True), (size(6, 4), True)):
        assert core.needs_fresh_read(PermitRequest(pod=key("a"), wanted=wanted)) is fresh, wanted
    core.ledger.put_pod(a_vm_pod("a", "n0"))
    assert core.needs_fresh_read(PermitRequest(pod=key("a"), wanted=size(6, 12)))
    assert not core.needs_fresh_read(PermitRequest(pod=key("gone"), wanted=size(1, 4)))


def test_an_unknown_pod_is_refused() -> None:
    found = a_core().request(PermitRequest(pod=key("gone"), wanted=size(1, 4)), 1.0, now=at(0))
    assert found == PermitRefused(VmRefusal.POD_NOT_FOUND)


def starts(core: VmCore, now: float) -> list[str]:
    return [one.vm.key.name for one in core.next_intents(now=at(now)) if isinstance(one, StartMigration)]


def next_start(core: VmCore, vm: str) -> StartMigration:
    """The start that was decided for a VM, as its object says."""
    known, (pod,) = core.ledger.vm(key(vm)), core.ledger.pods_of(key(vm))
    assert known is not None
    return StartMigration(vm=known, pod=pod, name=f"ullage-{pod.key.name}", at=at(0.0), why="")


def test_lasting_pressure_starts_migrations_once() -> None:
    core = a_core(size(8, 8), size(6, 8))
    settle(core, "a", size(8, 8), now=99.0, load=5.0)
    settle(core, "b", size(6, 8), now=99.0, load=0.5)
    assert starts(core, 100.0) == []
    assert core.next_deadline() == 130.0
    assert starts(core, 129.0) == []
    assert starts(core, 130.0) == ["b"]
    assert starts(core, 200.0) == []


def test_a_refused_migration_leaves_the_vm_to_rest() -> None:
    core = a_pressed_core()
    (start,) = core.next_intents(now=at(100.0))
    assert isinstance(start, StartMigration)
    core.settle(VmIntentRefused(start, "forbidden"))
    assert core.ledger.ledger("n0").cpu.pressure_accounted_for == 0
    assert starts(core, 101.0) == []
    assert core.unrelieved == {"n0": size(2, 0)}
    assert core.next_deadline() == 1900.0, "its cool-down ends"
    assert starts(core, 1900.0) == ["a"]


def test_a_vm_that_would_bring_any_other_node_above_its_watermark_stays() -> None:
    core = a_core(size(14, 8), rules=VmRules(sustained=Seconds(0.0)), nodes=3)
    assert starts(core, 0.0) == []
    assert core.unrelieved == {"n0": size(2, 0)}


def test_pressure_that_finds_no_room_is_demand() -> None:
    core = a_core(size(14, 8), rules=VmRules(sustained=Seconds(0.0)), nodes=1)
    assert starts(core, 0.0) == []
    assert core.unrelieved == {"n0": size(2, 0)}
    assert core.next_deadline() == 60.0, "then a node is asked for"
    vm = core.ledger.vm(key("a"))
    assert vm is not None
    core.ledger.put_vm(msgspec.structs.replace(vm, needs_node=at(0.0)))
    assert starts(core, 60.0) == []
    assert core.next_deadline() is None, "only a changed fact can help"


def test_without_migration_all_pressure_is_demand() -> None:
    core = a_core(size(14, 8), rules=VmRules(sustained=Seconds(0.0), migrate=False))
    assert starts(core, 0.0) == []
    assert core.unrelieved == {"n0": size(2, 0)}


def test_a_migration_that_is_over_is_deleted() -> None:
    core = a_core(size(4, 8))
    core.ledger.put_migration(a_migration("a", MigrationPhase.FAILED))
    (intent,) = core.next_intents(now=at(0))
    assert isinstance(intent, DeleteMigration)


def test_an_agent_that_falls_silent_presses_nobody() -> None:
    core = a_core(size(12, 8), size(2, 8), rules=VmRules(migrate=False))
    settle(core, "b", size(6, 8), now=0.0)
    assert core.ledger.ledger("n0").cpu.capacity_pressure == 3_000
    core.next_intents(now=at(59.0))
    assert core.ledger.ledger("n0").cpu.capacity_pressure == 3_000
    core.next_intents(now=at(60.0))
    assert core.ledger.ledger("n0").cpu.capacity_pressure == 0
    ask(core, "b", size(6, 8), now=70.0)
    assert core.ledger.ledger("n0").cpu.capacity_pressure == 3_000


def test_after_a_restart_a_silent_agent_has_as_long_from_there() -> None:
    core = a_core(size(12, 8), size(2, 8), rules=VmRules(migrate=False))
    core.ledger.put_pod(a_vm_pod("b", "n0", size(2, 8), requested=size(6, 8)))
    core.next_intents(now=at(1000.0))
    core.next_intents(now=at(1059.0))
    assert core.ledger.ledger("n0").cpu.capacity_pressure == 4_000
    core.next_intents(now=at(1060.0))
    assert core.ledger.ledger("n0").cpu.capacity_pressure == 0


def test_a_node_that_is_gone_is_forgotten() -> None:
    core = a_core(size(14, 8))
    core.next_intents(now=at(0.0))
    assert core.next_deadline() == 30.0
    core.ledger.drop_node("n0")
    core.next_intents(now=at(30.0))
    assert core.next_deadline() is None


def a_start(core: VmCore, now: float = 100.0) -> StartMigration:
    (start,) = core.next_intents(now=at(now))
    assert isinstance(start, StartMigration)
    return start


def test_a_start_of_unknown_outcome_is_repeated_until_it_is_settled() -> None:
    core = a_pressed_core()
    start = a_start(core)
    core.settle(VmIntentUnknown(start, "connection reset"))
    assert core.next_intents(now=at(101.0)) == (start,)
    assert core.next_deadline() == 106.0
    assert core.ledger.account(key("a")).migrating
    core.settle(MigrationStarted(start, a_migration("a", source="a")))
    assert core.next_intents(now=at(102.0)) == ()
    assert core.ledger.account(key("a")).migrating


def test_a_start_of_unknown_outcome_ends_with_its_pod() -> None:
    core = a_pressed_core()
    core.settle(VmIntentUnknown(a_start(core), "connection reset"))
    core.ledger.drop_pod(key("a"))
    assert core.next_intents(now=at(101.0)) == ()
    assert core.ledger.migrations() == ()


def test_outcomes_of_approvals_are_settled() -> None:
    core = a_core(size(4, 8), size(4, 8))
    write = ask(core, "a", size(8, 8)).write
    assert write is not None
    core.settle(VmIntentUnknown(write, "timed out"))
    assert core.ledger.ledger("n0").reserved == size(12, 16)
    core.settle(VmIntentRefused(write, "conflict"))
    assert core.ledger.ledger("n0").reserved == size(8, 16)
    write = ask(core, "a", size(8, 8)).write
    assert write is not None
    core.settle(ApprovalWritten(write, written(write)))
    assert core.ledger.pod(key("a")) == written(write)


def test_a_deleted_migration_is_gone() -> None:
    core = a_core(size(4, 8))
    core.ledger.put_migration(a_migration("a", MigrationPhase.FAILED))
    (intent,) = core.next_intents(now=at(0))
    assert isinstance(intent, DeleteMigration)
    core.settle(VmIntentRefused(intent, "forbidden"))
    assert core.next_intents(now=at(1)) == (intent,)
    core.settle(MigrationDeleted(intent))
    assert core.next_intents(now=at(2)) == ()


def test_a_migration_recorded_in_the_future_rests_the_vm_once_and_not_until_then() -> None:
    core = a_pressed_core()
    vm = core.ledger.vm(key("a"))
    assert vm is not None
    core.ledger.put_vm(msgspec.structs.replace(vm, last_migration=at(99_999_999_999.0)))
    assert starts(core, 100.0) == []
    assert core.next_deadline() == 1900.0
    assert starts(core, 1899.0) == []
    assert starts(core, 1900.0) == ["a"]


def test_a_clock_that_is_set_back_makes_no_pressure_wait_for_as_long() -> None:
    core = a_core(size(8, 8), size(6, 8))
    settle(core, "a", size(8, 8), now=100_000.0, load=5.0)
    settle(core, "b", size(6, 8), now=100_000.0, load=0.5)
    assert starts(core, 100_001.0) == []
    assert starts(core, 5_000.0) == [], "set back by more than a day"
    assert starts(core, 5_030.0) == ["b"]
    core.migration_refused(next_start(core, "b"))
    assert starts(core, 100.0) == []
    assert starts(core, 1_900.0) == ["b"], "it has rested since the clock was set back once more"


def test_an_agent_falls_silent_though_the_clock_was_set_back() -> None:
    core = a_core(size(14, 8))
    settle(core, "a", size(16, 8), now=100_000.0)
    assert core.ledger.ledger("n0").cpu.capacity_pressure > 0
    core.next_intents(now=at(100.0))
    core.next_intents(now=at(160.0))
    assert core.ledger.ledger("n0").cpu.capacity_pressure == 0
