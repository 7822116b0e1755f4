"""Reserve: bad VMs, room for VM pods and for ordinary pods, and the first approval."""

import msgspec
import pytest

from tests.vms import a_ledger, a_migration, a_vm, a_vm_pod, an_ordinary_pod, size, vm_config
from ullage.decide.placement.vm_pods import first_approval, vm_problem
from ullage.decide.vms.reserve import room_elsewhere, room_for_ordinary, room_for_vm
from ullage.model.verdict import Reason
from ullage.model.vm import Vm

ROOM = size(16, 64)
"""15 cores and 63Gi may be reserved."""
GOOD = a_vm("v", size(2, 8), size(4, 16), minimum=size(1, 4))


@pytest.mark.parametrize(
    ("vm", "problem"),
    [
        pytest.param(GOOD, None, id="good"),
        pytest.param(None, Reason.VM_MISSING, id="no-virtual-machine"),
        pytest.param(a_vm("v", size(2, 8), size(1, 16)), Reason.VM_AMOUNTS_INVALID, id="use-above-max"),
        pytest.param(
            a_vm("v", size(2, 8), size(4, 16), minimum=size(3, 4)), Reason.VM_AMOUNTS_INVALID, id="use-below-min"
        ),
        pytest.param(
            a_vm("v", size(4, 8), size(3, 16), minimum=size(5, 4)), Reason.VM_AMOUNTS_INVALID, id="min-above-max"
        ),
        pytest.param(a_vm("v", size(2, 8), minimum=size(1, 0)), Reason.VM_AMOUNTS_INVALID, id="a-minimum-of-nothing"),
        pytest.param(
            msgspec.structs.replace(GOOD, memory_slot=1 << 29), Reason.VM_SLOT_SIZE_MISMATCH, id="other-slots"
        ),
    ],
)
def test_a_vm_that_fits_nowhere(vm: Vm | None, problem: Reason | None) -> None:
    assert vm_problem(vm, vm_config()) is problem


@pytest.mark.parametrize(
    ("use", "fits"),
    [(size(15, 63), True), (size(16, 1), False), (size(1, 64), False)],
    ids=["to-the-last-slot", "the-systems-core", "the-systems-memory"],
)
def test_room_for_a_vm_ends_at_the_system_reserve(use: object, fits: bool) -> None:
    assert room_for_vm(a_ledger(n=ROOM), "n", msgspec.structs.replace(GOOD, use=use)) is fits


def test_a_vm_never_migrates_to_its_own_node() -> None:
    ledger = a_ledger(GOOD, a_vm_pod("v", "n", size(2, 8)), n=ROOM, m=ROOM)
    assert not room_for_vm(ledger, "n", GOOD)
    assert room_for_vm(ledger, "m", GOOD)
    assert room_elsewhere(ledger, GOOD)
    ledger.drop_node("m")
    assert not room_elsewhere(ledger, GOOD)


def test_the_target_of_a_migration_has_room_for_a_permit_that_is_not_applied_yet() -> None:
    ledger = a_ledger(GOOD, a_vm_pod("v", "n", size(4, 16)), a_migration("v"), n=ROOM, m=size(4, 64))
    assert first_approval(ledger, GOOD) == size(4, 16)
    assert not room_for_vm(ledger, "m", GOOD), "3 cores are free there: its use of 2 would fit, its permit of 4 not"


def test_a_new_vm_starts_with_its_use() -> None:
    assert first_approval(a_ledger(n=ROOM), GOOD) == size(2, 8)


def test_ordinary_pods_are_asked_for_together() -> None:
    """15 of 15 slots are taken when the VM has 14 and pods of 0.6 cores together one."""
    ledger = a_ledger(
        a_vm("w", size(14, 8)), a_vm_pod("w", "n", size(14, 8)), an_ordinary_pod("a", "n", size(0.6, 1)), n=ROOM
    )
    assert room_for_ordinary(ledger, "n", size(0.4, 1))
    assert not room_for_ordinary(ledger, "n", size(0.5, 1))
    assert not room_for_ordinary(ledger, "unknown", size(0.1, 0.1))
