"""Removal of one node, step by step: the numbered list of docs/draining.md, "Doing it".

Every step that cannot be undone comes after a `recheck` on facts read for it; this is its only caller. The NodeRemover
performs the steps.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from ullage.act.concurrency import KeyedLocks
from ullage.act.node_removal import DrainPace, MachineRef, NodeRemover, retry_waits
from ullage.act.pod_eviction import EvictionAnswer
from ullage.act.vm_moves import VmMovePace
from ullage.clock import Clock
from ullage.cloud.api import CloudError, RequestRejected
from ullage.config.settings import DrainingSettings
from ullage.config.vms import VmSettings
from ullage.control.draining.removal_facts import RemovalFactsReader
from ullage.decide.draining.core import DrainCore
from ullage.decide.draining.recheck import EvictionOrder, RecheckStage, RemovalFacts, recheck
from ullage.errors import ApiError
from ullage.model.lifecycles import REMOVAL, REMOVAL_ENDED, RemovalState
from ullage.model.outcomes import (
    DrainOutcome,
    Eviction,
    EvictionResult,
    NodeNotRemoved,
    NodeRemoved,
    PodEvicted,
    RemovalFailure,
)
from ullage.model.pod import Pod
from ullage.model.removal_plan import PlanViolation, RemovalPlan

_FAILURES = {
    EvictionResult.REFUSED: RemovalFailure.EVICTION_REFUSED,
    EvictionResult.REMAINS: RemovalFailure.PODS_REMAIN,
    EvictionResult.FAILED: RemovalFailure.API_FAILED,
}


class EvictionReporter(Protocol):
    """Reporter of evictions."""

    def eviction(self, eviction: Eviction) -> None:
        """Report the result of one eviction."""
        ...


class _Stopped(Exception):
    """Stops a removal."""

    def __init__(self, violation: PlanViolation, evicted: int = 0, *, machine_unknown: bool = False) -> None:
        super().__init__(violation.detail)
        self.violation = violation
        self.evicted = evicted
        self.machine_unknown = machine_unknown
        """The cloud may have deleted the instance: the node keeps its taint until a list shows."""


class NodeRemoval:
    """Removals of nodes, each from its plan to its outcome."""

    def __init__(
        self,
        core: DrainCore,
        facts: RemovalFactsReader,
        remover: NodeRemover,
        reporter: EvictionReporter,
        clock: Clock,
        pace: DrainPace,
    ) -> None:
        self._mover = remover.mover
        self._core = core
        self._facts = facts
        self.remover = self._remover = remover
        self._reporter = reporter
        self._clock = clock
        self._pace = pace
        self._gangs = KeyedLocks()
        self._states: dict[str, RemovalState] = {}

    def configure(self, settings: DrainingSettings, vms: VmSettings) -> None:
        """Take over changed limits, for steps that have not begun."""
        self._pace = DrainPace.of(settings)
        self._remover.evictor.pace = self._pace.evictions
        self._mover.pace = VmMovePace.of(settings, vms)

    async def begin(self, plan: RemovalPlan) -> PlanViolation | None:
        """Step 1. Returns a violation if the plan must be given up; if it waits for a budget nothing was written."""
        self._states[plan.node] = RemovalState.PLANNED
        try:
            if plan.pods:
                self._check(plan, await self._facts.before_taint(plan), RecheckStage.BEFORE_TAINT)
            # 1. Taint.
            node = await self._remover.taint(plan)
            self._advance(plan, RemovalState.TAINTED)
            self._check(plan, self._facts.after_taint(node), RecheckStage.TAINTED)
        except _Stopped as stopped:
            return stopped.violation
        except ApiError as error:
            return PlanViolation(RemovalFailure.API_FAILED, error.message)
        return None

    async def finish(self, plan: RemovalPlan) -> DrainOutcome:
        """Steps 2 to 6."""
        evicted = 0
        try:
            # 2. Wait, until every scheduler has observed the taint.
            await asyncio.sleep(self._pace.after_taint)
            if plan.has_vms:
                await self._migrate_vms(plan)
            # Members of one gang may be on several nodes being removed: the second removal finds them gone or leaving.
            async with self._gangs.through(sorted(plan.gangs)):
                # 3. Look again.
                order = self._check(plan, await self._facts.before_eviction(plan), RecheckStage.BEFORE_EVICTION)
                if order.migrating:
                    late = order.migrating[0].key
                    raise _Stopped(PlanViolation(RemovalFailure.VM_NOT_MIGRATED, f"{late} is here again", late))
                # 4. Evict.
                self._advance(plan, RemovalState.EVICTING if order.evict else RemovalState.EMPTY)
                answers = await self._remover.evictor.evict(order.evict, self._accepted)
            evicted = await self._emptied(plan, answers)
            self._advance(plan, RemovalState.EMPTY)
            if plan.pods:
                # 5. Look again; now nobody may be there who matters.
                order = await self._look_before_deletion(plan)
                await self._remover.evictor.evict_daemons(plan.node, order.daemons, self._accepted)
            # 6. Delete, or leave to its owner.
            if not plan.owned:
                return await self._left_to_owner(plan, evicted)
            return await self._deleted(plan, evicted)
        except _Stopped as stopped:
            evicted = evicted or stopped.evicted
            if stopped.machine_unknown:
                self._advance(plan, RemovalState.MACHINE_UNKNOWN)
                return _not_removed(plan, stopped.violation, evicted)
            return await self.abandon(plan, stopped.violation, evicted)
        except ApiError as error:
            return await self.abandon(plan, PlanViolation(RemovalFailure.API_FAILED, error.message), evicted)

    async def _migrate_vms(self, plan: RemovalPlan) -> None:
        """Move VMs first, with a look of their own: a VM that cannot leave must not cost other pods an eviction.

        Raises _Stopped.
        """
        order = self._check(plan, await self._facts.before_eviction(plan), RecheckStage.BEFORE_EVICTION)
        stays = await self._mover.move(order.migrating, order.migrate)
        if stays is not None:
            detail = f"{stays.pod}: {stays.detail}"
            raise _Stopped(PlanViolation(RemovalFailure.VM_NOT_MIGRATED, detail, stays.pod))

    async def abandon(self, plan: RemovalPlan, violation: PlanViolation, evicted: int = 0) -> NodeNotRemoved:
        """Untaint the node, retrying until written. The soft taint stays if the node only waits for a budget."""
        await self._remover.release(plan.node, plan.uid, still_candidate=violation.waits_for_budget)
        self._advance(plan, RemovalState.RELEASED)
        return _not_removed(plan, violation, evicted)

    def _advance(self, plan: RemovalPlan, state: RemovalState) -> None:
        """Note how far the removal is. Raises IllegalTransition for a step that the lifecycle does not have.

        A removal that another process began is found by its taint.
        """
        before = self._states.get(plan.node, RemovalState.TAINTED)
        self._states[plan.node] = REMOVAL.advance(plan.node, before, state)
        if state in REMOVAL_ENDED:
            del self._states[plan.node]

    def _check(self, plan: RemovalPlan, facts: RemovalFacts, stage: RecheckStage) -> EvictionOrder:
        """Pods to evict. Raises _Stopped where the plan does not hold."""
        answer = recheck(plan, facts, stage, now=self._clock.now())
        if isinstance(answer, PlanViolation):
            raise _Stopped(answer)
        return answer

    async def _look_before_deletion(self, plan: RemovalPlan) -> EvictionOrder:
        return self._check(plan, await self._facts.before_deletion(plan), RecheckStage.BEFORE_DELETION)

    def _accepted(self, pod: Pod) -> None:
        self._core.settle(PodEvicted(pod), now=self._clock.now(), steady=self._clock.steady())

    async def _emptied(self, plan: RemovalPlan, answers: Sequence[EvictionAnswer]) -> int:
        """Wait until all evicted pods have left. Returns the number evicted. Raises _Stopped."""
        evicted = [one for one in answers if one.result is EvictionResult.EVICTED]
        staying = [one for one in answers if one.result is not EvictionResult.EVICTED]
        count = sum(one.asked for one in evicted)
        remaining = [] if staying else await self._remover.evictor.gone(plan.node, [one.pod for one in evicted])
        self._report(plan, answers, {pod.uid for pod in remaining})
        if staying:
            first = staying[0]
            detail = f"{first.pod.key}: {first.detail}"
            raise _Stopped(PlanViolation(_FAILURES[first.result], detail, first.pod.key), count)
        if remaining:
            pod = remaining[0]
            waited = self._pace.evictions.grace_period(pod)
            detail = f"{pod.key} was evicted and is not gone after {waited:g} s and some more"
            raise _Stopped(PlanViolation(RemovalFailure.PODS_REMAIN, detail, pod.key), count)
        return count

    def _report(self, plan: RemovalPlan, answers: Sequence[EvictionAnswer], remaining: set[str]) -> None:
        for answer in answers:
            late = answer.pod.uid in remaining
            if answer.asked or late:
                result = EvictionResult.REMAINS if late else answer.result
                pod = answer.pod
                self._reporter.eviction(
                    Eviction(pod=pod.key, uid=pod.uid, node=plan.node, result=result, detail=answer.detail)
                )

    async def _left_to_owner(self, plan: RemovalPlan, evicted: int) -> NodeRemoved:
        await self._look_before_deletion(plan)
        await self._remover.leave_to_owner(plan.node, plan.uid)
        self._advance(plan, RemovalState.LEFT_TO_OWNER)
        return NodeRemoved(intent=plan.intent, uid=plan.uid, left_to_owner=True, evicted=evicted)

    async def _deleted(self, plan: RemovalPlan, evicted: int) -> NodeRemoved:
        """Delete the instance, then the Node."""
        machine = self._facts.machine_of(plan.node)
        if machine is None:
            raise _Stopped(PlanViolation(RemovalFailure.NO_INSTANCE, "no machine is known for it"))
        await self._delete_machine(plan, machine)
        await self._remover.delete_node(plan.node, plan.uid)
        self._advance(plan, RemovalState.REMOVED)
        return NodeRemoved(intent=plan.intent, uid=plan.uid, instance=machine.instance, evicted=evicted)

    async def _delete_machine(self, plan: RemovalPlan, machine: MachineRef) -> None:
        """Delete the instance, asking again until the deadline. Attempts recheck first: a pod may have been bound."""
        await self._look_before_deletion(plan)
        self._advance(plan, RemovalState.DELETING)
        deadline = self._clock.steady() + self._pace.delete_deadline
        for wait in retry_waits():
            try:
                await self._remover.delete_machine(machine)
            except CloudError as error:
                pause = max(wait, error.retry_after)
                refused = isinstance(error, RequestRejected)
                if refused or self._clock.steady() + pause > deadline:
                    violation = PlanViolation(RemovalFailure.CLOUD_FAILED, error.message)
                    raise _Stopped(violation, machine_unknown=not refused) from error
            else:
                return
            await asyncio.sleep(pause)
            # If the Node was deleted with its instance, only the instance is left to delete.
            if await self._facts.node_exists(plan.node):
                await self._look_before_deletion(plan)


def _not_removed(plan: RemovalPlan, violation: PlanViolation, evicted: int) -> NodeNotRemoved:
    return NodeNotRemoved(
        intent=plan.intent,
        uid=plan.uid,
        failure=violation.failure,
        detail=violation.detail,
        pod=violation.pod,
        evicted=evicted,
    )
