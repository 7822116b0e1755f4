"""A whole world for plans: a cluster, a cloud that takes its time, and a clock that jumps. Nothing here decides.

Every change is checked: nothing is bought twice, no node goes with a pod on it, no pool leaves its bounds.
"""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from tests.decide.preemption.fleets import key_of
from ullage.decide.placement.engine import Placement, PlacementEngine, hold
from ullage.decide.provisioning.planner import FleetFacts, FleetPlan, plan_fleet
from ullage.decide.provisioning.pool_nodes import matters
from ullage.model.fact_event import Added, Deleted, ObjectKey, Updated
from ullage.model.instance import Instance
from ullage.model.intents import PoolIntent, ScaleUp, TaintForDeletion, TerminateInstance, Untaint
from ullage.model.node import Node, Taint
from ullage.model.pod import Pod
from ullage.model.provisioner import DELETION_TAINT, FleetBudget, Provisioner, template_node
from ullage.model.resources import GPU
from ullage.model.units import Instant
from ullage.state.snapshot import ClusterSnapshot

BOOT, GPUS_LATER = 60.0, 30.0
"""Seconds until an instance is a node, and from then until its GPUs are there."""


class World:
    """Loops are run whenever something can have changed."""

    def __init__(self, *provisioners: Provisioner, budget: FleetBudget | None = None) -> None:
        self.provisioners = {one.name: one for one in provisioners}
        self.budget = budget or FleetBudget()
        self.snapshot = ClusterSnapshot()
        self.engine = PlacementEngine(self.snapshot)
        self.instances: dict[str, Instance] = {}
        self.waiting: dict[ObjectKey, Pod] = {}
        self.now = 0.0
        self.created = 0
        self.creates: list[tuple[float, str, int]] = []
        self.fails: Callable[[ScaleUp], bool] = lambda _: False

    def ask(self, pods: Sequence[Pod]) -> None:
        """Pods that wait from now on."""
        for pod in pods:
            self.waiting[pod.key] = replace(pod, created=self.now)

    def leave(self, count: int) -> None:
        """So many of the placed pods are over, the last by name first."""
        for key in sorted(self.snapshot.pods, reverse=True)[:count]:
            self.snapshot.forget(key)

    def plan(self) -> FleetPlan:
        fleet = FleetFacts(
            provisioners=list(self.provisioners.values()),
            instances=list(self.instances.values()),
            budget=self.budget,
        )
        turns = sorted(self.waiting.values(), key=_first_come)
        return plan_fleet(self.engine, fleet, turns, now=Instant(self.now))

    def run(self, until: float) -> None:
        """Everything that happens up to a moment."""
        while self.now < until:
            self._schedule()
            plan = self.plan()
            actions = [a for one in plan.pools.values() if not one.step.recommended for a in one.step.actions]
            for action in actions:
                self._perform(action)
            self._check()
            if not actions:
                moments = [self._next_boot(), plan.wake_at, until]
                self.now = min(moment for moment in moments if moment is not None and moment > self.now)
                self._boot()

    @property
    def sizes(self) -> dict[str, int]:
        return {name: sum(one.pool == name for one in self.instances.values()) for name in self.provisioners}

    def _schedule(self) -> None:
        for pod in sorted(self.waiting.values(), key=_first_come):
            placement = self.engine.place(pod, now=Instant(self.now))
            if isinstance(placement, Placement):
                hold(self.snapshot, pod, placement)
                del self.waiting[pod.key]

    def _perform(self, action: PoolIntent) -> None:
        match action:
            case ScaleUp():
                self._provision(action)
            case TaintForDeletion(node=name, delete_after=moment):
                taint = Taint(DELETION_TAINT, str(int(moment)), "NoSchedule")
                self._taint(name, lambda taints: (*taints, taint))
            case Untaint(node=name):
                self._taint(name, lambda taints: tuple(taint for taint in taints if taint.key != DELETION_TAINT))
            case TerminateInstance(node=name, instance=instance):
                assert not any(matters(pod) for pod in self.snapshot.pods_on(name).values())
                del self.instances[instance]
                node, report = self.snapshot.state.nodes[name], self.snapshot.state.inventories[name]
                self.snapshot.apply(Deleted(key_of(report), report))
                self.snapshot.apply(Deleted(key_of(node), node))

    def _provision(self, action: ScaleUp) -> None:
        if self.fails(action):
            return
        provisioner = self.provisioners[action.provisioner]
        self.provisioners[action.provisioner] = replace(provisioner, purchases=provisioner.purchases + 1)
        self.creates.append((self.now, action.provisioner, action.count))
        for _ in range(action.count):
            name = f"{action.provisioner}-{self.created:03}"
            self.created += 1
            self.instances[f"i-{name}"] = Instance(
                id=f"i-{name}", pool=action.provisioner, since=Instant(self.now), token=action.token, node=name
            )

    def _taint(self, name: str, change: Callable[[tuple[Taint, ...]], tuple[Taint, ...]]) -> None:
        node = self.snapshot.state.nodes[name]
        self.snapshot.apply(Updated(key_of(node), node, replace(node, taints=change(node.taints))))

    def _next_boot(self) -> float | None:
        ages = [one.since + late for one in self.instances.values() for late in (BOOT, BOOT + GPUS_LATER)]
        return min((moment for moment in ages if moment > self.now), default=None)

    def _boot(self) -> None:
        """Instances become nodes, and their GPUs appear later."""
        for one in self.instances.values():
            known = self.snapshot.state.nodes.get(one.node)
            provisioner = self.provisioners[one.pool]
            node, report = template_node(provisioner, one.node, zone=one.zone, now=Instant(self.now))
            bare: Node = replace(node, allocatable={k: v for k, v in node.allocatable.items() if k != GPU})
            if known is None and self.now >= one.since + BOOT:
                self.snapshot.apply(Added(key_of(bare), bare))
            elif known is not None and GPU not in known.allocatable and self.now >= one.since + BOOT + GPUS_LATER:
                self.snapshot.apply(Updated(key_of(node), known, replace(node, taints=known.taints)))
                self.snapshot.apply(Added(key_of(report), replace(report, reported_at=1e12)))

    def _check(self) -> None:
        for name, size in self.sizes.items():
            limits = self.provisioners[name].thresholds
            assert size <= limits.max_size
        gpus = sum(self.provisioners[one.pool].template.gpus.count for one in self.instances.values())
        assert self.budget.gpus is None or gpus <= self.budget.gpus


def _first_come(pod: Pod) -> tuple[float, ObjectKey]:
    return pod.created, pod.key
