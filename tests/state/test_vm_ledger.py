"""The VM ledger: what each kind of pod counts, and that changed facts change the sums."""

import msgspec
import pytest

from tests.vms import GI, a_ledger, a_migration, a_vm, a_vm_pod, an_ordinary_pod, key, node_config, size, vm_config
from ullage.model.vm import MigrationPhase, RestartRule, Vm, VmAccount, VmMigration, VmPod
from ullage.state.vm_ledger import VmLedger

ROOM = size(16, 64)
USE, MOST = size(2, 8), size(10, 40)


@pytest.mark.parametrize(
    ("vm", "pod", "expected"),
    [
        pytest.param(
            a_vm("v", USE, MOST),
            a_vm_pod("v", "n", size(4, 16)),
            VmAccount(reserved=size(4, 16)),
            id="its-approval",
        ),
        pytest.param(
            a_vm("v", size(6, 8), MOST),
            a_vm_pod("v", "n", size(4, 16)),
            VmAccount(reserved=size(6, 16)),
            id="more-than-approved-counts-as-used",
        ),
        pytest.param(
            a_vm("v", USE, MOST),
            a_vm_pod("v", "n"),
            VmAccount(reserved=MOST, buffer=size(8, 32), known=False),
            id="without-approval-its-maximum",
        ),
        pytest.param(
            a_vm("v", USE, MOST),
            a_vm_pod("v", "n", size(11, 16)),
            VmAccount(reserved=MOST, buffer=size(8, 32), known=False),
            id="an-approval-above-its-maximum-is-somebody-else's",
        ),
        pytest.param(
            a_vm("v", size(12, 48), MOST),
            a_vm_pod("v", "n", size(12, 48)),
            VmAccount(reserved=size(12, 48)),
            id="approved-as-it-is-used-above-its-maximum",
        ),
        pytest.param(
            a_vm("v", USE, MOST),
            a_vm_pod("v", "n", size(4, 16), requested=size(1000, 4000)),
            VmAccount(reserved=size(4, 16), capacity_pressure=size(6, 24)),
            id="a-request-above-its-maximum-presses-up-to-that",
        ),
        pytest.param(
            a_vm("v", size(12, 48), MOST),
            a_vm_pod("v", "n"),
            VmAccount(reserved=size(12, 48), known=False),
            id="above-its-maximum",
        ),
        pytest.param(
            a_vm("v", USE, MOST, scaling=False),
            a_vm_pod("v", "n"),
            VmAccount(reserved=USE),
            id="without-autoscaling-its-use",
        ),
        pytest.param(
            a_vm("v", USE, MOST, scaling=False),
            a_vm_pod("v", "n", size(4, 16), requested=size(4, 16)),
            VmAccount(reserved=size(4, 16)),
            id="autoscaling-switched-off-before-the-permit-was-applied",
        ),
        pytest.param(
            a_vm("v", USE, MOST, scaling=False),
            a_vm_pod("v", "n", size(4, 16)),
            VmAccount(reserved=USE),
            id="never-scaled-and-shrunk-by-hand",
        ),
        pytest.param(
            a_vm("other", USE),
            a_vm_pod("v", "n"),
            VmAccount(reserved=size(1, 1), known=False),
            id="without-a-virtual-machine-its-requests",
        ),
        pytest.param(
            a_vm("v", USE, MOST),
            a_vm_pod("v", "n", size(4, 16), requested=size(6, 12)),
            VmAccount(reserved=size(4, 16), capacity_pressure=size(2, 0)),
            id="denied-is-pressure",
        ),
    ],
)
def test_account(vm: Vm, pod: VmPod, expected: VmAccount) -> None:
    assert a_ledger(vm, pod, n=ROOM).account(key("v")) == expected


