"""Migration: the queue, who is passed over and why, limits, and the end of migrations."""

import pytest

from tests.vms import a_migration, a_vm, a_vm_pod, key, size
from ullage.decide.vms.migration import (
    MigrationCandidate,
    MigrationRules,
    NotMigrated,
    finished_migrations,
    migration_queue,
    plan_migrations,
)
from ullage.model.units import Instant, Seconds
from ullage.model.vm import MigrationPhase, VmAccount, VmAmounts

NOW = Instant(10_000.0)
NONE = VmAmounts(0, 0)


def a_candidate(
    name: str,
    load: float | None = 1.0,
    *,
    reserved: VmAmounts | None = None,
    denied: VmAmounts = NONE,
    migratable: bool = True,
    migrating: bool = False,
    known: bool = True,
    last_migration: float | None = None,
    fits_elsewhere: bool = True,
    created: float = 0.0,
    incoming: bool = False,
) -> MigrationCandidate:
    held = reserved or size(2, 8)
    return MigrationCandidate(
        pod=a_vm_pod(name, "n", held, created=created, incoming=incoming),
        vm=a_vm(name, held, migratable=migratable, last_migration=last_migration),
        account=VmAccount(reserved=held, capacity_pressure=denied, migrating=migrating, known=known),
        load=load,
        fits_elsewhere=fits_elsewhere,
    )


def names(candidates: tuple[MigrationCandidate, ...]) -> str:
    return "".join(one.pod.key.name for one in candidates)


@pytest.mark.parametrize(
    ("candidates", "order"),
    [
        pytest.param((a_candidate("a", 2.0), a_candidate("b", 0.1)), "ba", id="least-loaded-first"),
        pytest.param((a_candidate("a", None), a_candidate("b", 9.0)), "ba", id="known-load-before-unknown"),
        pytest.param((a_candidate("a", created=5.0), a_candidate("b", created=1.0)), "ba", id="then-oldest"),
        pytest.param((a_candidate("b"), a_candidate("a")), "ab", id="then-by-name"),
    ],
)
def test_the_queue(candidates: tuple[MigrationCandidate, ...], order: str) -> None:
    assert names(migration_queue(candidates)) == order


@pytest.mark.parametrize(
    ("candidate", "reason"),
    [
        pytest.param(a_candidate("a", 0.0, migratable=False), NotMigrated.NOT_MIGRATABLE, id="not-allowed"),
        pytest.param(a_candidate("a", 0.0, incoming=True), NotMigrated.NOT_MIGRATABLE, id="it-is-just-arriving"),
        pytest.param(a_candidate("a", 0.0, migrating=True), NotMigrated.ALREADY_MIGRATING, id="on-its-way"),
        pytest.param(a_candidate("a", 0.0, known=False), NotMigrated.APPROVAL_UNKNOWN, id="size-not-known"),
        pytest.param(a_candidate("a", 0.0, last_migration=9_000.0), NotMigrated.COOLING_DOWN, id="cooling-down"),
        pytest.param(a_candidate("a", 0.0, fits_elsewhere=False), NotMigrated.NO_ROOM_ELSEWHERE, id="fits-nowhere"),
    ],
)
def test_a_vm_that_cannot_go_blocks_nobody(candidate: MigrationCandidate, reason: NotMigrated) -> None:
    plan = plan_migrations(size(1, 1), [candidate, a_candidate("b", 5.0)], MigrationRules(), now=NOW)
    assert [one.pod.key.name for one in plan.start] == ["b"]
    assert plan.passed_over[key("a")] is reason


def test_a_vm_may_go_again_after_its_cooldown() -> None:
    rules = MigrationRules(cooldown=Seconds(600.0))
    plan = plan_migrations(size(1, 1), [a_candidate("a", last_migration=9_400.0)], rules, now=NOW)
    assert [one.vm.key.name for one in plan.start] == ["a"]


def test_as_many_go_as_account_for_all_of_the_pressure() -> None:
    """5 cores too much: the first two account for 2 + 2, the third for 2 with what it was denied."""
    queue = [a_candidate(name, float(load)) for load, name in enumerate("abcd")]
    plan = plan_migrations(size(5, 1), queue, MigrationRules(per_node=9), now=NOW)
    assert [one.pod.key.name for one in plan.start] == ["a", "b", "c"]
    assert plan.passed_over == {key("d"): NotMigrated.NOT_NEEDED}
    assert plan.unrelieved == NONE


def test_what_a_vm_was_denied_goes_with_it() -> None:
    plan = plan_migrations(
        size(5, 1), [a_candidate("a", denied=size(3, 0)), a_candidate("b", 2.0)], MigrationRules(), now=NOW
    )
    assert [one.pod.key.name for one in plan.start] == ["a"]


def test_no_more_go_at_once_than_the_limit_and_the_rest_waits() -> None:
    queue = [a_candidate("x", migrating=True), *(a_candidate(name, 2.0) for name in "abc")]
    plan = plan_migrations(size(5, 1), queue, MigrationRules(per_node=2), now=NOW)
    assert [one.pod.key.name for one in plan.start] == ["a"]
    assert plan.passed_over[key("b")] is NotMigrated.LIMIT_REACHED
    assert plan.unrelieved == NONE, "b and c will go in their turn: no new node is needed for them"


def test_pressure_that_no_vm_can_relieve_is_demand() -> None:
    queue = [a_candidate("a"), a_candidate("b", fits_elsewhere=False)]
    plan = plan_migrations(size(5, 20), queue, MigrationRules(), now=NOW)
    assert plan.unrelieved == size(3, 12)


def test_no_pressure_no_migration() -> None:
    assert plan_migrations(NONE, [a_candidate("a")], MigrationRules(), now=NOW).start == ()


def test_migrations_of_ours_that_are_over_are_deleted() -> None:
    found = finished_migrations(
        [
            a_migration("d", MigrationPhase.FAILED, ours=False),
            a_migration("b", MigrationPhase.SUCCEEDED),
            a_migration("a", MigrationPhase.FAILED),
            a_migration("c", MigrationPhase.RUNNING),
            a_migration("e", MigrationPhase.NEW),
        ]
    )
    assert [one.migration.vm for one in found] == ["a", "b"]
