"""No history of VMs overcommits a node, every one settles, and the ledger's sums never drift from the objects."""

import msgspec
import pytest
from hypothesis import seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.decide.vms.histories import VmHistories
from tests.decide.vms.settling import SettlingHistories
from tests.vms import key, size
from ullage.model.vm import GrantMode, RestartRule, VmAccount

PART = 500
"""Histories of one run. Hypothesis remembers all of a run: ten thousand at once take gigabytes."""


def run(part: int, kind: type[VmHistories] = VmHistories, count: int = PART) -> None:
    """Play some histories; those of each part are others."""
    histories = seed(part)(type("Histories", (kind,), {}))
    run_state_machine_as_test(
        histories, settings=settings(max_examples=count, stateful_step_count=40, database=None, deadline=None)
    )


def test_a_permit_that_is_applied_after_the_target_of_a_migration_was_bound() -> None:
    """Rare by chance, so told step by step: the agent holds a permit, the VM migrates, the target node fills up."""
    history = VmHistories()
    history.begin(GrantMode.PER_RESOURCE, RestartRule.TRUST_APPROVED)
    history.reserve("n0", size(2, 4), size(4, 8), 7, True)
    history.ask(0, size(6, 12), "heard")
    history.migrate(0)
    history.bind_target(0, "n1")
    for _ in range(12):
        history.reserve("n1", size(1, 1), size(1, 1), 7, True)
    history.apply_permit(0)
    assert history.objects.guests["v1"].vm.use == size(6, 12)
    history.machines_can_use_no_more_than_nodes_have()
    history.no_node_is_overcommitted()
    history.sums_equal_a_slow_recount()


def test_a_permit_that_is_applied_after_autoscaling_was_switched_off() -> None:
    """The agent holds a permit; its watch is behind when somebody takes the label off. Its room stays taken."""
    history = VmHistories()
    history.begin(GrantMode.PER_RESOURCE, RestartRule.TRUST_APPROVED)
    history.reserve("n0", size(2, 4), size(4, 8), 7, True)
    history.ask(0, size(6, 12), "heard")
    history.switch_autoscaling(0)
    history.watch(0)
    for _ in range(8):
        history.reserve("n0", size(1, 1), size(1, 1), 7, True)
    history.apply_permit(0)
    assert history.objects.guests["v1"].vm.use == size(6, 12)
    history.watch(0)
    history.machines_can_use_no_more_than_nodes_have()
    history.no_node_is_overcommitted()
    history.sums_equal_a_slow_recount()


@pytest.mark.parametrize("loss", ["none", "approval", "restart"])
def test_a_permit_that_is_applied_after_the_maximum_was_lowered_below_it(loss: str) -> None:
    """The agent holds a permit and has not heard of the new maximum. Its room stays taken until it has."""
    history = VmHistories()
    history.begin(GrantMode.PER_RESOURCE, RestartRule.TRUST_APPROVED)
    history.reserve("n0", size(2, 4), size(4, 8), 7, True)
    history.ask(0, size(6, 12), "heard")
    history.change_maximum(0, size(3, 6))
    history.watch(0)
    if loss == "approval":
        history.lose_approval(0)
    if loss == "restart":
        history.restart()
    for _ in range(8):
        history.reserve("n0", size(1, 1), size(1, 1), 7, True)
    history.apply_permit(0)
    assert history.objects.guests["v1"].vm.use == size(6, 12)
    history.machines_can_use_no_more_than_nodes_have()
    history.watch(0)
    history.no_node_is_overcommitted()
    history.hear_maximum(0)
    history.ask(0, size(6, 12), "heard")
    history.watch(0)
    assert history.ledger.account(key("v1")) == VmAccount(reserved=size(3, 6))
    history.sums_equal_a_slow_recount()


@pytest.mark.parametrize("field", ["approved", "requested"])
def test_a_ledger_that_drifts_from_the_objects_is_found(field: str) -> None:
    """The recount can fail: the ledger counts a pod otherwise than the objects say."""
    history = VmHistories()
    history.begin(GrantMode.PER_RESOURCE, RestartRule.TRUST_APPROVED)
    history.reserve("n0", size(2, 4), size(4, 8), 7, True)
    history.sums_equal_a_slow_recount()
    history.ledger.put_pod(msgspec.structs.replace(history.objects.pods["v1"], **{field: size(5, 8)}))
    with pytest.raises(AssertionError, match="n0"):
        history.sums_equal_a_slow_recount()


def test_500_histories() -> None:
    run(0)


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(20))
def test_10_000_histories(part: int) -> None:
    run(1 + part)


def crowded() -> SettlingHistories:
    """A full node: seven VMs of one core and ordinary pods on n0. Nothing is on n1."""
    history = SettlingHistories()
    history.begin(GrantMode.PER_RESOURCE, RestartRule.TRUST_APPROVED)
    for _ in range(7):
        history.reserve("n0", size(1, 1), size(1, 1), 7, True)
    assert history.ledger.ledger("n0").cpu.free == 0
    return history


def test_a_raised_system_moves_vms_until_the_rest_fits() -> None:
    """Agents give nothing back, so only migrations help: three cores are the system's now, two more than before."""
    history = crowded()
    history.configure(1.0, size(3, 1), size(1, 4))
    row = history.ledger.ledger("n0").cpu
    assert row.reserved - row.buffer > row.reservable
    history.settle()
    row = history.ledger.ledger("n0").cpu
    assert (row.reserved, row.reservable) == (5000, 5000)
    assert "new" not in history.nodes


def test_a_raised_system_of_full_nodes_has_a_node_bought() -> None:
    history = crowded()
    for _ in range(11):
        history.reserve("n1", size(1, 1), size(1, 1), 7, True)
    history.configure(1.0, size(3, 1), size(1, 4))
    history.settle()
    assert "new" in history.nodes
    assert [history.ledger.ledger(node).cpu.reserved for node in ("n0", "n1")] == [5000, 9000]


def test_nothing_settles_without_migrations() -> None:
    """The law can fail: VMs that may not be migrated stay above what may be reserved."""
    history = crowded()
    for guest in history.objects.guests.values():
        guest.vm = msgspec.structs.replace(guest.vm, migratable=False)
        history.deliver(guest)
    history.configure(1.0, size(3, 1), size(1, 4))
    with pytest.raises(AssertionError, match="n0"):
        history.settle()


def test_60_histories_settle() -> None:
    run(0, SettlingHistories, 60)


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(4))
def test_2_000_histories_settle(part: int) -> None:
    run(1 + part, SettlingHistories)
