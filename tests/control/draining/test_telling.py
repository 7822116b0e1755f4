"""What is told of a removal: on the node, on its pool, and on every pod that was asked to go; and as numbers."""

from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from tests.control.provisioning.test_telling import Paper
from tests.decide.draining.fleets import node, planned, pod
from tests.decide.provisioning.pools import a_provisioner
from ullage.control.draining.deciding import DrainDecision
from ullage.control.draining.gauges import count, show
from ullage.control.draining.telling import DrainReporter
from ullage.decide.draining.estate import DrainScope
from ullage.decide.draining.parallelism import OngoingRemoval, RemovalBatch
from ullage.model.drain_outcome import (
    DrainOutcome,
    Eviction,
    EvictionResult,
    NodeNotRemoved,
    NodeRemoved,
    RemovalFailure,
)
from ullage.model.drain_promise import RemovalPlan
from ullage.model.draining import PodMove, RemoveNode, ScaleDownReason, UnremovableNode, UnremovableReason
from ullage.model.fact_event import ObjectKey
from ullage.model.provisioner import Consolidation
from ullage.observe.draining_metrics import DrainMetrics

POD = ObjectKey("n", "p")
REMOVE = RemoveNode(
    node="a", reason=ScaleDownReason.UNDERUTILIZED, evict=(PodMove(POD, "b"),), why="Underutilized, 1 pod"
)
EMPTY = RemoveNode(node="a", reason=ScaleDownReason.EMPTY, evict=(), why="Empty")
STAYS = NodeNotRemoved(action=REMOVE, uid="a", setback=RemovalFailure.OCCUPIED, detail="n/late is on it")


def a_teller(paper: Paper) -> DrainReporter:
    nodes = {"a": node("a", labels={"gpu.scheduling/provisioner": "pool"}), "x": node("x")}
    return DrainReporter(paper, nodes.get, lambda: {"pool": a_provisioner()})


def said(paper: Paper) -> list[str]:
    return [f"{one.about.kind}/{one.about.key.name} {one.reason}: {one.note}" for one in paper.told]


def ended(outcome: DrainOutcome) -> list[str]:
    paper = Paper()
    teller = a_teller(paper)
    teller.begun(RemovalPlan(action=outcome.action, uid="a"))
    teller.ended(outcome)
    return said(paper)


def test_a_node_that_went() -> None:
    assert ended(NodeRemoved(action=REMOVE, uid="a", instance="i-1")) == [
        "Node/a NodeDraining: is removed: Underutilized, 1 pod",
        "Node/a NodeRemoved: removed: Underutilized, 1 pod",
        "NodeProvisioner/pool NodeRemoved: a removed: Underutilized, 1 pod",
    ]


def test_a_node_that_stays() -> None:
    assert ended(STAYS)[1:] == [
        "Node/a NodeNotRemoved: not removed: Occupied: n/late is on it",
        "NodeProvisioner/pool NodeNotRemoved: a not removed: Occupied: n/late is on it",
    ]


def test_a_node_of_nobody() -> None:
    action = RemoveNode(node="x", reason=ScaleDownReason.EMPTY, evict=(), why="Empty")
    assert ended(NodeRemoved(action=action, uid="x", left_to_owner=True))[1:] == [
        "Node/x NodeDrained: is empty and cordoned, and left to its owner"
    ]


def test_pods() -> None:
    paper = Paper()
    teller = a_teller(paper)
    for result, detail in ((EvictionResult.EVICTED, ""), (EvictionResult.REFUSED, "b does not allow it")):
        teller.asked(Eviction(pod=POD, uid="u", node="a", result=result, detail=detail))
    teller.asked(Eviction(pod=POD, uid="u", node="a", result=EvictionResult.REMAINS))
    assert said(paper) == [
        "Pod/p PodEvicted: evicted: node a is removed",
        "Pod/p PodNotEvicted: not evicted from node a: EvictionRefused: b does not allow it",
        "Pod/p PodNotEvicted: not evicted from node a: PodsRemain",
    ]


def test_old_names_are_warned_of_once() -> None:
    paper = Paper()
    teller = a_teller(paper)
    old = replace(a_provisioner(), consolidation=Consolidation(deprecated=("spec.consolidation.maxEmptyBulkDelete",)))
    for generation in (1, 1, 2):
        teller.read(replace(old, generation=generation))
    teller.read(a_provisioner())
    assert len(said(paper)) == 2
    assert said(paper)[0].startswith("NodeProvisioner/pool DeprecatedField: spec.consolidation.maxEmptyBulkDelete is")


def value(metrics: DrainMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_outcomes_are_counted_empty_and_drained_apart() -> None:
    metrics = DrainMetrics(CollectorRegistry())
    count(metrics, NodeRemoved(action=REMOVE, uid="a"), 7.0, gpu_model="H100")
    count(metrics, NodeRemoved(action=EMPTY, uid="a"), 3.0, gpu_model="")
    count(metrics, STAYS, 9.0, gpu_model="H100")
    assert value(metrics, "ullage_scaled_down_nodes_total", reason="Underutilized") == 1
    assert value(metrics, "ullage_scaled_down_nodes_total", reason="Empty") == 1
    assert value(metrics, "ullage_scaled_down_gpu_nodes_total", reason="Underutilized", model="H100") == 1
    assert value(metrics, "ullage_scaled_down_gpu_nodes_total", reason="Empty", model="") is None
    assert value(metrics, "ullage_failed_scale_downs_total", reason="Occupied") == 1
    assert value(metrics, "ullage_function_duration_seconds_sum", function="RemoveDrainedNode") == 16.0
    assert value(metrics, "ullage_function_duration_seconds_sum", function="RemoveEmptyNode") == 3.0


def test_plans_are_shown_as_they_are_and_not_when_there_is_none() -> None:
    metrics = DrainMetrics(CollectorRegistry())
    plan = planned(node("a"), node("b"), node("c"), pod("p", "c", cpu=9), pod("q", "b"))
    waiting = (UnremovableNode(node="a", why=UnremovableReason.NOT_LONG_ENOUGH),)
    turns = RemovalBatch(waiting=waiting, throttled=frozenset({"pool"}))
    estate = DrainScope(floors={}, prices={}, machines={})
    going = [OngoingRemoval("x", "", True), OngoingRemoval("y", "", False), OngoingRemoval("z", "", False)]
    show(metrics, DrainDecision(plan, turns, estate, plan.memory), going)
    assert value(metrics, "ullage_unneeded_nodes") == len(plan.removable) > 0
    assert value(metrics, "ullage_unremovable_nodes", reason="NotUnderutilized") == 1
    assert value(metrics, "ullage_unremovable_nodes", reason="NotUnneededLongEnough") == 1
    assert value(metrics, "ullage_scale_down_throttled") == 1
    assert [value(metrics, "ullage_pending_node_deletions", kind=kind) for kind in ("empty", "drained")] == [1, 2]
    show(metrics, None, [])
    assert value(metrics, "ullage_unneeded_nodes") == 0
    assert value(metrics, "ullage_unremovable_nodes", reason="NotUnderutilized") is None
