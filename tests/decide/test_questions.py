"""Asking changes nothing: the snapshot is the same before and after every question that can be asked of it."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.decide.provisioning.pools import a_provisioner
from tests.state.worlds import NODES, a_step, a_waiting
from ullage.decide.draining.inputs import FRESH, UNLIMITED, DrainInputs, DrainPolicy
from ullage.decide.draining.planner import plan_drain
from ullage.decide.draining.relocation import DisplacedPods, unplaceable_pods
from ullage.decide.explain.planning import PlanInputs
from ullage.decide.explain.pod import explain_pod
from ullage.decide.gang.placement import GangRequest, place_gang
from ullage.decide.placement.engine import PlacementEngine
from ullage.decide.preemption.preempt import preempt
from ullage.decide.preemption.protection import PreemptionContext
from ullage.decide.provisioning.demand import find_demand
from ullage.decide.provisioning.node_offers import Pool
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.fact_event import Added, ObjectKey
from ullage.model.pod import Pod
from ullage.model.stepper import finish
from ullage.model.units import Instant, Milli
from ullage.state.snapshot import ClusterSnapshot
from ullage.testing.checks.audit import drifted, everything

NOW = Instant(10.0)

Question = Callable[[PodAssigner, list[Pod]], object]


def engine_of(assigner: PodAssigner) -> PlacementEngine:
    return assigner.engine


def gang(pods: list[Pod]) -> GangRequest:
    return GangRequest(key=ObjectKey("n", "gang"), min_member=len(pods), pending=tuple(pods))


def a_gang_is_tried(assigner: PodAssigner, pods: list[Pod]) -> None:
    with assigner.snapshot.what_if():
        place_gang(engine_of(assigner), gang(pods), now=NOW)


def scale_up(assigner: PodAssigner, pods: list[Pod]) -> object:
    pools = [Pool(provisioner=a_provisioner(name, zones=("z1", "z2"))) for name in ("x", "y")]
    return find_demand(engine_of(assigner), pools, [*pods[:3], gang(pods[3:])], now=NOW)


def room(assigner: PodAssigner, _: list[Pod]) -> object:
    pods = {name: tuple(assigner.snapshot.pods_on(name)) for name in NODES[:3]}
    with assigner.snapshot.what_if():
        return finish(unplaceable_pods(assigner, DisplacedPods(nodes=pods), now=NOW))


def drain(assigner: PodAssigner, _: list[Pod]) -> object:
    return plan_drain(assigner, DrainInputs(), DrainPolicy(used_milli=Milli(1000)), FRESH, UNLIMITED, now=NOW)


QUESTIONS: dict[str, Question] = {
    "which-rows-fit": lambda assigner, pods: [engine_of(assigner).codes(pod, now=NOW) for pod in pods],
    "the-best-node": lambda assigner, pods: [engine_of(assigner).place(pod, now=NOW) for pod in pods],
    "one-node": lambda assigner, pods: [engine_of(assigner).place_on(pod, "a", now=NOW) for pod in pods],
    "every-node-s-verdict": lambda assigner, pods: [engine_of(assigner).explain(pod, now=NOW) for pod in pods],
    "a-gang": a_gang_is_tried,
    "victims": lambda assigner, pods: [preempt(engine_of(assigner), pod, PreemptionContext(), now=NOW) for pod in pods],
    "nodes-to-buy": scale_up,
    "nodes-to-drain": drain,
    "pods-without-a-place": room,
    "an-explanation": lambda assigner, pods: explain_pod(assigner.snapshot, pods[0], PlanInputs(), now=NOW),
}


@pytest.mark.parametrize("question", [pytest.param(one, id=name) for name, one in QUESTIONS.items()])
@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32))
@example(seed=62701279)  # a victim holds a GPU that its node does not report any more
def test_a_question_changes_nothing(question: Question, seed: int) -> None:
    rng, snapshot = Random(seed), ClusterSnapshot()
    for _ in range(40):
        snapshot.apply(a_step(rng, snapshot.state))
    pods = [a_waiting(rng, f"new-{number}") for number in range(5)]
    for pod in pods:
        snapshot.apply(Added(pod.key, pod))
    assigner = PodAssigner(snapshot)
    before = everything(snapshot)
    mix = dict(assigner.engine.mix.weights)
    question(assigner, pods)
    assert assigner.engine.mix.weights == mix
    assert everything(snapshot) == before
    assert not list(drifted(snapshot))
