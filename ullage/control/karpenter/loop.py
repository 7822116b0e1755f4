"""Loop of capacity requests: collect them, decide, perform, settle. Wakes on a change or at the next deadline."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from ullage.act.smart_pods import SmartPodActuator
from ullage.clock import Clock
from ullage.control.karpenter.reporter import KarpenterReporter
from ullage.decide.karpenter.core import KarpenterCore
from ullage.decide.karpenter.demand import capacity_requests, served_together
from ullage.decide.karpenter.service_choice import prefers_karpenter
from ullage.decide.placement.vm_pods import MOVED
from ullage.decide.provisioning.demand import FleetDemand, find_demand
from ullage.decide.provisioning.pending import PodOrGang
from ullage.decide.provisioning.planner import FleetPlan
from ullage.decide.provisioning.vm_demand import moved_from, pending_and_vms_in_need
from ullage.decide.scheduling.assignment import waits
from ullage.model.fact_event import FactEvent, ObjectKey
from ullage.model.intents import KarpenterIntent
from ullage.model.karpenter import CapacityRequest, WaitingPod
from ullage.model.lifecycles import SmartPodState
from ullage.model.outcomes import KarpenterOutcome
from ullage.model.pod import Pod
from ullage.model.provisioner import Provisioner
from ullage.model.units import Seconds
from ullage.runtime import ActionRunner, LoopTasks, Pacing, Wakeup, run_reconciler, seconds_until

MODELLED_STEP = Seconds(0.002)
"""CPU seconds of one reconcile, in simulated time."""
MOST_INTENTS = 32
"""Intents that are performed at the same time."""


class Pools(Protocol):
    """NodeProvisioners beside Karpenter, and what they plan."""

    @property
    def plan(self) -> FleetPlan | None:
        """Last plan; None without one."""
        ...

    @property
    def provisioners(self) -> Iterable[Provisioner]:
        """All of them, as last observed."""
        ...


class KarpenterLoop:
    """Reconciles all capacity requests. Facts enter by `observe`; `run` goes on until cancelled.

    Intents are performed beside the loop: a call that takes long holds up its own object only.
    """

    def __init__(
        self,
        core: KarpenterCore,
        pools: Pools,
        actuator: SmartPodActuator,
        reporter: KarpenterReporter,
        clock: Clock,
        *,
        schedulers: Sequence[str],
    ) -> None:
        self.core = core
        self._pools = pools
        self._reporter = reporter
        self._assigner = core.assigner
        self._clock = clock
        self._schedulers = frozenset(schedulers)
        self._wakeup = Wakeup()
        self._tasks = LoopTasks()
        self._runner: ActionRunner[KarpenterIntent, KarpenterOutcome] = ActionRunner(
            actuator.perform, self._settle, self._tasks, self._wakeup, limit=MOST_INTENTS
        )

    @property
    def pacing(self) -> Pacing:
        return Pacing()

    def longest_wait(self) -> float:
        """Seconds until the core's next deadline, at most the longest wait."""
        due = seconds_until(self.core.next_deadline(), self._clock.now())
        longest = self.core.policy.longest_wait
        return longest if due is None else min(longest, due)

    def observe(self, event: FactEvent[Any]) -> None:
        """Apply an event to the core. Call after the snapshot has been updated."""
        if self.core.apply(event, now=self._clock.now()):
            self._wakeup.set()

    def wake(self) -> None:
        """Reconcile again: a plan of the NodeProvisioners may leave pods to Karpenter."""
        self._wakeup.set()

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with self._tasks:
            await run_reconciler(self, self._wakeup, self._clock)

    async def reconcile(self) -> bool:
        """Reconcile all requests once. An outcome wakes the loop again."""
        await self._clock.charge(MODELLED_STEP)
        now = self._clock.now()
        self.core.request(self._wanted(), now=now)
        for intent in self.core.next_intents(now=now, most=self._runner.limit - self._runner.taken):
            self._runner.start(intent)
        self._report()
        return False

    def _settle(self, outcome: KarpenterOutcome) -> None:
        failures = self.core.settle(outcome, now=self._clock.now())
        self._reporter.outcome(outcome, failures)

    def serves(self, pod: Pod) -> bool:
        """True if Karpenter serves the pod, so that no NodeProvisioner buys for it. Gangs are served by one of them."""
        if pod.scheduler not in self._schedulers:
            return False
        members = served_together(self._assigner, pod, self._counts)
        if any(self.core.is_serving(_waiting(one)) for one in members):
            return True
        plan = self._demand_of_pools()
        if plan is not None and any(one.key in plan.chosen or one.key in plan.placed for one in members):
            return False
        now, provisioners = self._clock.now(), tuple(self._pools.provisioners)
        if not provisioners or pod.vm is not None:
            return False  # VMs that a NodeProvisioner has a node for are its own
        for one in members:
            answer = self.core.could_serve(one, now=now)
            if answer is None or not prefers_karpenter(answer[1], answer[0].ask, provisioners, now=now):
                return False
        return True

    def _demand_of_pools(self) -> FleetDemand | None:
        """Demand of the NodeProvisioners' plan; None without a plan."""
        plan = self._pools.plan
        return None if plan is None else plan.demand

    def _counts(self, pod: Pod) -> bool:
        """True for waiting pods of our schedulers. Pods of other schedulers are served by Karpenter directly."""
        return pod.scheduler in self._schedulers and waits(pod)

    def _wanted(self) -> list[CapacityRequest]:
        """Capacity requests of pods that fit on no node, and that no NodeProvisioner serves or serves as cheaply."""
        pending = pending_and_vms_in_need(self._assigner, self._counts, lambda vm: vm.scheduler in self._schedulers)
        if not pending:
            return []
        demand = find_demand(self._assigner.engine, (), pending, now=self._clock.now())
        unmet, pods = set(demand.unmet), {key: pod for turn in pending for key, pod in _pods_of(turn)}
        others = self._demand_of_pools()
        if others is not None:
            unmet = {key for key in unmet if key in others.unmet or self.serves(pods[key])}
        elif any(True for _ in self._pools.provisioners):  # they have not planned yet
            unmet = {key for key in unmet if self.serves(pods[key])}
        return capacity_requests(self._assigner, pending, unmet)

    def _report(self) -> None:
        facts, core = self.core.facts, self.core
        ours = [claim.name for claim in facts.node_claims.values() if claim.request]
        events, core.claim_events = core.claim_events, []
        self._reporter.claim_events(events, ours)
        self._reporter.transitions(core.transitions.drain())
        self._reporter.node_pools(facts.node_pools, (one.node_pool for one in core.policy.mappings))
        states = Counter(core.transitions.states().values())
        pending = [pod.created for pod in facts.smart_pods.values() if not pod.node]
        oldest = max(0.0, self._clock.now() - min(pending)) if pending else 0.0
        self._reporter.show({state: states[state] for state in SmartPodState}, oldest)


def _waiting(pod: Pod) -> WaitingPod:
    """The pod that waits; for the supposed target of a VM, the pod it runs in."""
    return WaitingPod(moved_from(pod.key), pod.uid.removesuffix(MOVED))


def _pods_of(turn: PodOrGang) -> Iterable[tuple[ObjectKey, Pod]]:
    pods = (turn,) if isinstance(turn, Pod) else turn.pending
    return ((pod.key, pod) for pod in pods)
