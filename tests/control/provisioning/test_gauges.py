"""Plans and outcomes as numbers."""

from prometheus_client import CollectorRegistry

from tests.decide.provisioning.pools import a_node, a_provisioner
from ullage.control.provisioning.gauges import count, show
from ullage.decide.provisioning.demand import FleetDemand
from ullage.decide.provisioning.planner import FleetPlan, PoolPlan
from ullage.decide.provisioning.pool_size import evaluate
from ullage.decide.provisioning.pool_step import next_step
from ullage.model.instance import Instance
from ullage.model.intents import ScaleUp, TaintForDeletion
from ullage.model.outcomes import LaunchFailed, NodesLaunched, PoolActionDone, PoolActionFailed, PoolFailure
from ullage.model.provisioner import BackOff, CloudFailure, PoolNode
from ullage.model.units import Instant
from ullage.observe.provisioning_metrics import ProvisioningMetrics

BUY = ScaleUp(provisioner="pool", count=2, serial=0, token="t", why="")
DOOM = TaintForDeletion(node="a", delete_after=Instant(1.0), why="")


def a_plan(name: str, *nodes: PoolNode) -> FleetPlan:
    pool = a_provisioner(name, back_off=BackOff(failure=CloudFailure.CAPACITY, failures=1, until=Instant(60.0)))
    evaluation = evaluate(nodes, pool.thresholds)
    step = next_step(pool, nodes, evaluation, now=Instant(0.0))
    return FleetPlan(
        pools={name: PoolPlan(provisioner=pool, nodes=nodes, evaluation=evaluation, step=step)}, demand=FleetDemand()
    )


def test_pools_are_shown_as_they_are_and_not_when_they_are_gone() -> None:
    metrics = ProvisioningMetrics(CollectorRegistry())
    nodes = (
        a_node("a", used=1),
        a_node("b", delete_after=9.0),
        a_node("c", upcoming=True),
        a_node("d", failed_to_register=True),
    )
    show(metrics, a_plan("one", *nodes), now=0.0)

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(name, {"provisioner": "one"} | labels)

    states = ("ready", "coming", "tainted", "lost")
    assert [value("ullage_pool_nodes", state=state) for state in states] == [1, 1, 1, 1]
    assert (value("ullage_pool_target_nodes"), value("ullage_pool_gpu_utilisation_percent")) == (1, 33)
    assert value("ullage_pool_backed_off") == 1
    show(metrics, a_plan("two"), now=100.0)
    assert value("ullage_pool_nodes", state="ready") is None
    assert metrics.registry.get_sample_value("ullage_pool_backed_off", {"provisioner": "two"}) == 0


def test_outcomes_are_counted() -> None:
    metrics = ProvisioningMetrics(CollectorRegistry())
    machines = (Instance(id="i", pool="pool", since=Instant(0.0)),)
    outcomes = (
        NodesLaunched(BUY, machines, CloudFailure.CAPACITY, "one left"),
        LaunchFailed(BUY, None, "no answer"),
        PoolActionDone(DOOM),
        PoolActionFailed(DOOM, PoolFailure.PROTECTED, ""),
    )
    for outcome in outcomes:
        count(metrics, outcome)
    counted = {
        (sample.labels["action"], sample.labels["result"])
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "ullage_pool_actions_total"
    }
    assert counted == {
        ("ScaleUp", "NoCapacity"),
        ("ScaleUp", "OutcomeUnknown"),
        ("TaintForDeletion", "Done"),
        ("TaintForDeletion", "Protected"),
    }
    assert metrics.registry.get_sample_value("ullage_pool_instances_bought_total", {"provisioner": "pool"}) == 1
