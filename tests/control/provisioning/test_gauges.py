"""Plans and outcomes as numbers."""

from prometheus_client import CollectorRegistry

from tests.decide.pool.pools import a_node, a_provisioner
from ullage.control.provisioning.gauges import count, show
from ullage.decide.pool.demand import Demand
from ullage.decide.pool.evaluate import evaluate
from ullage.decide.pool.plan import FleetPlan, PoolPlan
from ullage.decide.pool.reconcile import next_step
from ullage.model.instance import Instance
from ullage.model.pool_action import Doom, Provision
from ullage.model.pool_outcome import Bought, NotBought, PoolDone, PoolNotDone, PoolSetback
from ullage.model.provisioner import BackOff, Failure, PoolNode
from ullage.observe.provisioning_metrics import ProvisioningMetrics

BUY = Provision(provisioner="pool", count=2, serial=0, token="t", why="")
DOOM = Doom(node="a", delete_after=1.0, why="")


def a_plan(name: str, *nodes: PoolNode) -> FleetPlan:
    pool = a_provisioner(name, back_off=BackOff(failure=Failure.CAPACITY, failures=1, until=60.0))
    evaluation = evaluate(nodes, pool.thresholds)
    step = next_step(pool, nodes, evaluation, now=0.0)
    return FleetPlan(
        pools={name: PoolPlan(provisioner=pool, nodes=nodes, evaluation=evaluation, step=step)}, demand=Demand()
    )


def test_pools_are_shown_as_they_are_and_not_when_they_are_gone() -> None:
    metrics = ProvisioningMetrics(CollectorRegistry())
    nodes = (a_node("a", used=1), a_node("b", delete_after=9.0), a_node("c", coming=True), a_node("d", lost=True))
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
    machines = (Instance(id="i", pool="pool", since=0.0),)
    outcomes = (
        Bought(BUY, machines, Failure.CAPACITY, "one left"),
        NotBought(BUY, None, "no answer"),
        PoolDone(DOOM),
        PoolNotDone(DOOM, PoolSetback.PROTECTED, ""),
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
        ("Provision", "NoCapacity"),
        ("Provision", "OutcomeUnknown"),
        ("Doom", "Done"),
        ("Doom", "Protected"),
    }
    assert metrics.registry.get_sample_value("ullage_pool_instances_bought_total", {"provisioner": "pool"}) == 1
