"""The provisioner's loop: hear, list, decide, act, write down. Wakes on news, at its next deadline, or to list."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from ullage.act.pool import PoolHands
from ullage.clock import Clock
from ullage.control.provisioning.clouds import Clouds
from ullage.control.provisioning.news import is_news
from ullage.control.provisioning.statuses import Statuses
from ullage.decide.assigning import Assigner
from ullage.decide.pool.books import begun, given_up, pruned, settled
from ullage.decide.pool.facts import with_their_nodes
from ullage.decide.pool.plan import Fleet, FleetPlan, PoolPlan, plan_fleet
from ullage.decide.pool.waiting import buys_for, waiting_turns
from ullage.errors import ApiError
from ullage.kube.objects.provisioner import NodeProvisioner
from ullage.model.event import Appeared, Changed, Event
from ullage.model.instance import Instance, InstanceState
from ullage.model.pool_action import Deprovision, Provision
from ullage.model.pool_outcome import Bought, NotBought, PoolDone, PoolNotDone, PoolOutcome, PoolSetback
from ullage.model.provisioner import PROVISIONER_LABEL, FleetBudget, Provisioner
from ullage.state.placements import Placements

_log = structlog.get_logger("provisioning")

MODELLED_PLAN = 0.005
"""CPU seconds a plan costs in simulated time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningSettings:
    """What an operator chooses."""

    budget: FleetBudget = field(default_factory=FleetBudget)
    schedulers: tuple[str, ...] = ("gpu-scheduler",)
    """Pods that name one of these are judged here; others must have been found unschedulable by their own."""
    pause: float = 1.0
    """Seconds between two plans at least: news come in crowds."""
    at_once: int = 16
    """Actions under way at the same time."""
    protected_for: float = 300.0
    """Seconds until a node that was protected is asked about again."""


