"""Drain loop: scope, plan, soft taints, begin removals. Each removal runs in its own task; the loop waits for none."""

import math
from collections.abc import Coroutine, Sequence
from typing import Any

import structlog

from ullage.act.concurrency import each
from ullage.clock import Clock
from ullage.config.settings import DrainingSettings
from ullage.config.vms import VmSettings
from ullage.control.clock_jumps import ClockJumps
from ullage.control.draining.removal import NodeRemoval
from ullage.control.draining.removal_facts import FleetSources
from ullage.control.draining.reporter import DrainReporter
from ullage.decide.draining.core import DrainCore
from ullage.decide.draining.parallelism import NO_REMOVALS, RemovalBatch, pool_of
from ullage.decide.draining.scope import DrainScope, ScopeInputs, is_drained
from ullage.errors import ApiError
from ullage.model.fact_event import FactEvent
from ullage.model.intents import DrainIntent, MarkDeletionCandidate
from ullage.model.node import Node
from ullage.model.outcomes import DrainOutcome, NodeNotRemoved, NodeRemoved, RemovalFailure
from ullage.model.provisioner import Provisioner
from ullage.model.removal_plan import PlanViolation, RemovalPlan
from ullage.model.units import Seconds
from ullage.runtime import LoopHealth, LoopTasks, Pacing, Wakeup, drive, run_reconciler, seconds_until

_log = structlog.get_logger("draining")

REST_FACTOR = Seconds(5.0)
"""Rest after a loop, as a multiple of the time it took."""
UNLISTED_PATIENCE = Seconds(60.0)
"""Seconds after a start during which removals of an earlier process wait for the cloud's list before untainting."""


