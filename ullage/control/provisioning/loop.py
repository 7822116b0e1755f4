"""Provisioning loop: observe, list, decide, act, record. Runs on a relevant change, at its next deadline, or to list.

Pools do not wait for each other: a slow step goes on concurrently, and its pool gets no other step meanwhile.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import structlog

from ullage.act.concurrency import each
from ullage.act.pools import PoolActuator
from ullage.clock import Clock
from ullage.config.settings import Settings
from ullage.control.provisioning.instance_lists import InstanceLists
from ullage.control.provisioning.restraint import DeleteRestraint
from ullage.control.provisioning.statuses import ProvisionerStatuses
from ullage.decide.provisioning.books import begun, given_up, pruned, settled
from ullage.decide.provisioning.core import is_news
from ullage.decide.provisioning.planner import FleetFacts, FleetPlan, PoolPlan, plan_fleet
from ullage.decide.provisioning.pool_nodes import with_their_nodes
from ullage.decide.provisioning.sightings import Sightings
from ullage.decide.provisioning.waiting import buys_for, waiting_turns
from ullage.decide.provisioning.wording import some_of
from ullage.decide.scheduling.assignment import PodAssigner
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
from ullage.model.pod import Pod
from ullage.model.provisioner import PROVISIONER_LABEL, Provisioner
from ullage.runtime import LoopHealth, Pacing, Wakeup, run_reconciler
from ullage.state.snapshot import ClusterSnapshot

_log = structlog.get_logger("provisioning")

MODELLED_PLAN = 0.005
"""CPU seconds a plan costs in simulated time."""
STEP_PATIENCE = 5.0
"""Seconds the loop waits for the steps of pools before it plans again without the slower ones."""
UNLISTED_RETRY = 10.0
"""Seconds between plans while a cloud has not listed its instances."""
LEFT_GRACE = 60.0
"""Seconds for which a GPU whose pod is gone and whose Lease remains counts as free: it is about to be freed.