@pytest.mark.parametrize(
    ("migration", "pod", "expected"),
    [
        pytest.param(a_migration("v"), a_vm_pod("v", "n", USE), True, id="source-not-named-yet"),
        pytest.param(a_migration("v", source="v"), a_vm_pod("v", "n", USE), True, id="named-as-source"),
        pytest.param(a_migration("v", source="w"), a_vm_pod("v", "n", USE), False, id="another-pod-is-the-source"),
        pytest.param(a_migration("v"), a_vm_pod("v", "n", USE, incoming=True), False, id="the-target"),
        pytest.param(a_migration("v", MigrationPhase.FAILED), a_vm_pod("v", "n", USE), False, id="failed"),
        pytest.param(a_migration("other"), a_vm_pod("v", "n", USE), False, id="another-vm"),
    ],
)
def test_migrating(migration: VmMigration, pod: VmPod, expected: bool) -> None:
    ledger = a_ledger(a_vm("v", USE), pod, migration, n=ROOM)
    assert ledger.account(key("v")).migrating is expected
    assert bool(ledger.ledger("n").cpu.pressure_accounted_for) is expected


def a_vm_on_a_node(restart: RestartRule = RestartRule.TRUST_APPROVED) -> VmLedger:
    pod = a_vm_pod("v", "n", size(4, 16), requested=size(6, 24))
    return a_ledger(a_vm("v", USE, MOST), pod, restart=restart, n=ROOM)


def test_after_a_restart_the_maximum_is_assumed_until_the_agent_reports() -> None:
    ledger = a_vm_on_a_node(RestartRule.ASSUME_MAX)
    assert ledger.ledger("n").reserved == MOST
    assert ledger.ledger("n").cpu.buffer == 8_000
    ledger.report(key("v"))
    assert ledger.ledger("n").reserved == size(4, 16)
    assert ledger.ledger("n").cpu.buffer == 0


LOWER = size(3, 12)


def test_a_maximum_lowered_below_the_permit_of_an_agent_leaves_the_permit_counted() -> None:
    ledger = a_ledger(a_vm("v", USE, MOST), a_vm_pod("v", "n", size(4, 16)), n=ROOM)
    ledger.put_vm(a_vm("v", USE, LOWER))
    assert ledger.account(key("v")) == VmAccount(reserved=size(4, 16))
    assert not ledger.unreadable_approvals(), "nobody edited it"
    ledger.report(key("v"))
    assert ledger.account(key("v")).reserved == size(4, 16), "the agent spoke, and holds as much as before"
    ledger.put_pod(a_vm_pod("v", "n", size(3, 12)))
    ledger.report(key("v"))
    assert ledger.account(key("v")) == VmAccount(reserved=size(3, 12))
    ledger.put_pod(a_vm_pod("v", "n", size(4, 16)))
    assert not ledger.account(key("v")).known, "from here on more than the new maximum is somebody else's"


def test_a_lowered_maximum_counts_until_the_agent_speaks_where_the_approval_is_lost() -> None:
    ledger = a_ledger(a_vm("v", USE, MOST), a_vm_pod("v", "n"), n=ROOM)
    ledger.put_vm(a_vm("v", USE, LOWER))
    lost = VmAccount(reserved=MOST, buffer=MOST.above(USE), known=False)
    assert ledger.account(key("v")) == lost
    ledger.put_pod(a_vm_pod("v", "n", size(11, 16)))
    assert ledger.account(key("v")) == lost, "more than it ever might have"
    ledger.put_vm(a_vm("v", USE, size(12, 48)))
    ledger.put_vm(a_vm("v", USE, LOWER))
    assert ledger.account(key("v")) == VmAccount(reserved=size(11, 16))


def test_after_a_restart_an_approval_above_the_maximum_counts_if_the_agent_asked_for_as_much() -> None:
    lowered, pod = a_vm("v", USE, LOWER), a_vm_pod("v", "n", size(4, 16), requested=size(6, 16))
    kept = VmAccount(reserved=size(4, 16))
    for facts in ((lowered, pod), (pod, lowered)):
        assert a_ledger(*facts, n=ROOM).account(key("v")) == kept
    edited = a_vm_pod("v", "n", size(7, 16), requested=size(6, 16))
    assert not a_ledger(lowered, edited, n=ROOM).account(key("v")).known
    target = a_vm_pod("w", "m", size(4, 16), vm="v", incoming=True)
    both = a_ledger(lowered, target, pod, n=ROOM, m=ROOM)
    assert both.account(key("w")).reserved == size(4, 16), "the target of a migration has room for the source's permit"


