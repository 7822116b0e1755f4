"""ProvisioningCore: plans all pools and settles outcomes. Purchases live in NodeProvisioner.status, not here.

Remembered by one process: protected nodes, back-off of deletions, and since when something has been observed.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ullage.config.settings import ProvisioningSettings, Settings
from ullage.decide.provisioning.pending import buys_for
from ullage.decide.provisioning.planner import FleetFacts, FleetPlan, plan_fleet_in_steps
from ullage.decide.provisioning.purchase_state import (
    DeleteBackoff,
    open_purchase,
    prune_awaited,
    release_lost,
    settle_purchase,
)
from ullage.decide.provisioning.sightings import Sightings
from ullage.decide.provisioning.vm_demand import pending_and_vms_in_steps
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.fact_event import FactEvent, Updated
from ullage.model.instance import Instance
from ullage.model.intents import ScaleUp, TerminateInstance
from ullage.model.outcomes import (
    LaunchFailed,
    NodesLaunched,
    PoolActionDone,
    PoolActionFailed,
    PoolFailure,
    PoolOutcome,
)
from ullage.model.pod import Pod
from ullage.model.pool_sighting import ListHorizon
from ullage.model.provisioner import Provisioner
from ullage.model.stepper import Stepper
from ullage.model.units import Instant, Seconds, Steady
from ullage.state.snapshot import ClusterSnapshot

LEFT_LEASE_SECONDS = Seconds(60.0)
"""Seconds for which a GPU whose pod is gone and whose Lease remains counts as free: it is about to be freed.

A GPU that is held for longer is in quarantine, and pending pods need another.
"""
_NO_LISTS: Mapping[str, ListHorizon] = {}


class ProvisioningCore:
    """Plans over one snapshot. `observe`, `plan` and `settle` change what is remembered; all else only reads."""

    def __init__(
        self, snapshot: ClusterSnapshot, settings: Settings, served_elsewhere: Callable[[Pod], bool] = lambda _: False
    ) -> None:
        """`served_elsewhere`: true for a pod, or the supposed target of a VM, that another system buys a node for."""
        self.planned: FleetPlan | None = None
        """Last plan; None while there is no pool."""
        self.snapshot = snapshot
        self.assigner = PodAssigner(snapshot)
        self._settings = settings.provisioning
        self._buys_for = buys_for(settings.scheduler_names)
        self._served_elsewhere = served_elsewhere
        self._sightings = Sightings()
        self._deletes = DeleteBackoff()
        self._protected: dict[str, Steady] = {}
        """Protected nodes, each with the time until which it is, by the monotonic clock."""

    @property
    def settings(self) -> ProvisioningSettings:
        """Settings in force."""
        return self._settings

    def configure(self, settings: Settings) -> None:
        """Take over changed settings."""
        self._settings = settings.provisioning

    def observe(self, event: FactEvent[Any]) -> bool:
        """True if the event calls for a new plan. To be called after the snapshot has changed."""
        return can_change_plan(event)

    def prune(
        self, pool: Provisioner, instances: Sequence[Instance], *, list_age: Seconds | None, now: Instant
    ) -> Provisioner:
        """The pool without awaited instances that are listed by now, or ought to have been.

        `list_age`: seconds for which the last list may be out of date; None where it failed.
        """
        return prune_awaited(pool, {one.id for one in instances}, list_age=list_age, now=now)

    def facts(
        self,
        pools: Sequence[Provisioner],
        instances: Sequence[Instance],
        *,
        now: Instant,
        steady: Steady,
        lists: Mapping[str, ListHorizon] = _NO_LISTS,
    ) -> FleetFacts:
        """Facts of a plan beside the snapshot. `instances`: of all providers, with the names of their nodes.

        `lists`: horizons of the lists by pool. Without one, no node counts as one whose instance is gone.
        """
        self._protected = {node: until for node, until in self._protected.items() if until > steady}
        deletes = {one.name: self._deletes.seconds(one.name, one.provider, steady=steady) for one in pools}
        left = self._sightings.new_holders(self.snapshot.leases.left, steady=steady, within=LEFT_LEASE_SECONDS)
        return FleetFacts(
            provisioners=pools,
            instances=instances,
            protected=frozenset(self._protected),
            budget=self._settings.budget,
            seen=self._sightings.look(pools, instances, self.snapshot.state, now=now, steady=steady, lists=lists),
            deletes_at={name: Instant(now + seconds) for name, seconds in deletes.items() if seconds},
            leaving=frozenset(left),
        )

    def plan(self, fleet: FleetFacts, *, now: Instant) -> Stepper[FleetPlan]:
        """Decide on every pool, in steps. Events and outcomes may come between them."""
        pending = yield from pending_and_vms_in_steps(
            self.assigner, self._counts, lambda vm: not self._served_elsewhere(vm)
        )
        leaving = sorted(fleet.leaving)
        steps = plan_fleet_in_steps(
            self.assigner.engine, fleet, pending, now=now, lifted=lambda: self.snapshot.leases.lifted(leaving)
        )
        self.planned = plan = yield from steps
        return plan

    def rest(self) -> None:
        """Forget the plan: there is no pool."""
        self.planned = None

    def next_deadline(self) -> Instant | None:
        """Time of the next plan if no event comes first."""
        return None if self.planned is None else self.planned.wake_at

    def open_purchase(self, pool: Provisioner, intent: ScaleUp, *, now: Instant) -> Provisioner:
        """The pool with the purchase, to be written before the cloud is asked."""
        return open_purchase(pool, intent, now=now)

    def settle(
        self, pool: Provisioner, outcomes: Sequence[PoolOutcome], *, now: Instant, steady: Steady
    ) -> Provisioner:
        """The pool after the outcomes of one step: purchase, awaited instances and back-off, to be written."""
        # A Node whose instance was gone says nothing about the cloud.
        deletions = [one for one in outcomes if isinstance(one.action, TerminateInstance) and not one.action.gone]
        if deletions:
            self._deletes.learn(pool.name, pool.provider, deletions, steady=steady)
        for outcome in outcomes:
            match outcome:
                case PoolActionFailed(setback=PoolFailure.PROTECTED):
                    self._protected[outcome.action.node] = Steady(steady + self._settings.protected_recheck_timeout)
                case NodesLaunched() | LaunchFailed():
                    pool = settle_purchase(pool, outcome, now=now)
                case _:
                    pass
        never, departed = _lost(deletions)
        return release_lost(pool, never, departed, now=now) if never or departed else pool

    def _counts(self, pod: Pod) -> bool:
        """True if nodes are bought for this pod. Not for one that holds its GPUs already: its bind is under way."""
        return self._buys_for(pod) and not self.snapshot.leases.holds(pod.uid) and not self._served_elsewhere(pod)


def can_change_plan(event: FactEvent[Any]) -> bool:
    """True if the event calls for a new plan. A pod's start or readiness changes no pool."""
    if not isinstance(event, Updated) or not isinstance(event.old, Pod):
        return True
    old, new = event.old, event.new
    if old.phase.over or new.phase.over:
        return True
    return bool(replace(old, resource_version=new.resource_version, marks=new.marks, phase=new.phase) != new)


def _lost(outcomes: Sequence[PoolOutcome]) -> tuple[set[str], set[str]]:
    """Terminated instances that failed to register, and those whose Node was deleted."""
    gone = [
        one.action for one in outcomes if isinstance(one, PoolActionDone) and isinstance(one.action, TerminateInstance)
    ]
    never = {action.instance for action in gone if action.lost and not action.departed}
    return never, {action.instance for action in gone if action.lost and action.departed}
