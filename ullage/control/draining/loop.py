"""Drain loop: scope, plan, soft taints, begin removals. Each removal runs in its own task; the loop waits for none."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import structlog

from ullage.act.concurrency import each
from ullage.act.node_removal import NodeRemover
from ullage.clock import Clock
from ullage.control.clock_jumps import ClockJumps
from ullage.control.draining.deciding import DrainDecision, Known, decide
from ullage.control.draining.settings import DrainingSettings
from ullage.control.draining.witness import Ground, Witness
from ullage.decide.draining.eligibility import is_draining
from ullage.decide.draining.estate import DrainScope, ScopeInputs, is_drained, survey
from ullage.decide.draining.evictions import behind, missing_at_start
from ullage.decide.draining.inputs import FRESH
from ullage.decide.draining.ledger import NodeDeletionTracker
from ullage.decide.draining.news import is_news
from ullage.decide.draining.parallelism import NOBODY, RemovalBatch, pool_of
from ullage.decide.draining.promising import promise_of
from ullage.decide.draining.unneeded import marks, with_clock_set, without_timer
from ullage.decide.draining.workloads import WorkloadIndex
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.errors import ApiError
from ullage.model.drain_outcome import DrainOutcome, NodeNotRemoved, NodeRemoved, RemovalFailure
from ullage.model.drain_promise import PlanViolation, RemovalPlan
from ullage.model.draining import CANDIDATE_TAINT, DrainAction, MarkDeletionCandidate
from ullage.model.fact_event import FactEvent
from ullage.model.node import Node
from ullage.model.provisioner import Provisioner
from ullage.runtime import LoopHealth

_log = structlog.get_logger("draining")

MODELLED_PLAN, MODELLED_NODE = 0.005, 0.0002
"""CPU seconds of a plan in simulated time: fixed, and per node."""
THINKS_AT_MOST = 5.0
"""Rest after a loop, as a multiple of the time it took."""
UNHEARD_PATIENCE = 60.0
"""Seconds after a start during which removals of an earlier process wait for the cloud's list before untainting."""
LOOK_AGAIN = 10.0
"""Seconds between loops while a cloud has not listed its instances."""