class DrainLoop:
    """Drains all pools with draining on. Every fact event goes to `observe`; `run` runs until cancelled."""

    def __init__(
        self,
        core: DrainCore,
        fleet: FleetSources,
        removal: NodeRemoval,
        reporter: DrainReporter,
        clock: Clock,
        settings: DrainingSettings,
    ) -> None:
        self.core = core
        self.health = LoopHealth("draining", clock.steady)
        self._fleet = fleet
        self._removal = removal
        self._remover = removal.remover
        self._reporter = reporter
        self._clock = clock
        self._settings = settings
        self._wakeup = Wakeup()
        self._tasks = LoopTasks()
        self._jumps = ClockJumps(clock)
        self._started = 0.0

    def configure(self, settings: DrainingSettings, vms: VmSettings) -> None:
        """Take over changed settings, and plan by them."""
        self._settings = settings
        self.core.configure(settings, vms)
        self._removal.configure(settings, vms)
        self._wakeup.set()

    def observe(self, event: FactEvent[Any]) -> None:
        """Observe one fact event, after the snapshot has changed."""
        if self.core.observe(event, now=self._clock.now()):
            self._wakeup.set()

    @property
    def pacing(self) -> Pacing:
        return Pacing(after_run=self._settings.scan_interval, rest_factor=REST_FACTOR)

    def longest_wait(self) -> float | None:
        """Seconds until a plan can change without an event."""
        now = self._clock.now()
        return seconds_until(self.core.next_deadline(now=now), now)

    async def run(self) -> None:
        """Run until cancelled. Removals under way are cancelled, too: the next process resumes or abandons them."""
        self._started = self._clock.steady()
        self.core.start(now=self._clock.now())
        async with self._tasks:
            await run_reconciler(self, self._wakeup, self._clock, self.health)

    async def reconcile(self) -> bool:
        """Run one loop over all nodes. False: the next one waits for a change or a deadline."""
        if jump := self._jumps.last():
            _log.warning("the clock was set: timers go on as if it had not been", seconds=round(jump))
            self.core.clock_was_set(Seconds(jump))
        # 1. Drain scope.
        provisioners = list(self._fleet.statuses.provisioners.values())
        for one in provisioners:
            self._reporter.provisioner(one)
        if any(map(is_drained, provisioners)):
            await self._fleet.clouds.refresh(provisioners)
        await drive(self.core.warm_up(), self._clock, budget=math.inf)
        scoping = self.core.scope_in_steps(self._owners(provisioners), now=self._clock.now())
        scope = await drive(scoping, self._clock, budget=math.inf)
        if not self.core.has_work(scope):
            self.core.rest()
            await self._write_throttling(provisioners, NO_REMOVALS)
            return False
        # 2. Plan, and due removals.
        began, abandoned = self._clock.steady(), self.core.abandoned
        steps = self.core.plan(provisioners, scope, now=self._clock.now())
        decided = await drive(steps, self._clock, budget=self._settings.simulation_timeout)
        self._reporter.planned(self._clock.steady() - began)
        # 3. Abandon removals of an earlier process that are not resumed; soft taints; taints of removals that begin.
        going = frozenset(one.node for one in decided.removals)
        self._release(abandoned - going, scope)
        await each(
            self.core.soft_taints(going | scope.unlisted), self._mark, at_once=self._settings.max_node_write_parallelism
        )
        await each(decided.removals, self._begin, at_once=self._settings.max_node_write_parallelism)
        await self._write_throttling(provisioners, decided.batch)
        return False

    def _owners(self, provisioners: Sequence[Provisioner]) -> ScopeInputs:
        clouds = self._fleet.clouds
        return ScopeInputs(
            provisioners=provisioners,
            instances=self._fleet.instances(),
            listed=[one.provider for one in provisioners if clouds.has_listed(one.provider)],
            unmanaged=self._settings.drain_unmanaged,
        )

    def _release(self, abandoned: frozenset[str], scope: DrainScope) -> None:
        """Abandon removals that are not resumed: untaint the node, or delete its Node if its instance is gone."""
        waits_for_clouds = self._clock.steady() - self._started < UNLISTED_PATIENCE
        for name in sorted(abandoned):
            node = self.core.nodes.get(name)
            if node is None or (name in scope.unlisted and waits_for_clouds) or self._fate_is_unknown(node):
                continue
            if pool_of(node) in scope.minimums and name not in scope.machines:
                _log.info("its machine is gone", node=name)
                self._beside(name, self._remover.delete_node(name, node.uid))
            else:
                _log.info("removal abandoned, taints removed", node=name)
                still = name in self.core.unneeded_since
                self._beside(name, self._remover.release(name, node.uid, still_candidate=still))

    def _fate_is_unknown(self, node: Node) -> bool:
        """True if the cloud may have deleted the instance and was not listed since: the node must take no pods."""
        tracker = self.core.tracker
        since = tracker.unknown.get(node.name)
        pool = self._fleet.statuses.provisioners.get(pool_of(node))
        if since is None or pool is None or self._fleet.clouds.listed_after(pool.provider, since):
            tracker.machine_known(node.name)
            return False
        return True

    def _beside(self, node: str, work: Coroutine[Any, Any, None]) -> None:
        tracker = self.core.tracker

        async def done() -> None:
            try:
                await work
            finally:
                tracker.released(node)
            self._wakeup.set()

        tracker.releasing(node)
        self._tasks.start(done(), name=f"release {node}")

    async def _mark(self, action: DrainIntent) -> None:
        """Write or remove a soft taint. A failed write is tried again in the next loop."""
        node = self.core.nodes.get(action.node)
        if node is None:
            return
        taints = self._remover.taints
        try:
            if isinstance(action, MarkDeletionCandidate):
                await taints.mark(node.name, node.uid, action.since)
            else:
                await taints.unmark(node.name, node.uid)
        except ApiError as error:
            _log.info("a soft taint was not written", node=node.name, error=error.message)
            self._wakeup.set()

    async def _begin(self, plan: RemovalPlan) -> None:
        """Taint the node, then start the task that does the rest."""
        self._reporter.intended(plan.intent)
        self.core.begin(plan)
        try:
            violation = await self._removal.begin(plan)
        except BaseException:
            self.core.tracker.end(plan.node)
            raise
        if violation is not None and violation.waits_for_budget:
            self._reporter.not_begun(plan, violation)
            self.core.tracker.end(plan.node)
            self._wakeup.set()
            return
        self._tasks.start(self._carry_out(plan, violation), name=f"remove {plan.node}")

    async def _carry_out(self, plan: RemovalPlan, violation: PlanViolation | None) -> None:
        began = self._clock.steady()
        try:
            if violation is None:
                self._reporter.begun(plan)
                outcome: DrainOutcome = await self._removal.finish(plan)
            else:
                outcome = await self._removal.abandon(plan, violation)
        except BaseException:
            self.core.tracker.end(plan.node)
            raise
        self.core.settle(outcome, now=self._clock.now(), steady=self._clock.steady())
        match outcome:
            case NodeRemoved(instance=instance) if instance:
                self._fleet.clouds.deleted(instance)
            case NodeNotRemoved(failure=RemovalFailure.CLOUD_FAILED):
                self._fleet.clouds.look_again()  # does the instance still exist?
            case _:
                pass
        self._reporter.ended(outcome, self._clock.steady() - began)
        self._wakeup.set()

    async def _write_throttling(self, provisioners: Sequence[Provisioner], found: RemovalBatch) -> None:
        for one in provisioners:
            throttled = is_drained(one) and one.name in found.throttled
            if not await self._fleet.statuses.write_throttled(one.name, throttled, said=is_drained(one)):
                self._wakeup.set()
