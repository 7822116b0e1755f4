"""A node that is being emptied is still there for those who count domains; and rules about other pods hold."""

from typing import Any

import pytest

from tests.decide.draining.fleets import going, node, planned, pod, staying
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.selector import Operator, Requirement, Selector
from ullage.model.shape import Shape
from ullage.model.shape_terms import PodMatcher, PodTerm, SpreadConstraint

WEB = Selector((Requirement("app", Operator.IN, ("web",)),))
HOST, ZONE = "kubernetes.io/hostname", "zone"


def spread(name: str, on: str, key: str = HOST, **more: Any) -> Pod:
    constraint = SpreadConstraint(topology_key=key, selector=WEB, **more)
    labels = (("app", "web"),)
    shape = Shape(requests=(("cpu", 1000),), spread=(constraint,), namespace="n", labels=labels)
    return pod(name, on, cpu=0, shape=shape, labels={"app": "web"})


def avoiding(name: str, on: str, key: str = HOST) -> Pod:
    term = PodTerm(topology_key=key, pods=PodMatcher(namespaces=("n",), selector=WEB))
    shape = Shape(requests=(("cpu", 1000),), away=(term,), namespace="n", labels=(("app", "web"),))
    return pod(name, on, cpu=0, shape=shape, labels={"app": "web"})


def busy(name: str, **facts: Any) -> list[Node | Pod]:
    """A node that is used too much to go, with room."""
    return [node(name, **facts), pod(f"busy-{name}", name, cpu=6)]


@pytest.mark.parametrize(("honors", "goes"), [(False, False), (True, True)], ids=["ignored-taints", "honored-taints"])
def test_a_node_that_is_being_emptied_is_a_domain_unless_taints_count(honors: bool, goes: bool) -> None:
    # One on each of three nodes: a second one on b or c is too much while a is counted, with none.
    fleet = [node("a"), *busy("b"), *busy("c"), *(spread(f"p{n}", n, honors_taints=honors) for n in "abc")]
    assert bool(going(planned(*fleet))) is goes


def test_candidates_of_one_loop_are_ghosts_together() -> None:
    fleet = [node("a"), node("b"), *busy("c"), *busy("d"), *(spread(f"p{n}", n, honors_taints=True) for n in "abcd")]
    plan = planned(*fleet)
    assert going(plan) == {"a": {"pa": "d"}, "b": {"pb": "c"}}


def test_zones_that_keep_a_node_are_no_obstacle() -> None:
    east, west = {"zone": "east"}, {"zone": "west"}
    fleet = [node("a", labels=east), *busy("b", labels=east), *busy("c", labels=west)]
    fleet += [spread("p", "a", ZONE), spread("q", "c", ZONE)]
    assert going(planned(*fleet)) == {"a": {"p": "b"}}


def test_pods_that_avoid_each_other_are_not_put_together() -> None:
    fleet = [node("a"), node("b"), *busy("c"), avoiding("p", "a"), avoiding("q", "b")]
    plan = planned(*fleet)
    assert going(plan) == {"a": {"p": "c"}}
    assert staying(plan)["b"] == "NoPlaceToMovePods"


def test_pods_others_keep_away_are_asked_one_by_one() -> None:
    plain = pod("plain", "a", labels={"app": "web"})
    fleet = [node("a"), *busy("c"), plain, avoiding("p", "c")]
    assert staying(planned(*fleet))["a"] == "NoPlaceToMovePods"