class DrainLoop:
    """Drains all pools with draining on. Every fact event goes to `hear`; `run` runs until cancelled."""

    def __init__(self, ground: Ground, clock: Clock, settings: DrainingSettings) -> None:
        self.decided: DrainDecision | None = None
        """Last decision; None while nothing could be removed."""
        self.ledger = NodeDeletionTracker(evictions_kept=settings.policy.evictions_kept)
        self.hands: NodeRemover
        """Actuator, set by the wiring, because it asks the loop's `witness`."""
        self.health = LoopHealth("draining", clock.steady)
        self.workloads = WorkloadIndex()
        self.witness = Witness(ground, self.ledger, self.workloads, clock, settings)
        """Answers for the NodeRemover; the wiring passes it on."""
        self.on_planned: Callable[[float], None] = lambda _: None
        self.on_begun: Callable[[RemovalPlan], None] = lambda _: None
        self.on_outcome: Callable[[DrainOutcome, float], None] = lambda *_: None
        """Called with the outcome and the seconds the removal took."""
        self.on_provisioner: Callable[[Provisioner], None] = lambda _: None
        self._ground = ground
        self._clock = clock
        self._settings = settings
        self._assigner = PodAssigner(ground.placements)
        self._memory = FRESH
        self._news = asyncio.Event()
        self._group: asyncio.TaskGroup
        self._jumps = ClockJumps(clock)
        self._started = 0.0
        self._heard_at = float("-inf")

    def hear(self, event: FactEvent[Any]) -> None:
        """Observe one fact event, after the snapshot has changed."""
        self.workloads.hear(event)
        if self._news.is_set() or is_news(event):
            self._heard_at = self._clock.now()
            self._news.set()

    async def run(self) -> None:
        """Run until cancelled. Removals under way are cancelled, too: the next process resumes or abandons them."""
        self._started = self._clock.steady()
        missing = missing_at_start(self.workloads.by_uid, self._ground.placements)
        self.ledger.restore(missing, at=self._clock.now())
        async with asyncio.TaskGroup() as self._group:
            while True:
                self._news.clear()
                began = self._clock.steady()
                with self.health.round():
                    await self.turn()
                took = self._clock.steady() - began
                await asyncio.sleep(max(self._settings.pause, THINKS_AT_MOST * took))
                await self._wait()

    async def turn(self) -> None:
        """Run one loop over all nodes."""
        if jump := self._jumps.last():
            _log.warning("the clock was set: timers go on as if it had not been", seconds=round(jump))
            self._memory = with_clock_set(self._memory, jump)
            self.ledger.clock_was_set(jump)
        # 1. Drain scope.
        provisioners = list(self._ground.statuses.provisioners.values())
        for one in provisioners:
            self.on_provisioner(one)
        if any(map(is_drained, provisioners)):
            await self._ground.clouds.refresh(provisioners)
        unnoticed = behind(self.ledger.evictions, self.workloads.by_uid, self._ground.placements)
        self.ledger.forget(self._nodes, unnoticed=unnoticed, now=self._clock.now())
        estate = self._surveyed(provisioners)
        left = self._left_behind()
        if not (estate.candidates or estate.unheard or left or self.ledger.busy or self._marked()):
            self.decided = None
            self._memory = FRESH
            await self._tell_throttling(provisioners, NOBODY)
            return
        # 2. Plan, and due removals.
        began = self._clock.steady()
        self.decided = decided = self._decide(provisioners, estate, left)
        self._memory = decided.memory
        promises = [promise_of(action, self._assigner) for action in decided.turns.removals]
        self.on_planned(self._clock.steady() - began)
        await self._clock.charge(MODELLED_PLAN + MODELLED_NODE * len(self._nodes))
        # 3. Abandon removals of an earlier process that are not resumed; soft taints; taints of removals that begin.
        going = {one.node for one in promises}
        self._let_go(left - going, estate)
        await self._mark(going | estate.unheard)
        await each(promises, self._begin, at_once=self._settings.at_once)
        await self._tell_throttling(provisioners, decided.turns)

    @property
    def _nodes(self) -> Mapping[str, Node]:
        return self._ground.placements.state.nodes

    def _surveyed(self, provisioners: Sequence[Provisioner]) -> DrainScope:
        owners = ScopeInputs(
            provisioners=provisioners,
            instances=self._ground.instances(),
            listed=[one.provider for one in provisioners if self._ground.clouds.has_listed(one.provider)],
            unmanaged=self._settings.unmanaged,
        )
        return survey(owners, self._ground.placements, removing=self.ledger.busy, now=self._clock.now())

    @property
    def _tainted(self) -> Mapping[str, Node]:
        return self._ground.placements.state.tainted_nodes

    def _left_behind(self) -> set[str]:
        """Nodes with the draining taint and no removal or cleanup under way."""
        return {name for name, node in self._tainted.items() if is_draining(node)} - self.ledger.busy

    def _marked(self) -> bool:
        return any(taint.key == CANDIDATE_TAINT for node in self._tainted.values() for taint in node.taints)

    def _decide(self, provisioners: Sequence[Provisioner], estate: DrainScope, left: set[str]) -> DrainDecision:
        known = Known(
            provisioners=provisioners,
            estate=estate,
            ledger=self.ledger,
            left=frozenset(left),
            workloads=self.workloads.by_uid,
            workload_kinds=self.workloads.kinds,
        )
        return decide(self._assigner, known, self._memory, self._settings, self._clock)

    def _let_go(self, left: set[str], estate: DrainScope) -> None:
        """Abandon removals that are not resumed: untaint the node, or delete its Node if its instance is gone."""
        waits_for_clouds = self._clock.steady() - self._started < UNHEARD_PATIENCE
        for name in sorted(left):
            node = self._nodes.get(name)
            if node is None or (name in estate.unheard and waits_for_clouds) or self._fate_is_unknown(node):
                continue
            if pool_of(node) in estate.floors and name not in estate.machines:
                _log.info("its machine is gone", node=name)
                self._beside(name, self.hands.finish(name, node.uid))
            else:
                _log.info("let go", node=name)
                still = name in (self._memory.since or {})
                self._beside(name, self.hands.let_go(name, node.uid, still_candidate=still))

    def _fate_is_unknown(self, node: Node) -> bool:
        """True if the cloud may have deleted the instance and was not listed since: the node must take no pods."""
        since = self.ledger.unknown.get(node.name)
        pool = self._ground.statuses.provisioners.get(pool_of(node))
        if since is None or pool is None or self._ground.clouds.listed_after(pool.provider, since):
            self.ledger.machine_known(node.name)
            return False
        return True

    def _beside(self, node: str, work: Coroutine[Any, Any, None]) -> None:
        async def done() -> None:
            try:
                await work
            finally:
                self.ledger.has_let_go(node)
            self._news.set()

        self.ledger.letting_go(node)
        self._group.create_task(done(), name=f"let go of {node}")

    async def _mark(self, leave: set[str] | frozenset[str]) -> None:
        """Write and remove soft taints. A failed write is tried again in the next loop."""
        since = self._memory.since or {}
        alone = leave | self.ledger.busy
        actions = marks(since, self._nodes, leave=alone, most=self._settings.most_marks)
        await each(actions, self._mark_one, at_once=self._settings.at_once)

    async def _mark_one(self, action: DrainAction) -> None:
        node = self._nodes.get(action.node)
        if node is None:
            return
        taints = self.hands.taints
        try:
            if isinstance(action, MarkDeletionCandidate):
                await taints.mark(node.name, node.uid, action.since)
            else:
                await taints.unmark(node.name, node.uid)
        except ApiError as error:
            _log.info("a soft taint was not written", node=node.name, error=error.message)
            self._news.set()

    async def _begin(self, promise: RemovalPlan) -> None:
        """Taint the node, then start the task that does the rest."""
        action = promise.action
        _log.info("remove", node=action.node, pods=len(action.evict), why=action.why)
        self.ledger.begin(promise, pool_of(self._nodes.get(action.node)))
        try:
            objection = await self.hands.begin(promise)
        except BaseException:
            self.ledger.end(action.node)
            raise
        if objection is not None and objection.setback is RemovalFailure.BUDGET_SPENT:
            _log.info("not begun", node=action.node, why=objection.detail)
            self.ledger.end(action.node)
            self._news.set()
            return
        self._group.create_task(self._carry_out(promise, objection), name=f"remove {action.node}")

    async def _carry_out(self, promise: RemovalPlan, objection: PlanViolation | None) -> None:
        began, node = self._clock.steady(), promise.node
        try:
            if objection is None:
                self.on_begun(promise)
                outcome: DrainOutcome = await self.hands.remove(promise)
            else:
                outcome = await self.hands.give_up(promise, objection)
        finally:
            self.ledger.end(node)
        match outcome:
            case NodeNotRemoved():
                _log.warning("not removed", node=node, reason=outcome.setback.value, why=outcome.detail)
                if outcome.setback is not RemovalFailure.BUDGET_SPENT:
                    until = self._clock.now() + self._settings.after_failure
                    self.ledger.fail(node, f"{outcome.setback.value}: {outcome.detail}", until=until)
                    self._memory = without_timer(self._memory, node)
                if outcome.setback is RemovalFailure.CLOUD_FAILED:
                    self.ledger.machine_unknown(node, since=self._clock.steady())
                    self._ground.clouds.look_again()  # does the instance still exist?
            case NodeRemoved(instance=instance):
                _log.info("removed", node=node, evicted=outcome.evicted, left_to_owner=outcome.left_to_owner)
                if instance:
                    self._ground.clouds.deleted(instance)
        self.on_outcome(outcome, self._clock.steady() - began)
        self._news.set()

    async def _tell_throttling(self, provisioners: Sequence[Provisioner], found: RemovalBatch) -> None:
        for one in provisioners:
            throttled = is_drained(one) and one.name in found.throttled
            if not await self._ground.statuses.write_throttled(one.name, throttled, said=is_drained(one)):
                self._news.set()

    async def _wait(self) -> None:
        """Wait for an event that can change the plan, or the next deadline."""
        now = self._clock.now()
        moments = [self.ledger.next_moment()]
        if self.decided is not None:
            moments.append(self.decided.wake_at)
            # A node refused on all that is known is refused again until an event comes.
            recheck, refused = self._settings.policy.recheck, self._memory.refused.values()
            moments += [at + recheck for at, _ in refused if at <= self._heard_at]
            moments.append(now + LOOK_AGAIN if self.decided.estate.unheard else None)
        deadline = min((moment for moment in moments if moment is not None), default=None)
        try:
            async with asyncio.timeout(None if deadline is None else max(0.0, deadline - now)):
                await self._news.wait()
        except TimeoutError:
            return
