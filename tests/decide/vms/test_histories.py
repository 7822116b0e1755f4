"""No history of VMs overcommits a node, and the ledger's sums never drift from the objects."""

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.decide.vms.histories import VmHistories
from tests.vms import size
from ullage.model.vm import GrantMode, RestartRule


def run(histories: int) -> None:
    run_state_machine_as_test(
        VmHistories, settings=settings(max_examples=histories, stateful_step_count=40, derandomize=True, deadline=None)
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


def test_500_histories() -> None:
    run(500)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_10_000_histories() -> None:
    run(10_000)
