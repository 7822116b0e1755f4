"""Nominated pods: the room that is being made for them is theirs, for all who are not more important."""

import pytest
from msgspec import structs

from tests.decide.preemption.fleets import GIB, NOW, a_node, a_pod, digest, fleet, leased
from ullage.decide.gang.placement import GangNoFit, GangPlacement, GangRequest
from ullage.decide.placement.engine import NoFit, Placement, PlacementEngine
from ullage.decide.preemption.nominated import place_beside_nominated
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.claim import DevicePolicy, DeviceRequest, Exclusivity, TopologyMode
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.selector import Operator, Requirement, Selector
from ullage.model.shape import Shape
from ullage.model.shape_terms import PodMatcher, PodTerm
from ullage.model.units import Bytes
from ullage.model.verdict import Reason

HOST = "kubernetes.io/hostname"


def placed_on(engine: PlacementEngine, pod: Pod, *nominated: Pod) -> str:
    """The node and its GPUs, or the reasons there are none."""
    before = digest(engine.snapshot)
    answer = place_beside_nominated(engine, pod, nominated, now=NOW)
    assert digest(engine.snapshot) == before
    if isinstance(answer, NoFit):
        return " ".join(answer.reasons)
    return f"{answer.node} {','.join(map(str, answer.choice.ids if answer.choice else ()))}"


@pytest.mark.parametrize(
    ("priority", "expected"),
    [
        pytest.param(9, "InsufficientResources", id="a-lower-one-waits"),
        pytest.param(10, "InsufficientResources", id="an-equal-one-waits"),
        pytest.param(11, "a 0", id="a-higher-one-goes-first"),
    ],
)
def test_room_that_has_been_made_is_kept(priority: int, expected: str) -> None:
    nominated = a_pod("first", gpus=2, priority=10, nominated="a")
    assert placed_on(fleet(leased("a", 2)), a_pod("p", gpus=1, priority=priority), nominated) == expected


def test_exactly_the_gpus_are_kept_that_are_being_freed() -> None:
    """GPU 0 and 1 are to be one island for the nominated pod; GPU 0 is already free, 1 is not yet."""
    linked, first = (
        DeviceRequest(topology=TopologyMode.REQUIRED),
        DeviceRequest(policy=DevicePolicy.PREFER_IDS, prefer_ids=(0,)),
    )
    nominated = a_pod("first", gpus=2, priority=10, nominated="a", ask=linked)
    leaving = a_pod("old", on="a", gpus=(1,), deleting=True)
    other = a_pod("other", on="a", gpus=(3,), priority=20)
    engine = fleet(leased("a", 2, 2, 1), leaving, other)
    assert placed_on(engine, a_pod("p", gpus=1, ask=first)) == "a 0"
    assert placed_on(engine, a_pod("p", gpus=1, ask=first), nominated) == Reason.PREFERRED_GPUS_TAKEN
    assert placed_on(engine, a_pod("p", gpus=1), nominated) in ("a 2", "a 4")


@pytest.mark.parametrize("nominated", [True, False], ids=["nominated", "nobody-nominated"])
def test_a_part_of_a_gpu_is_not_taken_from_one_that_waits_for_the_last_containers_of_its_victims(
    nominated: bool,
) -> None:
    """What holds GPU 0 is no pod that leaves: which GPUs the nominated pod gets is not known yet."""
    engine = fleet(leased("a", 2), a_pod("seen in use", on="a", gpus=(0,), priority=99))
    victim = a_pod("p", gpus=1, ask=DeviceRequest(exclusivity=Exclusivity.SHARED, memory=Bytes(20 * GIB)))
    first = [a_pod("first", gpus=2, priority=10, nominated="a")] if nominated else []
    assert placed_on(engine, victim, *first) == (Reason.TOO_FEW_GPUS if nominated else "a 1")
    gang = GangRequest(key=ObjectKey("n", "g"), min_member=1, pending=(victim,))
    answer = PodAssigner(engine.snapshot, "fragmentation").assign_gang(gang, first, now=NOW)
    assert isinstance(answer, GangNoFit if nominated else GangPlacement)


def test_room_is_kept_before_its_victims_are_seen_to_leave() -> None:
    nominated = a_pod("first", gpus=1, priority=10, nominated="a")
    engine = fleet(leased("a", 2), a_pod("old", on="a", gpus=(0,)))
    assert placed_on(engine, a_pod("p", gpus=1)) == "a 1"
    assert placed_on(engine, a_pod("p", gpus=1), nominated) == "InsufficientResources"
    linked = a_pod("first", gpus=2, priority=10, nominated="a")
    assert placed_on(engine, a_pod("p", gpus=1), linked) == "InsufficientResources"


def test_a_nominated_pod_is_not_in_its_own_way_and_its_node_comes_first() -> None:
    engine = fleet(leased("a", 1), leased("b", 4))
    for node in "ab":
        pod = a_pod("p", gpus=1, nominated=node)
        assert placed_on(engine, pod, pod) == f"{node} 0"
    pod = a_pod("p", gpus=2, nominated="a")
    assert placed_on(engine, pod, pod) == "b 0,1", "its node will not do, so another is taken"


def test_nominations_that_mean_nothing_are_passed_over() -> None:
    gone = a_pod("first", gpus=2, priority=10, nominated="gone")
    there = a_pod("there", on="a", gpus=(0,))
    placed = structs.replace(there, nominated="a", node="", gpu_ids=())
    assert placed_on(fleet(leased("a", 2), there), a_pod("p", gpus=1), gone, placed) == "a 1"


def test_the_seat_must_do_without_them_too() -> None:
    """The pod wants to be near one that is only nominated: it may never come."""
    near = PodTerm(
        topology_key=HOST,
        pods=PodMatcher(namespaces=("n",), selector=Selector((Requirement("app", Operator.IN, ("x",)),))),
    )
    pod = a_pod("p", shape=Shape(near=(near,), namespace="n"))
    nominated = a_pod("first", priority=10, nominated="a", labels={"app": "x"})
    engine = fleet(a_node("a", labels={HOST: "a"}))
    assert placed_on(engine, pod, nominated) == Reason.POD_AFFINITY_UNMET
    there = structs.replace(nominated, node="a", nominated="")
    assert isinstance(
        place_beside_nominated(fleet(a_node("a", labels={HOST: "a"}), there), pod, (), now=NOW), Placement
    )
