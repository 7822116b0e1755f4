"""The drain loop: survey, plan, mark, begin. Removals run beside it, each in its own task; it never waits for them."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import structlog

from ullage.act.drain import DrainHands
from ullage.act.together import each
from ullage.clock import Clock
from ullage.control.draining.deciding import Decided, Known, decide
from ullage.control.draining.ledger import Ledger
from ullage.control.draining.news import is_news
from ullage.control.draining.promising import promise_of
from ullage.control.draining.settings import DrainingSettings
from ullage.control.draining.witness import Ground, Witness
from ullage.control.draining.workloads import Workloads
from ullage.decide.assigning import Assigner
from ullage.decide.drain.eligibility import is_draining
from ullage.decide.drain.estate import Estate, Owners, is_drained, survey
from ullage.decide.drain.facts import FRESH
from ullage.decide.drain.timers import marks
from ullage.decide.drain.turns import NOBODY, Turns, pool_of
from ullage.errors import ApiError
from ullage.model.drain import CANDIDATE_TAINT, DrainAction, MarkCandidate
from ullage.model.drain_outcome import DrainOutcome, DrainSetback, NodeGone, NodeStays
from ullage.model.drain_promise import Objection, Promise
from ullage.model.event import Event
from ullage.model.node import Node
from ullage.model.provisioner import Provisioner

_log = structlog.get_logger("draining")

MODELLED_PLAN, MODELLED_NODE = 0.005, 0.0002
"""CPU seconds a plan costs in simulated time, and each node in it."""
THINKS_AT_MOST = 5.0
"""Times as long as a plan took, it rests."""
UNHEARD_PATIENCE = 60.0
"""Seconds after a start, for which a cloud is waited for before nodes that were left being drained are let go."""
LOOK_AGAIN = 10.0
"""Seconds, while a cloud does not answer."""


class DrainingLoop:
    """Drains all pools that are to be. Everything heard goes to `hear`; `run` goes on until cancelled."""

    def __init__(self, ground: Ground, clock: Clock, settings: DrainingSettings) -> None:
        self.decided: Decided | None = None
        """The last answers; None while nothing could be removed."""
        self.ledger = Ledger(evictions_kept=settings.policy.evictions_kept)
        self.hands: DrainHands
        """Given by whoever puts things together: they ask the loop back."""
        self.workloads = Workloads()
        self.witness = Witness(ground, self.ledger, self.workloads, clock, settings)
        """For whoever makes the hands."""
        self.on_planned: Callable[[float], None] = lambda _: None
        self.on_begun: Callable[[Promise], None] = lambda _: None
        self.on_outcome: Callable[[DrainOutcome, float], None] = lambda *_: None
        """Told how long it took."""
        self.on_provisioner: Callable[[Provisioner], None] = lambda _: None
        self._ground = ground
        self._clock = clock
        self._settings = settings
        self._assigner = Assigner(ground.placements)
        self._memory = FRESH
        self._news = asyncio.Event()
        self._group: asyncio.TaskGroup
        self._started = 0.0
        self._heard_at = float("-inf")

    def hear(self, event: Event[Any]) -> None:
        """One thing that was heard, after the picture has changed."""
        self.workloads.hear(event)
        if self._news.is_set() or is_news(event):
            self._heard_at = self._clock.now()
            self._news.set()

    async def run(self) -> None:
        """Until cancelled. With it end removals under way: whoever comes next goes on with them, or lets go."""
        self._started = self._clock.steady()
        async with asyncio.TaskGroup() as self._group:
            while True:
                self._news.clear()
                began = self._clock.steady()
                await self.turn()
                took = self._clock.steady() - began
                await asyncio.sleep(max(self._settings.pause, THINKS_AT_MOST * took))
                await self._wait()

    async def turn(self) -> None:
        """One loop over all nodes."""
        # 1. What may be drained at all.
        provisioners = list(self._ground.statuses.provisioners.values())
        for one in provisioners:
            self.on_provisioner(one)
        if any(map(is_drained, provisioners)):
            await self._ground.clouds.refresh(provisioners)
        self.ledger.forget(self._nodes, now=self._clock.now())
        estate = self._surveyed(provisioners)
        left = self._left_behind()
        if not (estate.candidates or estate.unheard or left or self.ledger.busy or self._marked()):
            self.decided = None
            self._memory = FRESH
            await self._tell_throttling(provisioners, NOBODY)
            return
        # 2. What can go, and whose turn it is.
        began = self._clock.steady()
        self.decided = decided = self._decide(provisioners, estate, left)
        self._memory = decided.memory
        promises = [promise_of(action, self._assigner) for action in decided.turns.removals]
        self.on_planned(self._clock.steady() - began)
        await self._clock.charge(MODELLED_PLAN + MODELLED_NODE * len(self._nodes))
        # 3. Nodes that were left behind and do not go on; soft taints; and the taints of those who go now.
        going = {one.node for one in promises}
        self._let_go(left - going, estate)
        await self._mark(going | estate.unheard)
        await each(promises, self._begin, at_once=self._settings.at_once)
        await self._tell_throttling(provisioners, decided.turns)

    @property
    def _nodes(self) -> Mapping[str, Node]:
        return self._ground.placements.state.nodes

    def _surveyed(self, provisioners: Sequence[Provisioner]) -> Estate:
        owners = Owners(
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
        """Nodes that are being drained, by their taint, and nobody works on them."""
        return {name for name, node in self._tainted.items() if is_draining(node)} - self.ledger.busy

    def _marked(self) -> bool:
        return any(taint.key == CANDIDATE_TAINT for node in self._tainted.values() for taint in node.taints)

    def _decide(self, provisioners: Sequence[Provisioner], estate: Estate, left: set[str]) -> Decided:
        known = Known(
            provisioners=provisioners,
            estate=estate,
            ledger=self.ledger,
            left=frozenset(left),
            workloads=self.workloads.by_uid,
            workload_kinds=self.workloads.kinds,
        )
        return decide(self._assigner, known, self._memory, self._settings, self._clock)

    def _let_go(self, left: set[str], estate: Estate) -> None:
        """Nobody goes on with these: they take pods again, or are deleted if their machine is gone already."""
        waits_for_clouds = self._clock.steady() - self._started < UNHEARD_PATIENCE
        for name in sorted(left):
            node = self._nodes.get(name)
            if node is None or (name in estate.unheard and waits_for_clouds):
                continue
            if pool_of(node) in estate.floors and name not in estate.machines:
                _log.info("its machine is gone", node=name)
                self._beside(name, self.hands.finish(name, node.uid))
            else:
                _log.info("let go", node=name)
                still = name in (self._memory.since or {})
                self._beside(name, self.hands.let_go(name, node.uid, still_candidate=still))

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
        """Soft taints. What is not written now is tried again in the next loop."""
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
            if isinstance(action, MarkCandidate):
                await taints.mark(node.name, node.uid, action.since)
            else:
                await taints.unmark(node.name, node.uid)
        except ApiError as error:
            _log.info("a soft taint was not written", node=node.name, error=error.message)
            self._news.set()

    async def _begin(self, promise: Promise) -> None:
        """Taint now, and leave the rest to a task."""
        action = promise.action
        _log.info("remove", node=action.node, pods=len(action.evict), why=action.why)
        self.ledger.begin(promise, pool_of(self._nodes.get(action.node)))
        try:
            objection = await self.hands.begin(promise)
        except BaseException:
            self.ledger.end(action.node)
            raise
        self._group.create_task(self._carry_out(promise, objection), name=f"remove {action.node}")

    async def _carry_out(self, promise: Promise, objection: Objection | None) -> None:
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
            case NodeStays():
                _log.warning("not removed", node=node, reason=outcome.setback.value, why=outcome.detail)
                until = self._clock.now() + self._settings.after_failure
                self.ledger.fail(node, f"{outcome.setback.value}: {outcome.detail}", until=until)
                if outcome.setback is DrainSetback.CLOUD_FAILED:
                    self._ground.clouds.look_again()  # is there still a machine?
            case NodeGone(instance=instance):
                _log.info("removed", node=node, evicted=outcome.evicted, left_to_owner=outcome.left_to_owner)
                if instance:
                    self._ground.clouds.deleted(instance)
        self.on_outcome(outcome, self._clock.steady() - began)
        self._news.set()

    async def _tell_throttling(self, provisioners: Sequence[Provisioner], found: Turns) -> None:
        for one in provisioners:
            throttled = is_drained(one) and one.name in found.throttled
            if not await self._ground.statuses.write_throttled(one.name, throttled, said=is_drained(one)):
                self._news.set()

    async def _wait(self) -> None:
        """Until there is news, or somebody's time has come."""
        now = self._clock.now()
        moments = [self.ledger.next_moment()]
        if self.decided is not None:
            moments.append(self.decided.turns.wake_at)
            # Who was refused on all that is known is refused again, until something is heard.
            recheck, refused = self._settings.policy.recheck, self._memory.refused.values()
            moments += [at + recheck for at, _ in refused if at <= self._heard_at]
            moments.append(now + LOOK_AGAIN if self.decided.estate.unheard else None)
        deadline = min((moment for moment in moments if moment is not None), default=None)
        try:
            async with asyncio.timeout(None if deadline is None else max(0.0, deadline - now)):
                await self._news.wait()
        except TimeoutError:
            return
