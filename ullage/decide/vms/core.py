"""VmCore: permits and migrations over the VM ledger. Synchronous; `now` is an argument. See docs/vms.md.

The caller puts facts into `ledger`. Decisions are assumed in the ledger at once, and settled by their outcome.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

import msgspec

from ullage.decide.vms.migration import (
    MigrationCandidate,
    MigrationPlan,
    MigrationRules,
    finished_migrations,
    plan_migrations,
)
from ullage.decide.vms.node_need import NodeNeeds
from ullage.decide.vms.permit import PermitDecision, PermitRefused, PermitRequest, decide_permit
from ullage.decide.vms.pressure import PressureTracker, unaccounted_pressure
from ullage.decide.vms.reserve import room_elsewhere
from ullage.decide.vms.rest import MigrationStarts
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import ApproveVm, DeleteMigration, RecordNodeNeed, StartMigration, VmIntent
from ullage.model.outcomes import (
    ApprovalWritten,
    MigrationDeleted,
    MigrationStarted,
    NodeNeedRecorded,
    VmIntentRefused,
    VmIntentUnknown,
    VmOutcome,
)
from ullage.model.units import Instant, Seconds, after, elapsed
from ullage.model.vm import GrantMode, MigrationPhase, Vm, VmAmounts, VmMigration, VmPod
from ullage.state.vm_ledger import VmLedger

_SUSTAINED, _SILENT, _MIGRATION = Seconds(30.0), Seconds(60.0), MigrationRules()
_UNKNOWN_RETRY = Seconds(5.0)
_NODE_NEED = Seconds(60.0)

FitsElsewhere = Callable[[VmPod, Vm, Instant], bool]
"""True if some other node has room for a VM below its watermark, and takes its pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VmRules:
    grant: GrantMode = GrantMode.PER_RESOURCE
    capacity_factor: float = 1.0
    """Weight of denied requests in pressure; above 0."""
    sustained: Seconds = _SUSTAINED
    """Time pressure has to last before a VM is migrated."""
    silent_after: Seconds = _SILENT
    """Time without a message after which an agent's request is no pressure any more."""
    migrate: bool = True
    migration: MigrationRules = _MIGRATION
    node_need_after: Seconds = _NODE_NEED
    """Time for which VMs have found no other node before a new one is asked for; and to take it back."""


PlannedIntent = StartMigration | DeleteMigration | RecordNodeNeed


