"""Migration plans: the VMs that leave a node under pressure, and the clean-up of finished migrations.

A VirtualMachineMigration that is not over *is* the fact that a VM is on its way: the ledger derives
`pressure_accounted_for` from it, so a failed migration leaves the sums by itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ullage.decide.placement.vm_pods import amounts_said
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import DeleteMigration, StartMigration
from ullage.model.units import Instant, Seconds, after, elapsed
from ullage.model.vm import NOTHING, Vm, VmAccount, VmAmounts, VmMigration, VmPod

HALF_AN_HOUR = Seconds(1800.0)


class NotMigrated(StrEnum):
    """Reasons to pass a VM over, in the order they are checked."""

    NOT_MIGRATABLE = "NotMigratable"
    ALREADY_MIGRATING = "AlreadyMigrating"
    APPROVAL_UNKNOWN = "ApprovalUnknown"
    COOLING_DOWN = "CoolingDown"
    NO_ROOM_ELSEWHERE = "NoRoomElsewhere"
    LIMIT_REACHED = "LimitReached"
    """As many migrations as are allowed from this node are under way."""
    NOT_NEEDED = "NotNeeded"
    """Migrations under way account for all of the pressure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationRules:
    per_node: int = 2
    """Migrations under way from one node at most."""
    cooldown: Seconds = HALF_AN_HOUR
    """Time from the start of a VM's migration until it may be migrated again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationCandidate:
    """One VM pod of a node under pressure."""

    pod: VmPod
    vm: Vm
    account: VmAccount
    load: float | None = None
    """Load average of the VM over one minute; None until its agent has reported it."""
    fits_elsewhere: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPlan:
    start: tuple[StartMigration, ...]
    unrelieved: VmAmounts
    """Pressure no VM of this node can relieve now. Pressure that waits for a limit does not count."""
    in_need: tuple[MigrationCandidate, ...] = ()
    """VMs that would relieve it, if there were a node with room for them: demand for new nodes."""
    passed_over: Mapping[ObjectKey, NotMigrated]
    retry_at: Instant | None = None
    """Instant at which the first cool-down ends, of the VMs passed over for it."""


def migration_queue(candidates: Iterable[MigrationCandidate]) -> tuple[MigrationCandidate, ...]:
    """Least loaded first; VMs whose load is known before others, then oldest, then by name."""
    return tuple(sorted(candidates, key=lambda one: (one.load is None, one.load or 0.0, one.pod.created, one.pod.key)))


def plan_migrations(
    pressure: VmAmounts, candidates: Iterable[MigrationCandidate], rules: MigrationRules, *, now: Instant
) -> MigrationPlan:
    """Start migrations from the head of the queue until they account for `pressure`, the node's unaccounted one."""
    queue = migration_queue(candidates)
    under_way = sum(one.account.migrating for one in queue)
    start: list[StartMigration] = []
    passed: dict[ObjectKey, NotMigrated] = {}
    waiting = NOTHING
    for one in queue:
        reason = _unfit(one, rules, now)
        if reason is None and not pressure.above(waiting):
            reason = NotMigrated.NOT_NEEDED
        if reason is None and under_way + len(start) >= rules.per_node:
            reason = NotMigrated.LIMIT_REACHED
            waiting = waiting.plus(_relief(one))
        if reason is not None:
            passed[one.pod.key] = reason
            continue
        start.append(_started(one, pressure, now))
        pressure = pressure.above(_relief(one))
    rested = (
        after(one.vm.last_migration, rules.cooldown)
        for one in queue
        if passed.get(one.pod.key) is NotMigrated.COOLING_DOWN and one.vm.last_migration is not None
    )
    unrelieved = pressure.above(waiting)
    stuck = [one for one in queue if passed.get(one.pod.key) is NotMigrated.NO_ROOM_ELSEWHERE]
    return MigrationPlan(
        start=tuple(start),
        unrelieved=unrelieved,
        in_need=_relieving(unrelieved, stuck),
        passed_over=passed,
        retry_at=min(rested, default=None),
    )


def _relieving(pressure: VmAmounts, queue: Iterable[MigrationCandidate]) -> tuple[MigrationCandidate, ...]:
    """VMs from the head of the queue that together account for the pressure, or as much of it as they can."""
    found: list[MigrationCandidate] = []
    for one in queue:
        relief = _relief(one)
        if pressure.above(relief) != pressure:
            found.append(one)
            pressure = pressure.above(relief)
    return tuple(found)


def finished_migrations(migrations: Iterable[VmMigration]) -> tuple[DeleteMigration, ...]:
    """Migrations of ours that are over. Migrations created by others are theirs to delete."""
    return tuple(
        DeleteMigration(migration=one, why=f"the migration of {one.vm_key} has ended: {one.phase.value}")
        for one in sorted(migrations, key=lambda one: one.key)
        if one.ours and one.phase.over
    )


def migration_name(pod: VmPod) -> str:
    """Name after the pod, so that the migration of an earlier pod of the VM is not taken for this one's."""
    return f"ullage-{pod.key.name}"


def _unfit(one: MigrationCandidate, rules: MigrationRules, now: Instant) -> NotMigrated | None:
    if not one.vm.migratable or one.pod.incoming:
        return NotMigrated.NOT_MIGRATABLE
    if one.account.migrating:
        return NotMigrated.ALREADY_MIGRATING
    if not one.account.known:
        return NotMigrated.APPROVAL_UNKNOWN
    last = one.vm.last_migration
    if last is not None and elapsed(last, now) < rules.cooldown:
        return NotMigrated.COOLING_DOWN
    return None if one.fits_elsewhere else NotMigrated.NO_ROOM_ELSEWHERE


def _relief(one: MigrationCandidate) -> VmAmounts:
    return one.account.reserved.plus(one.account.capacity_pressure)


def _started(one: MigrationCandidate, pressure: VmAmounts, now: Instant) -> StartMigration:
    why = f"{one.pod.node} is under pressure: {amounts_said(pressure)} too much"
    return StartMigration(vm=one.vm, pod=one.pod, name=migration_name(one.pod), at=now, why=why)
