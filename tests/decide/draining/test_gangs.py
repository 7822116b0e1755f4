"""A gang is drained whole or left alone."""

from typing import Any

from tests.decide.draining.fleets import answer, going, gpu_node, node, planned, pod, staying
from ullage.decide.draining.inputs import DrainPolicy
from ullage.model.claim import Claim, DeviceRequest, TopologyMode
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.pod_marks import SafeToEvict
from ullage.model.units import Milli
from ullage.state.cluster import Fact

LOW = DrainPolicy(gpu_used_milli=Milli(250))
"""Nodes with one GPU of four in use are candidates, those with two are not."""


def claim(name: str, least: int) -> Claim:
    ask = DeviceRequest(count=1, topology=TopologyMode.IGNORE)
    return Claim(key=ObjectKey("n", name), uid=name, generation=1, ask=ask, gang="g", gang_min_member=least)


def member(name: str, on: str, gpu: int = 0, **facts: Any) -> Pod:
    return pod(name, on, gpus=(gpu,), claim=f"c-{name}", **facts)


def gang(least: int, **homes: str) -> list[Fact]:
    return [one for name, on in homes.items() for one in (claim(f"c-{name}", least), member(name, on))]


def alone(name: str, on: str, gpu: int) -> Pod:
    return pod(name, on, gpus=(gpu,))


def test_all_members_move_when_one_has_to_wherever_they_are() -> None:
    fleet = [gpu_node("a"), gpu_node("b"), gpu_node("c", 8), *gang(2, m="a", o="b"), alone("x", "b", 1)]
    fleet += [alone(f"y{place}", "c", place) for place in range(3)]
    plan = planned(*fleet, policy=LOW)
    assert going(plan) == {"a": {"m": "c", "o": "c"}}
    assert staying(plan) == {"b": "NotUnderutilized", "c": "NotUnderutilized"}


def test_every_node_that_goes_lists_the_whole_gang() -> None:
    fleet = [gpu_node("a"), gpu_node("b"), gpu_node("c", 8), *gang(2, m="a", o="b")]
    fleet += [alone(f"y{place}", "c", place) for place in range(3)]
    plan = planned(*fleet, policy=LOW)
    whole = {"m": "c", "o": "c"}
    assert going(plan) == {"a": whole, "b": whole}


def test_members_beyond_what_the_gang_needs_go_one_by_one() -> None:
    fleet = [gpu_node("a"), gpu_node("b"), gpu_node("c", 8), *gang(1, m="a", o="b"), alone("x", "b", 1)]
    fleet += [alone(f"y{place}", "c", place) for place in range(3)]
    assert going(planned(*fleet, policy=LOW)) == {"a": {"m": "c"}}


def test_a_gang_stays_if_one_of_its_members_has_to() -> None:
    pinned = member("o", "b", marks={"safe_to_evict": SafeToEvict.NO})
    fleet = [gpu_node("a"), gpu_node("b"), gpu_node("c", 8), *gang(2, m="a"), claim("c-o", 2), pinned]
    plan = planned(*fleet, policy=LOW)
    assert staying(plan)["a"] == "GangStays"
    assert answer(plan, "a").pod == ObjectKey("n", "o")
    assert answer(plan, "a").detail == "gang n/g moves whole, and a member on b does not: NotSafeToEvict"


def test_a_gang_stays_if_one_of_its_members_would_have_no_place() -> None:
    tight = [gpu_node("a"), gpu_node("b"), gpu_node("c", 4), *gang(2, m="a", o="b"), node("cpu", 1)]
    tight += [alone(f"x{place}", "b", place) for place in (1, 2, 3)]
    tight += [alone(f"y{place}", "c", place) for place in (0, 1, 2, 3)]
    # o could come back to b, where it was; m has nowhere to go.
    assert staying(planned(*tight, policy=LOW))["a"] == "NoPlaceToMovePods"


def test_a_gang_of_unknown_size_stays() -> None:
    plan = planned(gpu_node("a"), gpu_node("b"), *gang(0, m="a"), policy=LOW)
    assert staying(plan)["a"] == "GangStays"
