"""Agents that fall silent: nobody is placed on their GPUs, and nothing is bought in their place for a while."""

import pytest
from msgspec.structs import replace

from tests.decide.preemption.fleets import NOW, a_pod, fleet, leased
from tests.decide.provisioning.test_demand import POOL, eight, pods
from ullage.decide.explain.scale_up import forecast
from ullage.decide.provisioning.planner import FleetFacts, FleetPlan, plan_fleet
from ullage.decide.provisioning.silent_agents import SILENCE_SECONDS
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.device import Inventory
from ullage.model.fact_event import Added
from ullage.model.instance import Instance
from ullage.model.pool_sighting import Seen
from ullage.model.units import Instant, Seconds
from ullage.state.snapshot import ClusterSnapshot


def silent_pool(silent: int, heard: int) -> tuple[ClusterSnapshot, list[Instance]]:
    """So many nodes whose agents have not reported for two minutes, and so many full ones whose agents have."""
    names = [f"s{place}" for place in range(silent)] + [f"h{place}" for place in range(heard)]
    facts = []
    for name in names:
        for fact in leased(name, 8, labels=POOL):
            is_old = isinstance(fact, Inventory) and name.startswith("s")
            facts.append(replace(fact, reported_at=NOW - 120.0) if is_old else fact)
    engine = fleet(*facts)
    for place in range(heard):
        engine.snapshot.assume(a_pod(f"busy-{place}", gpus=8), f"h{place}", tuple(range(8)))
    return engine.snapshot, [Instance(id=name, pool="eight", since=Instant(0.0), node=name) for name in names]


def planned(silent: int, heard: int, *, seconds: float) -> FleetPlan:
    snapshot, instances = silent_pool(silent, heard)
    seen = Seen(silent={f"s{place}": Seconds(seconds) for place in range(silent)})
    provisioners = FleetFacts(provisioners=[eight(max_size=99)], instances=instances, seen=seen)
    return plan_fleet(PodAssigner(snapshot).engine, provisioners, pods(silent, 8), now=NOW)


@pytest.mark.parametrize(
    ("silent", "heard", "seconds", "bought"),
    [
        pytest.param(1, 9, 10.0, 0, id="one-agent-for-a-moment"),
        pytest.param(1, 9, SILENCE_SECONDS, 1, id="one-agent-for-long"),
        pytest.param(3, 0, SILENCE_SECONDS, 3, id="three-of-three-say-nothing-about-agents"),
        pytest.param(4, 4, SILENCE_SECONDS, 0, id="half-of-all-agents"),
        pytest.param(4, 5, SILENCE_SECONDS, 4, id="fewer"),
        pytest.param(20, 0, 1e6, 0, id="all-agents-for-ever"),
    ],
)
def test_what_is_bought_in_place_of_silent_nodes(silent: int, heard: int, seconds: float, bought: int) -> None:
    plan = planned(silent, heard, seconds=seconds).pools["eight"]
    assert (plan.evaluation.fresh, all(node.silence_excused for node in plan.nodes if node.silent_for)) == (
        bought,
        not bought,
    )


def test_a_pod_that_waits_for_a_silent_agent_is_told_so() -> None:
    snapshot, _ = silent_pool(1, 0)
    (pod,) = pods(1, 8)
    snapshot.apply(Added(pod.key, pod))
    assert forecast(PodAssigner(snapshot), pod, [eight()], now=NOW) == (
        "NodeProvisioner eight buys no node: no agent reports on the GPUs of s0; nothing is bought instead yet",
    )
