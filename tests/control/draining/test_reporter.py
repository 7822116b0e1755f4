"""What is told of a removal: on the node, on its pool, and on every pod that was asked to go; and as numbers."""

from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from tests.control.provisioning.test_reporter import Paper
from tests.decide.draining.fleets import node, planned, pod
from tests.decide.preemption.fleets import an_inventory
from tests.decide.provisioning.pools import a_provisioner
from ullage.control.draining.reporter import DrainReporter
from ullage.decide.draining.core import DrainDecision
from ullage.decide.draining.parallelism import OngoingRemoval, RemovalBatch
from ullage.decide.draining.scope import DrainScope
from ullage.model.draining import PodMove, ScaleDownReason, UnremovableNode, UnremovableReason
from ullage.model.fact_event import Added, ObjectKey
from ullage.model.intents import RemoveNode
from ullage.model.outcomes import DrainOutcome, Eviction, EvictionResult, NodeNotRemoved, NodeRemoved, RemovalFailure
from ullage.model.provisioner import Consolidation
from ullage.model.removal_plan import RemovalPlan
from ullage.observe.draining_metrics import DrainMetrics
from ullage.state.cluster import ClusterState

POD = ObjectKey("n", "p")
MODEL = an_inventory("a", 1).devices[0].model
REMOVE = RemoveNode(
    node="a", reason=ScaleDownReason.UNDERUTILIZED, evict=(PodMove(POD, "b"),), why="Underutilized, 1 pod"
)
STAYS = NodeNotRemoved(intent=REMOVE, uid="a", failure=RemovalFailure.OCCUPIED, detail="n/late is on it")


def a_reporter(paper: Paper, metrics: DrainMetrics | None = None) -> DrainReporter:
    state = ClusterState()
    for one in (node("a", labels={"gpu.scheduling/provisioner": "pool"}), node("x")):
        state.apply(Added(ObjectKey("", one.name), one))
    state.apply(Added(ObjectKey("", "a"), an_inventory("a", 4)))
    return DrainReporter(paper, state, lambda: {"pool": a_provisioner()}, metrics)


def said(paper: Paper) -> list[str]:
    return [f"{one.about.kind}/{one.about.key.name} {one.reason}: {one.note}" for one in paper.told]


def ended(outcome: DrainOutcome) -> list[str]:
    paper = Paper()
    reporter = a_reporter(paper)
    reporter.begun(RemovalPlan(intent=outcome.intent, uid="a"))
    reporter.ended(outcome, 1.0)
    return said(paper)


def test_a_node_that_went() -> None:
    assert ended(NodeRemoved(intent=REMOVE, uid="a", instance="i-1")) == [
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
    assert ended(NodeRemoved(intent=action, uid="x", left_to_owner=True))[1:] == [
        "Node/x NodeDrained: is empty and cordoned, and left to its owner"
    ]


def test_pods() -> None:
    paper = Paper()
    reporter = a_reporter(paper)
    for result, detail in ((EvictionResult.EVICTED, ""), (EvictionResult.REFUSED, "b does not allow it")):
        reporter.eviction(Eviction(pod=POD, uid="u", node="a", result=result, detail=detail))
    reporter.eviction(Eviction(pod=POD, uid="u", node="a", result=EvictionResult.REMAINS))
    assert said(paper) == [
        "Pod/p PodEvicted: evicted: node a is removed",
        "Pod/p PodNotEvicted: not evicted from node a: EvictionRefused: b does not allow it",
        "Pod/p PodNotEvicted: not evicted from node a: PodsRemain",
    ]


def test_old_names_are_warned_of_once() -> None:
    paper = Paper()
    reporter = a_reporter(paper)
    old = replace(a_provisioner(), consolidation=Consolidation(deprecated=("spec.consolidation.maxEmptyBulkDelete",)))
    for generation in (1, 1, 2):
        reporter.provisioner(replace(old, generation=generation))
    reporter.provisioner(a_provisioner())
    assert len(said(paper)) == 2
    assert said(paper)[0].startswith("NodeProvisioner/pool DeprecatedField: spec.consolidation.maxEmptyBulkDelete is")


def value(metrics: DrainMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_outcomes_are_counted_empty_and_drained_apart() -> None:
    metrics = DrainMetrics(CollectorRegistry())
    reporter = a_reporter(Paper(), metrics)
    bare = RemoveNode(node="x", reason=ScaleDownReason.EMPTY, evict=(), why="Empty")
    for outcome, seconds in (
        (NodeRemoved(intent=REMOVE, uid="a"), 7.0),
        (NodeRemoved(intent=bare, uid="x"), 3.0),
        (STAYS, 9.0),
    ):
        reporter.begun(RemovalPlan(intent=outcome.intent, uid=outcome.uid))
        reporter.ended(outcome, seconds)
    assert value(metrics, "ullage_scaled_down_nodes_total", reason="Underutilized") == 1
    assert value(metrics, "ullage_scaled_down_nodes_total", reason="Empty") == 1
    assert value(metrics, "ullage_scaled_down_gpu_nodes_total", reason="Underutilized", model=MODEL) == 1
    assert value(metrics, "ullage_scaled_down_gpu_nodes_total", reason="Empty", model="") is None
    assert value(metrics, "ullage_failed_scale_downs_total", reason="Occupied") == 1
    assert value(metrics, "ullage_function_duration_seconds_sum", function="RemoveDrainedNode") == 16.0
    assert value(metrics, "ullage_function_duration_seconds_sum", function="RemoveEmptyNode") == 3.0


def test_plans_are_shown_as_they_are_and_not_when_there_is_none() -> None:
    metrics = DrainMetrics(CollectorRegistry())
    plan = planned(node("a"), node("b"), node("c"), pod("p", "c", cpu=9), pod("q", "b"))
    waiting = (UnremovableNode(node="a", reason=UnremovableReason.NOT_LONG_ENOUGH),)
    batch = RemovalBatch(waiting=waiting, throttled=frozenset({"pool"}))
    scope = DrainScope(minimums={}, prices={}, machines={})
    going = [OngoingRemoval("x", "", True), OngoingRemoval("y", "", False), OngoingRemoval("z", "", False)]
    reporter = a_reporter(Paper(), metrics)
    reporter.show(DrainDecision(plan, batch, scope), going)
    assert value(metrics, "ullage_unneeded_nodes") == len(plan.removable) > 0
    assert value(metrics, "ullage_unremovable_nodes", reason="NotUnderutilized") == 1
    assert value(metrics, "ullage_unremovable_nodes", reason="NotUnneededLongEnough") == 1
    assert value(metrics, "ullage_scale_down_throttled") == 1
    assert [value(metrics, "ullage_pending_node_deletions", kind=kind) for kind in ("empty", "drained")] == [1, 2]
    reporter.show(None, [])
    assert value(metrics, "ullage_unneeded_nodes") == 0
    assert value(metrics, "ullage_unremovable_nodes", reason="NotUnderutilized") is None