class VmCore:
    """Decisions on all VMs. One process decides at a time; another one starts from the objects."""

    def __init__(self, ledger: VmLedger, rules: VmRules, fits_elsewhere: FitsElsewhere | None = None) -> None:
        """`fits_elsewhere` asks the rules of placement; without it only ledgers are asked."""
        self.ledger = ledger
        self.rules = rules
        self._fits_elsewhere = fits_elsewhere or (lambda _pod, vm, _now: room_elsewhere(ledger, vm))
        self.unrelieved: dict[str, VmAmounts] = {}
        """By node: lasting pressure that no migration can relieve."""
        self._needs = NodeNeeds(rules.node_need_after)
        self._pressure = PressureTracker(rules.sustained)
        self._last_requests: dict[ObjectKey, Instant] = {}
        self._loads: dict[str, float] = {}
        self._unsettled: set[ObjectKey] = set()
        self._retry_at: Instant | None = None
        """Instant at which to plan again after a plan that left pressure, though no fact has changed."""
        self._unknown_starts: dict[ObjectKey, StartMigration] = {}
        """By VM: starts of unknown outcome. They are repeated: a migration's name is made of its pod's."""
        self._started: dict[ObjectKey, Instant] = {}
        """By VM: migrations this process started. A watch that is behind does not show them yet."""
        self._recorded = MigrationStarts()

    def configure(self, rules: VmRules) -> None:
        """Take over other rules. Pressure that lasts already is not forgotten."""
        self.rules = rules
        self._pressure.sustained = rules.sustained
        self._needs.lasting = rules.node_need_after

    # Permits.

    def needs_fresh_read(self, request: PermitRequest) -> bool:
        """Pod and VirtualMachine are to be read and put into the ledger before this request is decided."""
        pod = self.ledger.pod(request.pod)
        if pod is None:
            return False
        account, vm = self.ledger.account(request.pod), self.ledger.vm(pod.vm_key)
        lowers = not account.reserved.within(request.wanted)
        unscaled = vm is not None and not vm.scaling
        return lowers or unscaled or not account.known or request.pod in self._unsettled

    def request(self, request: PermitRequest, load: float | None, *, now: Instant) -> PermitDecision | PermitRefused:
        """Decide on a message. A write that the decision names is assumed until `approval_…` reports its outcome."""
        decided = decide_permit(self.ledger, request, mode=self.rules.grant)
        pod = self.ledger.pod(request.pod)
        if pod is None or isinstance(decided, PermitRefused):
            return decided
        self._last_requests[pod.key] = now
        if load is not None:
            self._loads[pod.uid] = load
        if decided.write is None:
            self.ledger.report(pod.key)
        else:
            self._unsettled.add(pod.key)
            self.ledger.assume_approval(pod.key, decided.write.approved)
        return decided

    def approval_written(self, pod: VmPod) -> None:
        """The write succeeded; `pod` is the pod as it is now."""
        self.ledger.put_pod(pod)
        self._settled(pod.key)
        self.ledger.report(pod.key)

    def approval_refused(self, write: ApproveVm) -> None:
        """The write did not happen, for certain."""
        self._settled(write.pod.key)

    def settle(self, outcome: VmOutcome) -> None:
        """Take over the outcome of an intent."""
        match outcome:
            case ApprovalWritten():
                self.approval_written(outcome.pod)
            case MigrationStarted():
                self._unknown_starts.pop(outcome.intent.vm.key, None)
                self.ledger.put_migration(outcome.migration)
            case MigrationDeleted():
                self.ledger.drop_migration(outcome.intent.migration.key)
            case NodeNeedRecorded():
                pass  # observed on the VirtualMachine
            case VmIntentRefused():
                self._refused(outcome.intent)
            case VmIntentUnknown():
                if isinstance(outcome.intent, StartMigration):
                    self._unknown_starts[outcome.intent.vm.key] = outcome.intent
            case _:
                assert_never(outcome)

    def _refused(self, intent: VmIntent) -> None:
        match intent:
            case ApproveVm():
                self.approval_refused(intent)
            case StartMigration():
                self.migration_refused(intent)
            case DeleteMigration() | RecordNodeNeed():
                pass  # as it was, and named again by a later plan
            case _:
                assert_never(intent)

    def approval_read(self, pod: VmPod) -> None:
        """The pod was read afresh: it includes all earlier writes."""
        self.ledger.put_pod(pod)
        self._settled(pod.key)

    def _settled(self, key: ObjectKey) -> None:
        self._unsettled.discard(key)
        self.ledger.forget_approval(key)

    # Migrations.

    def next_intents(self, *, now: Instant) -> tuple[PlannedIntent, ...]:
        """Migrations to start and to clean up, and needs of nodes to record.

        A start is assumed until it is refused or the object is observed.
        """
        self._silence(now)
        intents: list[PlannedIntent] = list(finished_migrations(self.ledger.migrations()))
        in_need: dict[ObjectKey, Vm] = {}
        intents += [self._unknown_starts[vm] for vm in sorted(self._unknown_starts)]
        self.unrelieved = {}
        self._pressure.keep(frozenset(self.ledger.nodes()))
        retries = [after(now, _UNKNOWN_RETRY)] if self._unknown_starts else []
        for node in self.ledger.nodes():
            pressure = unaccounted_pressure(self.ledger.ledger(node), self.rules.capacity_factor)
            if self._pressure.observe(node, pressure, now=now):
                plan = self._plan(node, pressure, now)
                intents += plan.start
                retries += [plan.retry_at] if plan.retry_at is not None else []
                if plan.unrelieved:
                    self.unrelieved[node] = plan.unrelieved
                in_need |= {one.vm.key: one.vm for one in plan.in_need}
        intents += self._needs.intents(in_need, self.ledger.vms(), now=now)
        self._retry_at = min(retries, default=None)
        return tuple(intents)

    def migration_refused(self, intent: StartMigration) -> None:
        """The VirtualMachineMigration was not created, for certain. The VM rests all the same."""
        self._unknown_starts.pop(intent.vm.key, None)
        self.ledger.drop_migration(ObjectKey(intent.pod.key.namespace, intent.name))

    def next_deadline(self) -> Instant | None:
        """Instant at which time alone can change the result of `next_intents`."""
        moments = [after(heard, self.rules.silent_after) for heard in self._last_requests.values()]
        moments += [
            one
            for one in (self._pressure.next_deadline(), self._needs.next_deadline(), self._retry_at)
            if one is not None
        ]
        return min(moments, default=None)

    def _plan(self, node: str, pressure: VmAmounts, now: Instant) -> MigrationPlan:
        if not self.rules.migrate:
            return MigrationPlan(start=(), unrelieved=pressure, passed_over={})
        plan = plan_migrations(pressure, self._candidates(node, now), self.rules.migration, now=now)
        for intent in plan.start:
            self._assume(intent, now)
        return plan

    def _candidates(self, node: str, now: Instant) -> list[MigrationCandidate]:
        found: list[MigrationCandidate] = []
        for pod in self.ledger.pods_on(node):
            vm = self.ledger.vm(pod.vm_key)
            if vm is not None:
                vm = msgspec.structs.replace(vm, last_migration=self._last_migration(vm, now))
                found.append(
                    MigrationCandidate(
                        pod=pod,
                        vm=vm,
                        account=self.ledger.account(pod.key),
                        load=self._loads.get(pod.uid),
                        fits_elsewhere=vm.migratable and self._fits_elsewhere(pod, vm, now),
                    )
                )
        return found

    def _last_migration(self, vm: Vm, now: Instant) -> Instant | None:
        recorded, known = self._recorded.last(vm, now=now), self._started.get(vm.key)
        return max((one for one in (recorded, known) if one is not None), default=None)

    def _assume(self, intent: StartMigration, now: Instant) -> None:
        self._started[intent.vm.key] = now
        self.ledger.put_migration(
            VmMigration(
                key=ObjectKey(intent.pod.key.namespace, intent.name),
                uid="",
                vm=intent.vm.key.name,
                phase=MigrationPhase.NEW,
                source_pod=intent.pod.key.name,
            )
        )

    def _silence(self, now: Instant) -> None:
        """Drop requests of silent agents from pressure. After a restart silence counts from the first look."""
        pods = [pod for node in self.ledger.nodes() for pod in self.ledger.pods_on(node)]
        for pod in pods:
            heard = self._last_requests.get(pod.key)
            if heard is None and self.ledger.account(pod.key).capacity_pressure:
                self._last_requests[pod.key] = now
            elif heard is not None and elapsed(heard, now) >= self.rules.silent_after:
                del self._last_requests[pod.key]
                self.ledger.silence(pod.key)
        keys, uids = {pod.key for pod in pods}, {pod.uid for pod in pods}
        self._last_requests = {key: min(heard, now) for key, heard in self._last_requests.items() if key in keys}
        self._loads = {uid: load for uid, load in self._loads.items() if uid in uids}
        self._unsettled &= keys
        for vm in [vm for vm, start in self._unknown_starts.items() if start.pod.key not in keys]:
            self.migration_refused(self._unknown_starts[vm])
        rest = self.rules.migration.cooldown
        self._started = {key: min(at, now) for key, at in self._started.items() if elapsed(at, now) < rest}
        self._recorded.keep(self.ledger.vms())