class ProvisioningLoop:
    """Runs all pools. Everything heard goes to `hear`; `run` goes on until cancelled."""

    def __init__(
        self,
        statuses: Statuses,
        clouds: Clouds,
        hands: PoolHands,
        clock: Clock,
        settings: ProvisioningSettings,
    ) -> None:
        self.placements = Placements()
        self.plan: FleetPlan | None = None
        self.on_outcome: Callable[[PoolOutcome], None] = lambda _: None
        self.on_step: Callable[[Provisioner, Sequence[PoolOutcome]], None] = lambda *_: None
        self.on_planned: Callable[[float], None] = lambda _: None
        """Told how long a plan took."""
        self._assigner = Assigner(self.placements)
        self._statuses = statuses
        self._clouds = clouds
        self._hands = hands
        self._clock = clock
        self._settings = settings
        self._news = asyncio.Event()
        clouds.on_change = self._news.set
        self._slots = asyncio.Semaphore(settings.at_once)
        self._protected: dict[str, float] = {}
        self._counts = buys_for(settings.schedulers)

    def hear(self, event: Event[Any]) -> None:
        """One thing that was heard."""
        fact = event.new if isinstance(event, Appeared | Changed) else getattr(event, "old", None)
        if isinstance(fact, NodeProvisioner):
            self._statuses.hear(event)
        else:
            self.placements.apply(event)
        if not self._news.is_set() and is_news(event):
            self._news.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._news.clear()
            if not await self.turn():
                await self._wait()
            await asyncio.sleep(self._settings.pause)

    async def turn(self) -> bool:
        """One loop over all pools. Whether anything was done."""
        # 1. What the clouds have.
        provisioners = list(self._statuses.provisioners.values())
        if not provisioners:
            self.plan = None
            return False
        wrong = await self._clouds.refresh(provisioners)
        known = [self._pruned(one) for one in provisioners if self._clouds.has_listed(one.provider)]
        await self._adopt(known)
        # 2. What should be.
        began = self._clock.steady()
        self.plan = plan = self._decided(known)
        self.on_planned(self._clock.steady() - began)
        await self._clock.charge(MODELLED_PLAN)
        # 3. One step of each pool towards it, and what became of it.
        pools = list(plan.pools.values())
        done = await asyncio.gather(*(self._step(pool) for pool in pools))
        self._clouds.moving(any(node.coming or node.doomed for pool in pools for node in pool.nodes) or any(done))
        for one in provisioners:
            if one.provider in wrong and not self._clouds.has_listed(one.provider):
                await self._statuses.write_unready(one.name, wrong[one.provider])
        return any(done)

    def _decided(self, provisioners: list[Provisioner]) -> FleetPlan:
        now = self._clock.now()
        self._protected = {node: until for node, until in self._protected.items() if until > now}
        fleet = Fleet(
            provisioners=provisioners,
            instances=self._instances(),
            protected=frozenset(self._protected),
            budget=self._settings.budget,
        )
        return plan_fleet(self._assigner.seating, fleet, waiting_turns(self._assigner, self._counts), now=now)

    async def _step(self, pool: PoolPlan) -> bool:
        """Act, and write down how the pool stands."""
        facts, step = pool.provisioner, pool.step
        if step.recommended or not step.actions:
            await self._statuses.write(pool, facts)
            return False
        _log.info("step", provisioner=facts.name, kind=step.kind.value, actions=len(step.actions), why=step.why)
        if any(isinstance(action, Provision) for action in step.actions):
            return await self._buy(pool)
        outcomes = await asyncio.gather(*(self._perform(facts, action) for action in step.actions))
        self.on_step(facts, outcomes)
        lost = {instance for one in outcomes if (instance := _given_up(one))}
        if lost:
            facts = given_up(facts, lost, now=self._clock.now())
        await self._statuses.write(pool, facts)
        return any(isinstance(one, PoolDone) for one in outcomes)

    async def _buy(self, pool: PoolPlan) -> bool:
        """A purchase is written down before it is made, and again when its outcome is known."""
        (action,) = pool.step.actions
        if not isinstance(action, Provision):
            return False
        facts = begun(pool.provisioner, action, now=self._clock.now())
        if not await self._statuses.write(pool, facts):
            return False
        outcome = await self._perform(facts, action)
        self.on_step(facts, (outcome,))
        if isinstance(outcome, Bought | NotBought):
            facts = settled(facts, outcome, now=self._clock.now())
        self._clouds.look_again()
        await self._statuses.write(pool, facts)
        return isinstance(outcome, Bought)

    async def _perform(self, provisioner: Provisioner, action: Any) -> PoolOutcome:
        async with self._slots:
            outcome = await self._hands.perform(provisioner, action)
        match outcome:
            case PoolDone(action=Deprovision(instance=instance)):
                self._clouds.deleted(instance)
            case PoolNotDone(setback=PoolSetback.PROTECTED):
                self._protected[outcome.action.node] = self._clock.now() + self._settings.protected_for
            case _:
                pass
        if isinstance(outcome, PoolNotDone | NotBought):
            _log.warning("not done", provisioner=provisioner.name, action=type(action).__name__, why=outcome.detail)
        self.on_outcome(outcome)
        return outcome

    async def _adopt(self, provisioners: list[Provisioner]) -> None:
        """Nodes whose machines are ours get the labels of their pool, if they have them not."""
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

    async def _wait(self) -> None:
        """Until there is news, or somebody's time has come."""
        moments = [self.plan.wake_at if self.plan is not None else None, self._clouds.next_list()]
        if any(not self._clouds.has_listed(one.provider) for one in self._statuses.provisioners.values()):
            moments.append(self._clock.now() + 10.0)
        deadline = min((moment for moment in moments if moment is not None), default=None)
        seconds = None if deadline is None else max(0.0, deadline - self._clock.now())
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return


def _given_up(outcome: PoolOutcome) -> str:
    """The instance that never became a node, if that is what ended."""
    match outcome:
        case PoolDone(action=Deprovision(lost=True, instance=instance)):
            return instance
        case _:
            return ""
