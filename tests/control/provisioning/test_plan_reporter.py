"""What waiting pods hear of plans, in Cluster Autoscaler's words, once."""

from collections.abc import Mapping

from tests.control.provisioning.test_reporter import Paper
from tests.decide.provisioning.pools import a_node, a_provisioner
from tests.decide.provisioning.test_demand import pods
from ullage.control.provisioning.plan_reporter import PlanReporter
from ullage.decide.provisioning.demand import FleetDemand
from ullage.decide.provisioning.node_offers import ScaleUpBlocked
from ullage.decide.provisioning.planner import FleetPlan, PoolPlan
from ullage.decide.provisioning.pool_size import evaluate
from ullage.decide.provisioning.pool_step import next_step
from ullage.model.fact_event import ObjectKey
from ullage.model.instance import Instance
from ullage.model.intents import ScaleUp
from ullage.model.outcomes import NodesLaunched
from ullage.model.provisioner import BackOff, CloudFailure, PoolNode, Provisioner
from ullage.model.units import Instant
from ullage.model.verdict import Reason

POD = pods(1, 8)[0]
PODS = {POD.key: POD}
POOL = a_provisioner(
    "pool", max_size=9, back_off=BackOff(failure=CloudFailure.CAPACITY, failures=1, until=Instant(60.0))
)
SMALL = a_provisioner("small")
BUY = ScaleUp(provisioner="pool", count=2, serial=0, token="t", why="")


def a_plan(demand: FleetDemand, *nodes: PoolNode) -> FleetPlan:
    return FleetPlan(pools={one.name: _planned(one, nodes) for one in (POOL, SMALL)}, demand=demand)


def _planned(pool: Provisioner, nodes: tuple[PoolNode, ...]) -> PoolPlan:
    evaluation = evaluate(nodes, pool.thresholds)
    step = next_step(pool, nodes, evaluation, now=Instant(0.0))
    return PoolPlan(provisioner=pool, nodes=nodes, evaluation=evaluation, step=step)


def unmet(why: Mapping[str, ScaleUpBlocked | Reason]) -> FleetDemand:
    return FleetDemand(unmet={POD.key: why})


def told(heard: Paper) -> list[tuple[str, ObjectKey, str]]:
    return [(one.reason.value, one.about.key, one.note) for one in heard.told]


def test_a_pod_nobody_serves_is_told_once_what_each_provisioner_says() -> None:
    heard = Paper()
    teller = PlanReporter(heard, PODS)
    why: dict[str, ScaleUpBlocked | Reason] = {"pool": ScaleUpBlocked.BACKED_OFF, "small": Reason.NODE_TOO_SMALL}
    for _ in range(3):
        teller.planned(a_plan(unmet(why)))
    note = "pod didn't trigger scale-up: pool: BackedOff (NoCapacity), small: NodeTooSmall"
    assert told(heard) == [("NotTriggerScaleUp", POD.key, note)]
    teller.planned(a_plan(unmet({"pool": ScaleUpBlocked.FULL})))
    assert len(heard.told) == 2, "it is another verdict"


def test_a_pod_for_which_nodes_were_bought_is_told_which() -> None:
    heard = Paper()
    teller = PlanReporter(heard, PODS)
    teller.planned(a_plan(FleetDemand(chosen={POD.key: "pool"}), a_node("a", used=1)))
    machines = tuple(Instance(id=f"i-{place}", pool="pool", since=Instant(0.0)) for place in range(2))
    teller.stepped(SMALL, [NodesLaunched(BUY, machines)])
    teller.stepped(POOL, [NodesLaunched(BUY, machines)])
    assert told(heard) == [("TriggeredScaleUp", POD.key, "pod triggered scale-up: [{pool 1->3 (max: 9)}]")]


def test_silent_agents_are_told_when_they_fall_silent() -> None:
    heard = Paper()
    teller = PlanReporter(heard, PODS)
    for _ in range(2):
        teller.planned(a_plan(FleetDemand(), a_node("a", silent_for=9.0, silence_excused=True)))
    assert {(reason, note) for reason, _, note in told(heard)} == {
        ("AgentsSilent", "no agent reports on the GPUs of a; nothing is bought instead yet")
    }
    assert len(heard.told) == 2, "once for each of two pools"