A GPU that is held for longer is in quarantine, and pending pods need another.
"""


class ProvisioningLoop:
    """Loop over all pools. All fact events go to `hear`; `run` goes on until cancelled."""

    def __init__(
        self,
        statuses: ProvisionerStatuses,
        clouds: InstanceLists,
        hands: PoolActuator,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self.placements = ClusterSnapshot()
        self.leases = self.placements.leases
        self.plan: FleetPlan | None = None
        self.health = LoopHealth("provisioning", clock.steady)
        self.on_outcome: Callable[[PoolOutcome], None] = lambda _: None
        self.on_step: Callable[[Provisioner, Sequence[PoolOutcome]], None] = lambda *_: None
        self.on_planned: Callable[[float], None] = lambda _: None
        """Called with the seconds a plan took."""
        self.on_plan: Callable[[FleetPlan], None] = lambda _: None
        self._assigner = PodAssigner(self.placements)
        self._statuses = statuses
        self._clouds = clouds
        self._hands = hands
        self._clock = clock
        self._settings = settings.provisioning
        self._wakeup = Wakeup()
        clouds.on_change = self._wakeup.set
        self._sightings = Sightings()
        self._restraint = DeleteRestraint()
        self._stepping: dict[str, asyncio.Task[bool]] = {}
        """Pools whose step is under way."""
        self._protected: dict[str, float] = {}
        """Protected nodes, each with the instant until which it is, by the monotonic clock."""
        self._buys_for = buys_for(settings.scheduler_names)
        self.pacing = Pacing(before_run=settings.provisioning.plan_interval)

    def configure(self, settings: Settings) -> None:
        """Take over changed settings."""
        self._settings = settings.provisioning
        self.pacing = Pacing(before_run=settings.provisioning.plan_interval)
        self._wakeup.set()

    def hear(self, event: FactEvent[Any]) -> None:
        """Apply one fact event."""
        fact = event.new if isinstance(event, Added | Updated) else getattr(event, "old", None)
        if isinstance(fact, NodeProvisioner):
            self._statuses.hear(event)
        else:
            self.placements.apply(event)
        if not self._wakeup.is_set and is_news(event):
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
        done = self._collect()
        provisioners = list(self._statuses.provisioners.values())
        if not provisioners:
            self.plan = None
            return done
        wrong = await self._clouds.refresh(provisioners)
        known = [self._pruned(one) for one in provisioners if self._clouds.has_listed(one.provider)]
        await self._adopt(known)
        # 2. Plan all pools.
        began = self._clock.steady()
        self.plan = plan = self._decided(known)
        self.on_planned(self._clock.steady() - began)
        self.on_plan(plan)
        await self._clock.charge(MODELLED_PLAN)
        # 3. Perform one step of each pool, and record its outcome.
        done |= await self._step_all(plan)
        nodes = [node for pool in plan.pools.values() for node in pool.nodes]
        self._clouds.moving(done or any(node.coming or node.doomed or node.departed for node in nodes))
        for one in provisioners:
            if one.provider in wrong and not self._clouds.has_listed(one.provider):
                await self._statuses.write_unready(one.name, wrong[one.provider])
        return done

    def _decided(self, provisioners: list[Provisioner]) -> FleetPlan:
        now, steady = self._clock.now(), self._clock.steady()
        self._protected = {node: until for node, until in self._protected.items() if until > steady}
        instances = self._instances()
        deletes = {one.name: self._restraint.seconds(one.name, one.provider, steady=steady) for one in provisioners}
        fleet = FleetFacts(
            provisioners=provisioners,
            instances=instances,
            protected=frozenset(self._protected),
            budget=self._settings.budget,
            seen=self._sightings.look(provisioners, instances, self.placements.state, now=now, steady=steady),
            deletes_at={name: now + seconds for name, seconds in deletes.items() if seconds},
        )
        left = self._sightings.new_holders(self.leases.left, steady=steady, within=LEFT_GRACE)
        with self.leases.lifted(left):
            return plan_fleet(self._assigner.seating, fleet, waiting_turns(self._assigner, self._counts), now=now)

    def _counts(self, pod: Pod) -> bool:
        """True if nodes are bought for this pod. Not for one that holds its GPUs already: its bind is under way."""
        return self._buys_for(pod) and not self.leases.holds(pod.uid)

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
        self.on_step(facts, outcomes)
        never, departed = _given_up(outcomes)
        if never or departed:
            facts = given_up(facts, never, departed, now=self._clock.now())
        await self._write(pool, facts)
        return any(isinstance(one, PoolActionDone) for one in outcomes)

    async def _buy(self, pool: PoolPlan) -> bool:
        """Buy nodes. The purchase is recorded before it is made, and again when its outcome is known."""
        (action,) = pool.step.actions
        if not isinstance(action, ScaleUp):
            return False
        facts = begun(pool.provisioner, action, now=self._clock.now())
        if not await self._write(pool, facts):
            return False
        (outcome,) = self._noted(facts, [await self._hands.perform(facts, action)])
        self.on_step(facts, (outcome,))
        if isinstance(outcome, NodesLaunched | LaunchFailed):
            facts = settled(facts, outcome, now=self._clock.now())
        self._clouds.look_again()
        await self._write(pool, facts)
        return isinstance(outcome, NodesLaunched)

    async def _perform_all(self, provisioner: Provisioner, actions: Sequence[PoolIntent]) -> list[PoolOutcome]:
        """Perform intents: deletions in one call, the others node by node."""
        deleted = [action for action in actions if isinstance(action, TerminateInstance)]
        if deleted:
            outcomes = await self._hands.deprovision(provisioner, deleted)
            self._restraint.learn(provisioner.name, provisioner.provider, outcomes, steady=self._clock.steady())
        else:

            async def perform(action: PoolIntent) -> PoolOutcome:
                return await self._hands.perform(provisioner, action)

            outcomes = list(await each(actions, perform, at_once=self._settings.max_taint_parallelism))
        return self._noted(provisioner, outcomes)

    def _noted(self, provisioner: Provisioner, outcomes: list[PoolOutcome]) -> list[PoolOutcome]:
        for outcome in outcomes:
            match outcome:
                case PoolActionDone(action=TerminateInstance(instance=instance)):
                    self._clouds.deleted(instance)
                case NodesLaunched(instances=instances):
                    names = some_of([one.id for one in instances])
                    _log.info("bought", provisioner=provisioner.name, nodes=len(instances), names=names)
                case PoolActionFailed(setback=PoolFailure.PROTECTED):
                    self._protected[outcome.action.node] = (
                        self._clock.steady() + self._settings.protected_recheck_timeout
                    )
                case _:
                    pass
            if isinstance(outcome, PoolActionFailed | LaunchFailed):
                about = _named([outcome.action])
                kind = type(outcome.action).__name__
                _log.warning("not done", provisioner=provisioner.name, action=kind, **about, why=outcome.detail)
            self.on_outcome(outcome)
        return outcomes

    async def _write(self, pool: PoolPlan, facts: Provisioner) -> bool:
        unmet = 0 if self.plan is None else self.plan.unmet_by(facts.name)
        return await self._statuses.write(pool, facts, trouble=self._clouds.trouble(facts.provider), unmet=unmet)

    async def _adopt(self, provisioners: list[Provisioner]) -> None:
        """Label nodes of our instances with the labels of their pool, where those are missing."""
        by_name = {one.name: one for one in provisioners}
        for machine in self._instances():
            node, pool = self.placements.state.nodes.get(machine.node), by_name.get(machine.pool)
            stays = machine.state is not InstanceState.STOPPING
            if node is None or pool is None or not stays or PROVISIONER_LABEL in node.labels:
                continue
            try:
                await self._hands.adopt(pool, node.name, machine.zone)
            except ApiError as error:
                _log.info("a node was not labelled", node=node.name, error=error.message)

    def _instances(self) -> list[Instance]:
        return with_their_nodes(self._clouds.instances(), self.placements)

    def _pruned(self, provisioner: Provisioner) -> Provisioner:
        listed = {one.id for one in self._clouds.instances()}
        staleness = self._clouds.provider(provisioner.provider).staleness
        return pruned(provisioner, listed, staleness=staleness, now=self._clock.now())

    def longest_wait(self) -> float | None:
        """Seconds until the next plan or list is due."""
        waits = []
        if self.plan is not None and self.plan.wake_at is not None:
            waits.append(self.plan.wake_at - self._clock.now())
        if (next_list := self._clouds.next_list()) is not None:
            waits.append(next_list - self._clock.steady())
        if any(not self._clouds.has_listed(one.provider) for one in self._statuses.provisioners.values()):
            waits.append(UNLISTED_RETRY)
        return min(waits, default=None)


def _given_up(outcomes: Iterable[PoolOutcome]) -> tuple[set[str], set[str]]:
    """Instances given up: those that failed to register, and those whose Node was deleted."""
    lost = [
        one.action for one in outcomes if isinstance(one, PoolActionDone) and isinstance(one.action, TerminateInstance)
    ]
    never = {action.instance for action in lost if action.lost and not action.departed}
    return never, {action.instance for action in lost if action.lost and action.departed}


def _named(actions: Sequence[PoolIntent]) -> dict[str, Any]:
    """Log fields of intents: number of nodes, and names."""
    names = [action.node or action.instance for action in actions if isinstance(action, TerminateInstance)]
    names += [action.node for action in actions if isinstance(action, TaintForDeletion | Untaint)]
    count = sum(action.count if isinstance(action, ScaleUp) else 1 for action in actions)
    if not names:
        return {"nodes": count}
    return {"nodes": count, "names": some_of(names)}