def test_while_it_migrates_the_word_of_one_pod_takes_no_permit_from_the_other() -> None:
    held = a_vm_pod("v", "n", size(4, 16), requested=size(6, 16))
    target = a_vm_pod("w", "m", size(2, 8), vm="v", incoming=True)
    ledger = a_ledger(a_vm("v", USE, MOST), held, target, n=ROOM, m=ROOM)
    ledger.put_vm(a_vm("v", USE, LOWER))
    ledger.report(key("w"))
    assert ledger.account(key("v")) == VmAccount(reserved=size(4, 16))


def test_a_virtual_machine_of_the_same_name_inherits_no_maximum() -> None:
    ledger = a_ledger(a_vm("v", USE, MOST), a_vm_pod("v", "n"), n=ROOM)
    ledger.put_vm(msgspec.structs.replace(a_vm("v", USE, LOWER), uid="another"))
    assert ledger.account(key("v")).reserved == LOWER


def test_an_approval_being_written_counts_at_once_and_lowers_nothing() -> None:
    ledger = a_vm_on_a_node()
    ledger.assume_approval(key("v"), size(6, 8))
    assert ledger.ledger("n").reserved == size(6, 16)
    ledger.forget_approval(key("v"))
    assert ledger.ledger("n").reserved == size(4, 16)


def test_a_silent_agent_presses_nobody_and_keeps_its_approval() -> None:
    ledger = a_vm_on_a_node()
    assert ledger.ledger("n").cpu.capacity_pressure == 2_000
    ledger.silence(key("v"))
    assert ledger.ledger("n").cpu.capacity_pressure == 0
    assert ledger.ledger("n").reserved == size(4, 16)
    ledger.report(key("v"))
    assert ledger.ledger("n").cpu.capacity_pressure == 2_000


def test_a_pod_of_the_same_name_inherits_nothing() -> None:
    ledger = a_vm_on_a_node(RestartRule.ASSUME_MAX)
    ledger.report(key("v"))
    ledger.assume_approval(key("v"), size(9, 36))
    ledger.put_pod(msgspec.structs.replace(a_vm_pod("v", "n", size(4, 16)), uid="another"))
    assert ledger.account(key("v")) == VmAccount(reserved=MOST, buffer=size(8, 32), known=False)


def test_a_raised_system_reserve_leaves_reserved_and_grants_nothing() -> None:
    ledger = a_vm_on_a_node()
    ledger.configure(vm_config(node_config(system=size(14, 60))))
    rows = ledger.ledger("n")
    assert rows.reserved == size(4, 16), "nor does what ordinary pods count change with it"
    assert rows.free == size(0, 0)
    assert rows.cpu.watermark == 1_000


def test_ordinary_pods_come_move_and_go() -> None:
    ledger = a_ledger(n=size(16.5, 64), m=ROOM)
    ledger.put_ordinary(an_ordinary_pod("web", "n", size(1.5, 2)))
    assert ledger.ledger("n").reserved == size(1, 2), "half a core is the margin"
    ledger.put_ordinary(an_ordinary_pod("web", "m", size(1.6, 2)))
    assert ledger.ledger("n").reserved == size(0, 0)
    assert ledger.ledger("m").reserved == size(2, 2)
    ledger.drop_ordinary(key("web"))
    assert ledger.ledger("m").reserved == size(0, 0)


def test_a_node_that_is_not_known_has_no_room() -> None:
    ledger = a_vm_on_a_node()
    ledger.drop_node("n")
    assert ledger.ledger("n").cpu.total == 0
    assert ledger.ledger("n").free == size(0, 0)
    ledger.put_node("n", ROOM)
    assert ledger.ledger("n").memory.total == 64 * GI
    assert list(ledger.nodes()) == ["n"]
