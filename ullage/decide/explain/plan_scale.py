"""Scale plan: nodes that would be bought, tainted, untainted and deleted, loop by loop, until nothing more would be.

Decides as the live autoscaler does, on a snapshot of its own. Nodes register at once, clouds never fail, and pods that
fit are placed; no pod ends. Inventories that are fresh at the beginning stay so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from ullage.decide.gang.placement import GangRequest, place_gang
from ullage.decide.placement.devices.freshness import STALE_AFTER
from ullage.decide.placement.engine import Placement, hold
from ullage.decide.provisioning.demand import NO_BUDGET
from ullage.decide.provisioning.node_offers import ScaleUpBlocked
from ullage.decide.provisioning.planner import FleetFacts, FleetPlan, PoolPlan, plan_fleet
from ullage.decide.provisioning.pool_nodes import machines_of_nodes
from ullage.decide.provisioning.pool_step import PoolStepKind
from ullage.decide.provisioning.vm_demand import pending_and_vms_in_need
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Updated
from ullage.model.intents import PoolIntent, ScaleUp, TaintForDeletion, TerminateInstance, Untaint
from ullage.model.node import Node, Taint
from ullage.model.provisioner import DELETION_TAINT, FleetBudget, Provisioner, template_node
from ullage.model.units import Instant, Seconds
from ullage.model.verdict import Reason
from ullage.state.cluster import Fact
from ullage.state.snapshot import ClusterSnapshot

MOST_LOOPS = 200
"""A plan that has not settled after so many loops is ended, and says so."""
FOREVER = 1e15


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleStep:
    """One pool's step in one loop."""

    loop: int
    after: Seconds
    """Seconds from the beginning."""
    provisioner: str
    kind: PoolStepKind
    count: int
    nodes: tuple[str, ...]
    """Nodes the step is about; empty for purchases."""
    current: int
    target: int
    utilization_percent: int | None
    why: str
    recommended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalePlan:
    """All steps, and what is left pending."""

    steps: tuple[ScaleStep, ...]
    sizes: Mapping[str, tuple[int, int]]
    """Size of each pool, at the beginning and at the end."""
    unmet: Mapping[ObjectKey, Mapping[str, ScaleUpBlocked | Reason]]
    """Pods still pending at the end, with each provisioner's reason."""
    settled: bool


def plan_scale(
    snapshot: ClusterSnapshot,
    provisioners: Sequence[Provisioner],
    *,
    now: Instant,
    budget: FleetBudget = NO_BUDGET,
) -> ScalePlan:
    """Simulate until nothing more would be done. The snapshot belongs to the simulation from now on."""
    return _Rehearsal(snapshot, provisioners, now, budget).run()


