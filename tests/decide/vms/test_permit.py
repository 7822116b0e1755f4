"""Grants: tables over one VM on one node; rows count in plain numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vms import GI, a_ledger, a_migration, a_row, a_vm, a_vm_pod, key, node_config, size, vm_config
from ullage.decide.vms.permit import PermitDecision, PermitRefused, PermitRequest, decide_permit, grant
from ullage.model.vm import GrantMode, RestartRule, VmAmounts, VmRefusal

UNIT = VmAmounts(1, 4)


@pytest.mark.parametrize(
    ("wanted", "reserved", "node", "unit", "granted", "denied"),
    [
        pytest.param((2, 2), (4, 4), (10, 10), None, (2, 2), (0, 0), id="a-decrease-is-a-notification"),
        pytest.param((4, 4), (4, 4), (10, 10), None, (4, 4), (0, 0), id="equal-is-satisfied"),
        pytest.param((8, 8), (4, 4), (10, 10), None, (8, 8), (0, 0), id="room-for-all"),
        pytest.param((8, 8), (4, 4), (13, 12), None, (6, 7), (2, 1), id="each-resource-by-its-own-room"),
        pytest.param((8, 2), (4, 4), (14, 14), None, (5, 2), (3, 0), id="one-up-one-down"),
        pytest.param((8, 8), (4, 4), (15, 15), None, (4, 4), (4, 4), id="a-full-node-grants-nothing"),
        pytest.param((8, 8), (4, 4), (30, 30), None, (4, 4), (4, 4), id="an-overfull-node-takes-nothing-away"),
        pytest.param((8, 3), (4, 4), (30, 30), None, (4, 3), (4, 0), id="an-overfull-node-takes-a-decrease"),
        pytest.param((8, 16), (4, 4), (13, 9), UNIT, (6, 8), (2, 8), id="a-partial-grant-is-whole-units"),
        pytest.param((6, 9), (4, 4), (13, 10), UNIT, (6, 9), (0, 0), id="a-whole-grant-need-not-be"),
    ],
)
def test_per_resource(
    wanted: tuple[int, int],
    reserved: tuple[int, int],
    node: tuple[int, int],
    unit: VmAmounts | None,
    granted: tuple[int, int],
    denied: tuple[int, int],
) -> None:
    """Nodes have 15 of each that may be reserved; `node` is how much is."""
    permit = grant(
        VmAmounts(*wanted), VmAmounts(*reserved), a_row(reserved=node[0]), a_row(reserved=node[1]), unit=unit
    )
    assert (permit.granted, permit.denied) == (VmAmounts(*granted), VmAmounts(*denied))


@pytest.mark.parametrize(
    ("wanted", "reserved", "node", "granted"),
    [
        pytest.param((6, 24), (2, 8), (10, 0), (5, 20), id="three-units-of-memory-are-free"),
        pytest.param((6, 24), (2, 8), (13, 0), (4, 16), id="cpu-is-the-limit-for-both"),
        pytest.param((6, 24), (2, 8), (15, 0), (2, 8), id="no-unit-free"),
        pytest.param((3, 4), (2, 8), (15, 0), (2, 4), id="a-decrease-is-granted-beside-a-denial"),
        pytest.param((3, 8), (2, 8), (10, 15), (3, 8), id="a-resource-that-stays-is-no-limit"),
    ],
)
def test_joint(
    wanted: tuple[int, int], reserved: tuple[int, int], node: tuple[int, int], granted: tuple[int, int]
) -> None:
    """15 may be reserved of each; one unit is 1 CPU with 4 of memory."""
    permit = grant(
        VmAmounts(*wanted),
        VmAmounts(*reserved),
        a_row(reserved=node[0]),
        a_row(reserved=node[1]),
        unit=UNIT,
        mode=GrantMode.JOINT,
    )
    assert permit.granted == VmAmounts(*granted)


AMOUNTS = st.builds(VmAmounts, st.integers(0, 40), st.integers(0, 40))


@given(wanted=AMOUNTS, reserved=AMOUNTS, others=AMOUNTS, unit=st.none() | st.just(UNIT), joint=st.booleans())
def test_a_permit_lies_between_old_and_wanted_and_within_the_room(
    wanted: VmAmounts, reserved: VmAmounts, others: VmAmounts, unit: VmAmounts | None, joint: bool
) -> None:
    cpu, memory = (a_row(reserved=a + b) for a, b in ((reserved.cpu, others.cpu), (reserved.memory, others.memory)))
    permit = grant(wanted, reserved, cpu, memory, unit=unit, mode=GrantMode.JOINT if joint else GrantMode.PER_RESOURCE)
    for row, old, asked, got, no in zip(
        (cpu, memory),
        (reserved.cpu, reserved.memory),
        (wanted.cpu, wanted.memory),
        (permit.granted.cpu, permit.granted.memory),
        (permit.denied.cpu, permit.denied.memory),
        strict=True,
    ):
        assert got + no == asked
        assert got == asked if asked <= old else old <= got <= asked
        assert row.reserved - old + got <= max(row.reserved, row.reservable)


def decided(found: PermitDecision | PermitRefused) -> PermitDecision:
    assert isinstance(found, PermitDecision)
    return found


ROOM = size(16, 64)


def test_a_message_that_changes_nothing_writes_nothing() -> None:
    pod = a_vm_pod("v", "n", size(4, 16), requested=size(4, 16), unit=size(1, 4))
    ledger = a_ledger(a_vm("v", size(4, 16)), pod, n=ROOM)
    found = decided(decide_permit(ledger, PermitRequest(pod=key("v"), wanted=size(4, 16))))
    assert found.write is None
    assert found.permit.granted == size(4, 16)


def test_a_request_above_the_maximum_is_cut_and_is_no_pressure() -> None:
    ledger = a_ledger(a_vm("v", size(4, 16), size(6, 24)), a_vm_pod("v", "n", size(4, 16)), n=ROOM)
    found = decided(decide_permit(ledger, PermitRequest(pod=key("v"), wanted=size(10, 40))))
    assert found.permit.granted == size(6, 24)
    assert found.write is not None
    assert found.write.requested == size(6, 24)


def test_a_vm_above_a_lowered_maximum_keeps_what_it_has_until_it_says_less() -> None:
    ledger = a_ledger(a_vm("v", size(8, 32), size(6, 24)), a_vm_pod("v", "n", size(8, 32)), n=ROOM)
    found = decided(decide_permit(ledger, PermitRequest(pod=key("v"), wanted=size(8, 32))))
    assert found.permit.granted == size(8, 32)


@pytest.mark.parametrize("rule", RestartRule)
def test_a_first_message_after_a_restart_is_not_granted_blindly_up_to_the_maximum(rule: RestartRule) -> None:
    """Two VMs with a maximum of 12 cores on a node of 15: reserved is 24, in use are 8."""
    ledger = a_ledger(
        a_vm("v", size(4, 16), size(12, 40)),
        a_vm("w", size(4, 16), size(12, 40)),
        a_vm_pod("v", "n"),
        a_vm_pod("w", "n"),
        restart=rule,
        n=ROOM,
    )
    assert ledger.ledger("n").cpu.reserved == 24_000
    assert ledger.ledger("n").cpu.buffer == 16_000
    found = decided(decide_permit(ledger, PermitRequest(pod=key("v"), wanted=size(10, 16))))
    assert found.permit.granted == size(4, 16), "w may be using 12 of 15 cores"


def test_what_a_former_scheduler_permitted_is_kept() -> None:
    ledger = a_ledger(a_vm("v", size(4, 16), size(12, 40)), a_vm_pod("v", "n"), n=ROOM)
    found = decided(
        decide_permit(
            ledger,
            PermitRequest(pod=key("v"), wanted=size(8, 32), unit=size(1, 4), last_permit=size(8, 32)),
        )
    )
    assert found.permit.granted == size(8, 32)


def test_a_last_permit_counts_even_where_the_node_is_full() -> None:
    config = vm_config(node_config(system=size(10, 40)))
    ledger = a_ledger(a_vm("v", size(4, 16), size(12, 40)), a_vm_pod("v", "n"), config=config, n=ROOM)
    request = PermitRequest(pod=key("v"), wanted=size(8, 32), unit=size(1, 4), last_permit=size(8, 32))
    assert decided(decide_permit(ledger, request)).permit.granted == size(8, 32)


def test_a_vm_without_autoscaling_is_granted_nothing() -> None:
    ledger = a_ledger(a_vm("v", size(4, 16), scaling=False), a_vm_pod("v", "n"), n=ROOM)
    found = decided(decide_permit(ledger, PermitRequest(pod=key("v"), wanted=size(8, 32))))
    assert (found.permit.granted, found.write) == (size(4, 16), None)


@pytest.mark.parametrize(
    ("wanted", "answered_unit", "refused"),
    [
        pytest.param(size(3, 8), size(1, 4), True, id="off-ratio"),
        pytest.param(size(3, 12), size(1, 4), False, id="whole-units"),
        pytest.param(size(3, 6), size(2, 4), True, id="half-a-unit"),
        pytest.param(size(3, 6), None, False, id="never-told-a-unit"),
        pytest.param(size(1, 6), size(2, 4), False, id="at-its-minimum"),
        pytest.param(size(3, 256), size(2, 4), False, id="at-its-maximum"),
    ],
)
def test_amounts_are_checked_against_the_unit_last_told(
    wanted: VmAmounts, answered_unit: VmAmounts | None, refused: bool
) -> None:
    ledger = a_ledger(a_vm("v", size(4, 16)), a_vm_pod("v", "n", size(4, 16), unit=answered_unit), n=ROOM)
    found = decide_permit(ledger, PermitRequest(pod=key("v"), wanted=wanted))
    assert (found == PermitRefused(VmRefusal.UNIT_MISMATCH)) is refused


def test_a_new_compute_unit_is_told_with_the_answer_and_holds_from_the_next_request() -> None:
    ledger = a_ledger(a_vm("v", size(4, 16)), a_vm_pod("v", "n", size(4, 16), unit=size(1, 4)), n=ROOM)
    ledger.configure(vm_config(node_config(unit=size(2, 4))))
    found = decided(decide_permit(ledger, PermitRequest(pod=key("v"), wanted=size(5, 20))))
    assert found.answered_unit == size(2, 4)
    assert found.write is not None
    assert found.write.unit == size(2, 4)
    ledger.put_pod(a_vm_pod("v", "n", size(5, 20), unit=found.write.unit))
    assert decide_permit(ledger, PermitRequest(pod=key("v"), wanted=size(5, 20))) == PermitRefused(
        VmRefusal.UNIT_MISMATCH
    )
    assert decided(decide_permit(ledger, PermitRequest(pod=key("v"), wanted=size(4, 8)))).permit.granted == size(4, 8)


def test_amounts_stay_while_a_vm_migrates() -> None:
    ledger = a_ledger(a_vm("v", size(4, 16)), a_vm_pod("v", "n", size(4, 16)), a_migration("v"), n=ROOM)
    same = decided(decide_permit(ledger, PermitRequest(pod=key("v"), wanted=size(4, 16))))
    assert (same.permit.granted, same.migrate, same.write) == (size(4, 16), True, None)
    for wanted in (size(2, 8), size(8, 32)):
        assert decide_permit(ledger, PermitRequest(pod=key("v"), wanted=wanted)) == PermitRefused(VmRefusal.MIGRATING)


def test_a_migrating_vm_without_approval_is_not_permitted_its_maximum() -> None:
    ledger = a_ledger(a_vm("v", size(4, 16), size(12, 40)), a_vm_pod("v", "n"), a_migration("v"), n=ROOM)
    assert decide_permit(ledger, PermitRequest(pod=key("v"), wanted=size(12, 40))) == PermitRefused(VmRefusal.MIGRATING)
    same = decided(decide_permit(ledger, PermitRequest(pod=key("v"), wanted=size(4, 16))))
    assert same.permit.granted == size(4, 16)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        pytest.param((), VmRefusal.POD_NOT_FOUND, id="no-pod"),
        pytest.param((a_vm_pod("v", "n"),), VmRefusal.POD_NOT_A_VM, id="no-virtual-machine"),
    ],
)
def test_unknown(facts: tuple[object, ...], reason: VmRefusal) -> None:
    ledger = a_ledger(*facts, n=ROOM)  # type: ignore[arg-type]
    assert decide_permit(ledger, PermitRequest(pod=key("v"), wanted=size(1, 4))) == PermitRefused(reason)


def test_agents_that_count_whole_cores_are_told_and_granted_whole_cores() -> None:
    """A compute unit of 250m and 1Gi; 2.5 cores are free beside a VM of 12.5."""
    config = vm_config(node_config(unit=VmAmounts(250, GI)))
    ledger = a_ledger(
        a_vm("v", size(1, 4)),
        a_vm_pod("v", "n", size(1, 4)),
        a_vm("w", size(11.5, 4)),
        a_vm_pod("w", "n", size(11.5, 4)),
        config=config,
        n=ROOM,
    )
    found = decided(decide_permit(ledger, PermitRequest(pod=key("v"), wanted=size(8, 32))))
    assert found.answered_unit == size(1, 4)
    assert found.permit.granted == size(3, 32)


def test_memory_is_granted_in_bytes_to_agents_with_their_own_unit() -> None:
    """Version 7: 250m and 1Gi a unit; 3.5 cores are free, 15Gi."""
    ledger = a_ledger(a_vm("v", size(0.5, 2)), a_vm_pod("v", "n", size(0.5, 2)), n=size(4.5, 18))
    request = PermitRequest(pod=key("v"), wanted=size(20, 80), unit=VmAmounts(250, GI))
    found = decided(decide_permit(ledger, request))
    assert found.permit.granted == size(4, 17)
    assert found.answered_unit is None
