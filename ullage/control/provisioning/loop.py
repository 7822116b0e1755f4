"""Provisioning loop: observe, list, decide, act, record. Runs on a relevant change, at its next deadline, or to list.

Pools do not wait for each other: a slow step goes on concurrently, and its pool gets no other step meanwhile.
"""

import asyncio
import math
from collections.abc import Iterable, Sequence
from typing import Any

import structlog

from ullage.act.concurrency import each
from ullage.act.pools import PoolActuator
from ullage.clock import Clock
from ullage.config.settings import Settings
from ullage.control.provisioning.fleet_reporter import FleetReporter
from ullage.control.provisioning.instance_lists import InstanceLists
from ullage.control.provisioning.statuses import ProvisionerStatuses
from ullage.decide.provisioning.core import ProvisioningCore
from ullage.decide.provisioning.planner import FleetPlan, PoolPlan
from ullage.decide.provisioning.pool_nodes import some_of, with_their_nodes
from ullage.errors import ApiError
from ullage.kube.objects.provisioner import NodeProvisioner
from ullage.model.fact_event import Added, FactEvent, Updated
from ullage.model.instance import Instance, InstanceState
from ullage.model.intents import PoolIntent, ScaleUp, TaintForDeletion, TerminateInstance, Untaint
from ullage.model.outcomes import (
    LaunchFailed,
    NodesLaunched,
    PoolActionDone,
    PoolActionFailed,
    PoolFailure,
    PoolOutcome,
)
from ullage.model.provisioner import PROVISIONER_LABEL, Provisioner
from ullage.model.units import Seconds
from ullage.runtime import LoopHealth, Pacing, drive, run_reconciler

_log = structlog.get_logger("provisioning")

MODELLED_PLAN = Seconds(0.005)
"""CPU seconds a plan costs in simulated time."""
STEP_PATIENCE = Seconds(5.0)
"""Seconds the loop waits for the steps of pools before it plans again without the slower ones."""
UNLISTED_RETRY = Seconds(10.0)
"""Seconds between plans while a cloud has not listed its instances."""
API_RETRY = Seconds(10.0)
"""Seconds after which what the API server failed is decided again. No event tells of a write that was not made."""