class _Rehearsal:
    def __init__(
        self, snapshot: ClusterSnapshot, provisioners: Sequence[Provisioner], now: Instant, budget: FleetBudget
    ) -> None:
        self._snapshot = snapshot
        self._assigner = PodAssigner(snapshot)
        self._provisioners = {one.name: one for one in provisioners}
        self._begin = self._now = now
        self._budget = budget
        self._bought = 0
        self._keep_reports_fresh()

    def run(self) -> ScalePlan:
        steps: list[ScaleStep] = []
        first = plan = self._plan()
        for loop in range(1, MOST_LOOPS + 1):
            acting = [one for one in plan.pools.values() if one.step.actions]
            steps += [self._scale_step(loop, one) for one in acting]
            done = [action for one in acting if not one.step.recommended for action in one.step.actions]
            for action in done:
                self._perform(action)
            if not done:
                later = self._next_deadline(plan)
                if later is None:
                    break
                self._now = later
            self._place_who_fits()
            plan = self._plan()
        sizes = {
            name: (first.pools[name].evaluation.current, plan.pools[name].evaluation.current) for name in plan.pools
        }
        settled = not any(one.step.actions and not one.step.recommended for one in plan.pools.values())
        return ScalePlan(steps=tuple(_once(steps)), sizes=sizes, unmet=plan.demand.unmet, settled=settled)

    def _plan(self) -> FleetPlan:
        pools = list(self._provisioners.values())
        fleet = FleetFacts(provisioners=pools, instances=machines_of_nodes(pools, self._snapshot), budget=self._budget)
        return plan_fleet(self._assigner.engine, fleet, pending_and_vms_in_need(self._assigner), now=self._now)

    def _next_deadline(self, plan: FleetPlan) -> Instant | None:
        """The next instant at which something can change. A back-off that ends with nothing to buy changes nothing."""
        moments = [one.step.wake_at for one in plan.pools.values() if one.step.wake_at is not None]
        return min((moment for moment in moments if moment > self._now), default=None)

    def _scale_step(self, loop: int, pool: PoolPlan) -> ScaleStep:
        step = pool.step
        nodes = tuple(action.node for action in step.actions if not isinstance(action, ScaleUp))
        return ScaleStep(
            loop=loop,
            after=Seconds(self._now - self._begin),
            provisioner=pool.provisioner.name,
            kind=step.kind,
            count=sum(action.count if isinstance(action, ScaleUp) else 1 for action in step.actions),
            nodes=nodes,
            current=pool.evaluation.current,
            target=pool.evaluation.target,
            utilization_percent=pool.evaluation.utilization_percent,
            why=step.why,
            recommended=step.recommended,
        )

    def _perform(self, action: PoolIntent) -> None:
        match action:
            case ScaleUp():
                self._provision(action)
            case TaintForDeletion(node=name, delete_after=moment):
                node = self._snapshot.state.nodes[name]
                taint = Taint(DELETION_TAINT, str(int(-(-moment // 1))), "NoSchedule")
                self._change(node, replace(node, taints=(*node.taints, taint)))
            case Untaint(node=name):
                node = self._snapshot.state.nodes[name]
                self._change(node, replace(node, taints=tuple(t for t in node.taints if t.key != DELETION_TAINT)))
            case TerminateInstance(node=name):
                self._delete(name)

    def _provision(self, action: ScaleUp) -> None:
        provisioner = self._provisioners[action.provisioner]
        self._provisioners[action.provisioner] = replace(
            provisioner, purchase=None, purchases=max(provisioner.purchases, action.serial + 1)
        )
        for _ in range(action.count):
            self._bought += 1
            name = f"{action.provisioner}-new-{self._bought:03}"
            node, report = template_node(provisioner, name, zone=action.zone, now=self._now)
            self._apply(Added(ObjectKey("", name), replace(report, reported_at=FOREVER)))
            self._apply(Added(ObjectKey("", name), node))

    def _delete(self, name: str) -> None:
        node, report = self._snapshot.state.nodes.get(name), self._snapshot.state.inventories.get(name)
        for fact in (report, node):
            if fact is not None:
                self._apply(Deleted(ObjectKey("", name), fact))

    def _change(self, old: Node, new: Node) -> None:
        self._apply(Updated(ObjectKey("", old.name), old, new))

    def _apply(self, event: FactEvent[Fact]) -> None:
        self._snapshot.apply(event)

    def _place_who_fits(self) -> None:
        """Place every pod that fits, as the scheduler would."""
        for turn in list(pending_and_vms_in_need(self._assigner)):
            if isinstance(turn, GangRequest):
                place_gang(self._assigner.engine, turn, now=self._now)  # placed members are assumed from then on
                continue
            placement = self._assigner.engine.place(turn, now=self._now, closed=self._assigner.closed(turn))
            if isinstance(placement, Placement):
                hold(self._snapshot, turn, placement)

    def _keep_reports_fresh(self) -> None:
        for name, report in list(self._snapshot.state.inventories.items()):
            if report.reported_at >= self._begin - STALE_AFTER:
                self._apply(Updated(ObjectKey("", name), report, replace(report, reported_at=FOREVER)))


def _once(steps: Sequence[ScaleStep]) -> list[ScaleStep]:
    """Drop recommendations that repeat an earlier one."""
    recorded: set[tuple[object, ...]] = set()
    kept: list[ScaleStep] = []
    for step in steps:
        said = (step.provisioner, step.kind, step.count, step.nodes, step.why)
        if step.recommended and said in recorded:
            continue
        recorded.add(said)
        kept.append(step)
    return kept
