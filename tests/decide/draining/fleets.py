"""Small fleets to drain, said in a line each."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from tests.decide.preemption.fleets import a_node, a_pod, flattened, key_of, leased
from ullage.decide.draining.inputs import FRESH, UNLIMITED, DrainInputs, DrainPlan, DrainPolicy, Limits, PlannerMemory
from ullage.decide.draining.planner import plan_steps
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.draining import UnremovableNode
from ullage.model.fact_event import Added
from ullage.model.node import Node
from ullage.model.pod import Owner, Pod
from ullage.model.pod_marks import PodDrainInfo
from ullage.model.units import Instant
from ullage.state.cluster import Fact
from ullage.state.snapshot import ClusterSnapshot

NOW = Instant(1_000_000.0)
WEB = Owner("ReplicaSet", "web", "uid-web")

Told = Fact | tuple[Fact, ...]


def node(name: str, cpu: int = 10, **facts: Any) -> Node:
    """A node without GPUs, with so many cores."""
    labels = {"kubernetes.io/hostname": name} | facts.pop("labels", {})
    room = {"cpu": cpu * 1000, "memory": 10**14, "pods": 110_000} | facts.pop("room", {})
    return a_node(name, 0, allocatable=room, labels=labels, **facts)


def gpu_node(name: str, gpus: int = 4, **facts: Any) -> tuple[Fact, ...]:
    """One whose GPUs are ours to give, reported on just now."""
    one, report = leased(name, gpus, **facts)
    return one, replace(report, reported_at=NOW)


def pod(name: str, on: str = "", cpu: int = 1, **facts: Any) -> Pod:
    """A pod of a ReplicaSet; `marks` say what else."""
    marks = PodDrainInfo(**facts.pop("marks", {}))
    return a_pod(name, on=on, **{"owner": WEB, "cpu": cpu * 1000, **facts}, marks=marks)


def a_picture(*facts: Told) -> PodAssigner:
    snapshot = ClusterSnapshot()
    for fact in flattened(facts):
        snapshot.apply(Added(key_of(fact), fact))
    return PodAssigner(snapshot)


def planned(
    *facts: Told,
    policy: DrainPolicy | None = None,
    memory: PlannerMemory = FRESH,
    limits: Limits = UNLIMITED,
    in_time: bool = True,
    now: float = NOW,
    **known: Any,
) -> DrainPlan:
    """What would be drained. Not `in_time`: the time was over from the beginning."""
    assigner = a_picture(*facts)
    steps = plan_steps(assigner, DrainInputs(**known), policy or DrainPolicy(), memory, limits, now=Instant(now))
    with assigner.snapshot.what_if():
        try:
            next(steps)
            while True:
                steps.send(in_time)
        except StopIteration as done:
            plan: DrainPlan = done.value
            return plan


def going(plan: DrainPlan) -> dict[str, dict[str, str]]:
    """Nodes that can go, with the pods that move, by name."""
    return {one.node: {move.pod.name: move.to for move in one.moves} for one in plan.removable}


def staying(plan: DrainPlan) -> Mapping[str, str]:
    """The reasons of the others."""
    return {one.node: one.reason.value for one in plan.unremovable}


def answer(plan: DrainPlan, name: str) -> UnremovableNode:
    return next(one for one in plan.unremovable if one.node == name)