class ProvisioningLoop:
    """Loop over all pools. All fact events go to `observe`; `run` goes on until cancelled."""

    def __init__(
        self,
        core: ProvisioningCore,
        statuses: ProvisionerStatuses,
        clouds: InstanceLists,
        actuator: PoolActuator,
        clock: Clock,
        reporter: FleetReporter,
    ) -> None:
        self.core = core
        self.snapshot = core.snapshot
        self.health = LoopHealth("provisioning", clock.steady)
        self._statuses = statuses
        self._clouds = clouds
        self._actuator = actuator
        self._clock = clock
        self._reporter = reporter
        self._settings = core.settings
        self._wakeup = clouds.wakeup
        self._stepping: dict[str, asyncio.Task[bool]] = {}
        """Pools whose step is under way."""
        self._again_at = math.inf
        """Time by the steady clock of a plan that repeats what the API server failed."""
        self.pacing = Pacing(before_run=core.settings.plan_interval)

    def configure(self, settings: Settings) -> None:
        """Take over changed settings."""
        self._settings = settings.provisioning
        self.core.configure(settings)
        self.pacing = Pacing(before_run=settings.provisioning.plan_interval)
        self._wakeup.set()

    @property
    def plan(self) -> FleetPlan | None:
        """Last plan; None while there is no pool."""
        return self.core.planned

    def observe(self, event: FactEvent[Any]) -> None:
        """Apply one fact event to the snapshot, or to the NodeProvisioners."""
        fact = event.new if isinstance(event, Added | Updated) else getattr(event, "old", None)
        if isinstance(fact, NodeProvisioner):
            self._statuses.observe(event)
        else:
            self.snapshot.apply(event)
        if not self._wakeup.is_set and self.core.observe(event):
            self._wakeup.set()

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            await run_reconciler(self, self._wakeup, self._clock, self.health)
        finally:
            for task in self._stepping.values():
                task.cancel()

    async def reconcile(self) -> bool:
        """Run one round over all pools. True if anything was done."""
        # 1. List the instances of the clouds.
        self._again_at = math.inf
        done = self._collect()
        provisioners = list(self._statuses.provisioners.values())
        if not provisioners:
            self.core.rest()
            return done
        wrong = await self._clouds.refresh(provisioners)
        known = [self._pruned(one) for one in provisioners if self._clouds.has_listed(one.provider)]
        await self._adopt(known)
        # 2. Plan all pools.
        now, began = self._clock.now(), self._clock.steady()
        horizons = {one.name: self._clouds.horizon(one.provider) for one in known}
        lists = {name: horizon for name, horizon in horizons.items() if horizon is not None}
        facts = self.core.facts(known, self._instances(), now=now, steady=began, lists=lists)
        plan = await drive(self.core.plan(facts, now=now), self._clock, budget=math.inf)
        self._reporter.planned(plan, Seconds(self._clock.steady() - began))
        await self._clock.charge(MODELLED_PLAN)
        # 3. Perform one step of each pool, and record its outcome.
        done |= await self._step_all(plan)
        nodes = [node for pool in plan.pools.values() for node in pool.nodes]
        self._clouds.moving(done or any(node.upcoming or node.marked_for_deletion or node.departed for node in nodes))
        for one in provisioners:
            if one.provider in wrong and not self._clouds.has_listed(one.provider):
                await self._statuses.write_unready(one.name, wrong[one.provider])
        return done

    @property
    def provisioners(self) -> Iterable[Provisioner]:
        """All NodeProvisioners, as last observed."""
        return self._statuses.provisioners.values()

    async def _step_all(self, plan: FleetPlan) -> bool:
        """Start a step of each idle pool. True if any step that ended within STEP_PATIENCE did something."""
        begun_now = []
        for name, pool in plan.pools.items():
            if name not in self._stepping:
                self._stepping[name] = asyncio.create_task(self._step(pool), name=f"step of {name}")
                begun_now.append(self._stepping[name])
        if not begun_now:
            return False
        _, slow = await asyncio.wait(begun_now, timeout=STEP_PATIENCE)
        for task in slow:
            task.add_done_callback(lambda _: self._wakeup.set())
        return self._collect()

    def _collect(self) -> bool:
        """Remove steps that have ended. True if any did something. Raises what they raised."""
        over = {name: task for name, task in self._stepping.items() if task.done()}
        for name in over:
            del self._stepping[name]
        results = [task.result() for task in over.values()]  # all of them: each may have raised
        return any(results)

    async def _step(self, pool: PoolPlan) -> bool:
        """Perform one pool's step, and write the pool's status."""
        facts, step = pool.provisioner, pool.step
        if step.recommended or not step.actions:
            await self._write(pool, facts)
            return False
        _log.info("step", provisioner=facts.name, kind=step.kind.value, **_named(step.actions), why=step.why)
        if any(isinstance(action, ScaleUp) for action in step.actions):
            return await self._buy(pool)
        outcomes = await self._perform_all(facts, step.actions)
        self._reporter.stepped(facts, outcomes)
        await self._write(pool, self._settled(facts, outcomes))
        return any(isinstance(one, PoolActionDone) for one in outcomes)

    async def _buy(self, pool: PoolPlan) -> bool:
        """Buy nodes. The purchase is recorded before it is made, and again when its outcome is known."""
        (action,) = pool.step.actions
        if not isinstance(action, ScaleUp):
            return False
        facts = self.core.open_purchase(pool.provisioner, action, now=self._clock.now())
        if not await self._write(pool, facts):
            return False
        (outcome,) = self._noted(facts, [await self._actuator.perform(facts, action)])
        self._reporter.stepped(facts, (outcome,))
        facts = self._settled(facts, (outcome,))
        self._clouds.look_again()
        await self._write(pool, facts)
        return isinstance(outcome, NodesLaunched)

    def _settled(self, facts: Provisioner, outcomes: Sequence[PoolOutcome]) -> Provisioner:
        return self.core.settle(facts, outcomes, now=self._clock.now(), steady=self._clock.steady())

    async def _perform_all(self, provisioner: Provisioner, actions: Sequence[PoolIntent]) -> list[PoolOutcome]:
        """Perform intents: deletions in one call, the others node by node."""
        deleted = [action for action in actions if isinstance(action, TerminateInstance)]
        if deleted:
            outcomes = await self._actuator.deprovision(provisioner, deleted)
        else:

            async def perform(action: PoolIntent) -> PoolOutcome:
                return await self._actuator.perform(provisioner, action)

            outcomes = list(await each(actions, perform, at_once=self._settings.max_taint_parallelism))
        return self._noted(provisioner, outcomes)

    def _noted(self, provisioner: Provisioner, outcomes: list[PoolOutcome]) -> list[PoolOutcome]:
        for outcome in outcomes:
            match outcome:
                case PoolActionDone(action=TerminateInstance(instance=instance)) if instance:
                    self._clouds.deleted(instance)
                case PoolActionFailed(action=TerminateInstance(instance=instance), instance_deleted=True):
                    self._clouds.deleted(instance)
                case NodesLaunched(instances=instances):
                    names = some_of([one.id for one in instances])
                    _log.info("bought", provisioner=provisioner.name, nodes=len(instances), names=names)
                case _:
                    pass
            if isinstance(outcome, PoolActionFailed) and outcome.setback is PoolFailure.API_FAILED:
                self._repeat_later()
            if isinstance(outcome, PoolActionFailed | LaunchFailed):
                about = _named([outcome.action])
                kind = type(outcome.action).__name__
                _log.warning("not done", provisioner=provisioner.name, action=kind, **about, why=outcome.detail)
            self._reporter.performed(outcome)
        return outcomes

    async def _write(self, pool: PoolPlan, facts: Provisioner) -> bool:
        unmet = 0 if self.plan is None else self.plan.unmet_by(facts.name)
        trouble = self._clouds.trouble(facts.provider)
        written = await self._statuses.write(pool, facts, trouble=trouble, unmet=unmet)
        if not written:
            self._repeat_later()
        return written

    def _repeat_later(self) -> None:
        self._again_at = self._clock.steady() + API_RETRY

    async def _adopt(self, provisioners: list[Provisioner]) -> None:
        """Label nodes of our instances with the labels of their pool, where those are missing."""
        by_name = {one.name: one for one in provisioners}
        for machine in self._instances():
            node, pool = self.snapshot.state.nodes.get(machine.node), by_name.get(machine.pool)
            stays = machine.state is not InstanceState.STOPPING
            if node is None or pool is None or not stays or PROVISIONER_LABEL in node.labels:
                continue
            try:
                await self._actuator.adopt(pool, node.name, machine.zone)
            except ApiError as error:
                _log.info("a node was not labelled", node=node.name, error=error.message)
                self._repeat_later()

    def _instances(self) -> list[Instance]:
        return with_their_nodes(self._clouds.instances(), self.snapshot)

    def _pruned(self, provisioner: Provisioner) -> Provisioner:
        horizon = self._clouds.horizon(provisioner.provider)
        age = None if horizon is None else Seconds(self._clock.steady() - horizon.until + horizon.staleness)
        return self.core.prune(provisioner, self._clouds.instances(), list_age=age, now=self._clock.now())

    def longest_wait(self) -> float | None:
        """Seconds until the next plan or list is due."""
        waits = []
        if (deadline := self.core.next_deadline()) is not None:
            waits.append(deadline - self._clock.now())
        if (next_list := self._clouds.next_list()) is not None:
            waits.append(next_list - self._clock.steady())
        if any(not self._clouds.has_listed(one.provider) for one in self._statuses.provisioners.values()):
            waits.append(UNLISTED_RETRY)
        if self._again_at != math.inf:
            waits.append(self._again_at - self._clock.steady())
        return min(waits, default=None)


def _named(actions: Sequence[PoolIntent]) -> dict[str, Any]:
    """Log fields of intents: number of nodes, and names."""
    names = [action.node or action.instance for action in actions if isinstance(action, TerminateInstance)]
    names += [action.node for action in actions if isinstance(action, TaintForDeletion | Untaint)]
    count = sum(action.count if isinstance(action, ScaleUp) else 1 for action in actions)
    if not names:
        return {"nodes": count}
    return {"nodes": count, "names": some_of(names)}
