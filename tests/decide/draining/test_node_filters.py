"""Who may be a destination and who a candidate, by filters that narrow both."""

from collections.abc import Sequence

import pytest

from tests.decide.draining.fleets import Told, a_picture, going, node, planned, pod, staying
from ullage.decide.draining.inputs import LabelledNodes, pod_destinations, scale_down_candidates
from ullage.decide.draining.relocation import DisplacedPods, unplaceable_pods
from ullage.model.fact_event import ObjectKey
from ullage.model.node import Node
from ullage.model.stepper import finish
from ullage.model.units import Instant

OLD, NEW = {"generation": "old"}, {"generation": "new"}
NODES = {one.name: one for one in (node("a", labels=OLD), node("b", labels=OLD), node("c", labels=NEW))}


class AllButTheFirst:
    """A filter of somebody's own."""

    def pod_destination_candidates(self, nodes: Sequence[Node]) -> Sequence[Node]:
        return nodes[1:]

    def scale_down_candidates(self, nodes: Sequence[Node]) -> Sequence[Node]:
        return nodes[1:]


def test_without_filters_all_of_them() -> None:
    assert pod_destinations((), NODES) is None
    assert scale_down_candidates((), NODES, {"a", "c", "gone"}) == {"a", "c"}


def test_filters_narrow_what_is_left_one_after_the_other() -> None:
    filters = (LabelledNodes(candidates=OLD, destinations=NEW), AllButTheFirst())
    assert scale_down_candidates(filters, NODES, NODES) == {"b"}
    assert pod_destinations(filters, NODES) == frozenset()
    assert pod_destinations(filters[:1], NODES) == frozenset({"c"})


def test_pods_are_planned_to_go_only_to_destinations() -> None:
    fleet: list[Told] = [*NODES.values(), pod("p", "a"), pod("q", "b"), pod("r", "c", cpu=6)]
    assert going(planned(*fleet))["a"] == {"p": "c"}
    assert staying(planned(*fleet, destinations=frozenset())) == {
        "a": "NoPlaceToMovePods",
        "b": "NoPlaceToMovePods",
        "c": "NotUnderutilized",
    }
    only_b = planned(*fleet, destinations={"b"})
    assert (going(only_b), staying(only_b)["b"]) == ({"a": {"p": "b"}}, "DestinationOfOthers")


def test_a_node_that_could_not_be_emptied_is_no_destination_afterwards_either() -> None:
    fleet: list[Told] = [node("a"), node("b"), pod("p", "a", cpu=4), pod("q", "b", cpu=3)]
    assert going(planned(*fleet, destinations=frozenset())) == {}


@pytest.mark.parametrize(
    ("destinations", "expected"),
    [pytest.param(None, {}, id="all"), pytest.param(frozenset[str](), {"a": ObjectKey("n", "p")}, id="none")],
)
def test_those_who_are_about_to_be_evicted_need_a_place_on_a_destination(
    destinations: frozenset[str] | None, expected: dict[str, ObjectKey]
) -> None:
    assigner = a_picture(node("a"), node("b"), pod("p", "a"))
    leaving = DisplacedPods(nodes={"a": [ObjectKey("n", "p")]}, destinations=destinations)
    with assigner.snapshot.what_if():
        assert finish(unplaceable_pods(assigner, leaving, now=Instant(0.0))) == expected
