"""Recheck of a removal plan against facts just read from the API server, before each step that cannot be undone.

Facts are read by `control/draining/removal_facts.py`; nothing is read here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import assert_never

from ullage.decide.draining.eligibility import is_draining
from ullage.decide.draining.pdb import RemainingPdbTracker
from ullage.decide.draining.rules import Drainability, DrainBlocked, DrainContext, drainability
from ullage.decide.vms.migration import migration_name
from ullage.model.disruption_budget import PodDisruptionBudget
from ullage.model.draining import UnremovableReason
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import StartMigration
from ullage.model.node import Node
from ullage.model.outcomes import RemovalFailure
from ullage.model.pod import Pod
from ullage.model.removal_plan import PlanViolation, RemovalPlan
from ullage.model.units import Instant


class RecheckStage(Enum):
    """Step of a removal that follows the recheck."""

    BEFORE_TAINT = "before the taint"
    """Budgets only: nothing has been written yet."""
    TAINTED = "the taint was written"
    """The Node as the write left it, and nothing else."""
    BEFORE_EVICTION = "before the evictions"
    BEFORE_DELETION = "before the deletion"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalFacts:
    """Facts of one removal, read from the API server a moment ago. Facts that a stage does not check may be empty."""

    context: DrainContext
    """Rule switches, workloads and disruption budgets as last observed."""
    node: Node | None = None
    pods: tuple[Pod, ...] = ()
    """All pods on the node."""
    gang_members: Mapping[ObjectKey, Pod] = field(default_factory=dict)
    """Pods of the plan on other nodes, which move along."""
    budgets: tuple[PodDisruptionBudget, ...] = ()
    """Disruption budgets of the namespaces of the pods of the plan, see `budget_namespaces`."""
    incoming: ObjectKey | None = None
    """Pod that holds a Lease of the node and is not bound yet."""
    unplaceable: ObjectKey | None = None
    """Pod of the plan that fits on no other node any more."""


@dataclass(frozen=True, slots=True)
class EvictionOrder:
    """Pods to evict now, and VMs to migrate before."""

    evict: tuple[Pod, ...] = ()
    """Pods that have to be gone before the node is deleted: pods of the node by name, then gang members elsewhere."""
    daemons: tuple[Pod, ...] = ()
    """Pods that leave with the node and can be evicted."""
    migrate: tuple[StartMigration, ...] = ()
    """Migrations to start, of VMs that are not on their way yet. They come before all evictions."""
    migrating: tuple[Pod, ...] = ()
    """Pods of VMs that leave by migration, those on their way included."""


def recheck(
    plan: RemovalPlan, facts: RemovalFacts, stage: RecheckStage, *, now: Instant
) -> EvictionOrder | PlanViolation:
    """Pods to evict, or the first assumption of the plan that no longer holds."""
    check = _Check(plan, facts, now)
    match stage:
        case RecheckStage.BEFORE_TAINT:
            return check.budgets(check.leaving()) or EvictionOrder()
        case RecheckStage.TAINTED:
            return check.node() or EvictionOrder()
        case RecheckStage.BEFORE_EVICTION:
            return check.before_eviction()
        case RecheckStage.BEFORE_DELETION:
            return check.before_deletion()
        case _:
            assert_never(stage)


def budget_namespaces(plan: RemovalPlan, pods: Iterable[Pod], context: DrainContext) -> list[str]:
    """Namespaces whose budgets are to be read: those of gangs, and those where an observed budget selects a pod."""
    watched = {pod.key.namespace for pod in pods if plan.knows(pod) and context.budgets.over(pod)}
    return sorted(watched | {gang.namespace for gang in plan.gangs})


class _Check:
    def __init__(self, plan: RemovalPlan, facts: RemovalFacts, now: Instant) -> None:
        self._plan = plan
        self._facts = facts
        self._context = facts.context.at(now)
        self._here = sorted(facts.pods, key=lambda pod: pod.key)

    def before_eviction(self) -> EvictionOrder | PlanViolation:
        elsewhere = [pod for _, pod in sorted(self._facts.gang_members.items()) if not pod.phase.over]
        leaving, migrating = self.leaving(), self._migrating()
        evict = (*leaving, *elsewhere)
        problem = self.node() or self._pods(self._here) or self._incoming()
        problem = problem or (self._room() if leaving or migrating else None) or self._pods(elsewhere)
        problem = problem or self._gangs({pod.key: pod for pod in evict}) or self.budgets(evict)
        return problem or EvictionOrder(
            evict, self._daemons(), migrate=self._migrations(migrating), migrating=tuple(migrating)
        )

    def before_deletion(self) -> EvictionOrder | PlanViolation:
        problem = self.node() or self._pods(self._here, evicted=True) or self._incoming()
        return problem or EvictionOrder(daemons=self._daemons())

    def leaving(self) -> list[Pod]:
        """Pods of the plan on the node to be evicted, and pods being deleted that have to be waited for."""
        known = [pod for pod in self._here if self._plan.knows(pod)]
        return [pod for pod in known if _treatment(pod, self._context) is Drainability.EVICT or pod.deleting]

    def _migrating(self) -> list[Pod]:
        known = [pod for pod in self._here if self._plan.knows(pod)]
        return [pod for pod in known if _treatment(pod, self._context) is Drainability.MIGRATE]

    def _migrations(self, pods: Iterable[Pod]) -> tuple[StartMigration, ...]:
        """Migrations of these VMs, but for those under way."""
        ledger, found = self._context.vms, list[StartMigration]()
        for pod in pods:
            guest = None if ledger is None else ledger.pod(pod.key)
            vm = None if ledger is None or guest is None else ledger.vm(guest.vm_key)
            if ledger is None or guest is None or vm is None or ledger.account(pod.key).migrating:
                continue
            why = f"node {self._plan.node} is removed"
            found.append(
                StartMigration(vm=vm, pod=guest, name=migration_name(guest), at=Instant(self._context.now), why=why)
            )
        return tuple(found)

    def node(self) -> PlanViolation | None:
        """Violation by the Node object itself."""
        node = self._facts.node
        if node is None:
            return PlanViolation(RemovalFailure.NODE_CHANGED, "it is gone")
        if node.uid != self._plan.uid:
            return PlanViolation(RemovalFailure.NODE_CHANGED, "another node has its name")
        if node.kept:
            return PlanViolation(RemovalFailure.PROTECTED, "its owner wants it kept")
        return None if is_draining(node) else PlanViolation(RemovalFailure.NODE_CHANGED, "its taint is gone")

    def budgets(self, pods: Iterable[Pod]) -> PlanViolation | None:
        """Violation by the first pod whose eviction is sure to be refused: the others would be evicted in vain."""
        allowed = self._allowed()
        for pod in sorted(pods, key=lambda pod: pod.key):
            if allowed.spent(pod):
                detail = f"{allowed.cost(pod)} allows nothing now, and {pod.key} would be refused"
                return PlanViolation(RemovalFailure.BUDGET_SPENT, detail, pod.key)
        return None

    def _daemons(self) -> tuple[Pod, ...]:
        """Pods that leave with the node. Mirror pods cannot be evicted: kubelet owns them."""
        with_it = [pod for pod in self._here if _treatment(pod, self._context) is Drainability.LEAVES_WITH_NODE]
        return tuple(pod for pod in with_it if not pod.marks.mirror and not pod.deleting)

    def _pods(self, pods: Iterable[Pod], *, evicted: bool = False) -> PlanViolation | None:
        """Violation by the pods on the node. `evicted`: no pod that needs a place may be left."""
        for pod in pods:
            answer = _treatment(pod, self._context)
            if answer in (Drainability.LEAVES_WITH_NODE, Drainability.SKIP):
                continue
            if not self._plan.knows(pod):
                detail = f"{pod.key} is on it, which the plan did not know"
                return PlanViolation(RemovalFailure.OCCUPIED, detail, pod.key)
            if evicted:
                return PlanViolation(RemovalFailure.PODS_REMAIN, f"{pod.key} is still on it", pod.key)
            if answer not in (Drainability.EVICT, Drainability.MIGRATE) and not pod.deleting:
                blocked = answer.reason if isinstance(answer, DrainBlocked) else UnremovableReason.WAITS_FOR_COMPLETION
                detail = f"{pod.key} is not to be moved any more: {blocked.value}"
                return PlanViolation(RemovalFailure.POD_MUST_STAY, detail, pod.key)
        return None

    def _incoming(self) -> PlanViolation | None:
        pod = self._facts.incoming
        if pod is None:
            return None
        return PlanViolation(RemovalFailure.OCCUPIED, f"{pod} holds GPUs of it and is about to come", pod)

    def _room(self) -> PlanViolation | None:
        pod = self._facts.unplaceable
        if pod is None:
            return None
        return PlanViolation(RemovalFailure.NO_PLACE, f"{pod} would have no place elsewhere any more", pod)

    def _gangs(self, members: Mapping[ObjectKey, Pod]) -> PlanViolation | None:
        """Violation by a gang that moves whole and whose budgets do not allow it. Members that are gone do not count.

        Other pods wait for their budgets until the eviction deadline. A gang does not: part of a gang is of no use.
        """
        allowed = self._allowed()
        for gang in sorted(self._plan.gangs):
            leaving = [members[key] for key in self._plan.gangs[gang] if key in members]
            refused = allowed.refuses(leaving, in_turn=False)
            if refused is not None:
                detail = f"gang {gang} moves whole, and {allowed.cost(refused)} does not last for all of it"
                return PlanViolation(RemovalFailure.POD_MUST_STAY, detail, refused.key)
            allowed.charge(leaving)
        return None

    def _allowed(self) -> RemainingPdbTracker:
        return RemainingPdbTracker({budget.key: budget for budget in self._facts.budgets})


def _treatment(pod: Pod, context: DrainContext) -> Drainability | DrainBlocked:
    """Drainability of a pod as in a plan, but a spent budget does not block: the eviction is retried."""
    if pod.phase.over:
        return Drainability.SKIP
    answer = drainability(pod, context)
    if isinstance(answer, DrainBlocked) and answer.reason is UnremovableReason.NOT_ENOUGH_PDB:
        return Drainability.EVICT
    return answer
