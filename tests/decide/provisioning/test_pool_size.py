"""Stage one: sizes."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.decide.provisioning.pools import a_node, a_provisioner, nodes
from ullage.decide.provisioning.pool_size import evaluate
from ullage.model.provisioner import PoolNode


@pytest.mark.parametrize(
    ("pool", "limits", "wanted", "target"),
    [
        pytest.param(nodes(80, 40), {}, 0, 100, id="below-target-shrinks-to-eighty-percent"),
        pytest.param(nodes(96, 24), {}, 0, 120, id="exactly-at-target-stays"),
        pytest.param(nodes(95, 25), {}, 0, 118, id="a-percent-below-rounds-down"),
        pytest.param(nodes(10, 0), {}, 2, 12, id="demand-raises-by-the-nodes-it-needs"),
        pytest.param(nodes(10, 0), {"max_size": 11}, 2, 11, id="never-past-the-maximum"),
        pytest.param(nodes(0, 4), {}, 0, 0, id="nothing-in-use-keeps-nothing"),
        pytest.param(nodes(0, 4), {"min_size": 3}, 0, 3, id="but-the-minimum"),
        pytest.param(nodes(0, 1), {"min_size": 3}, 0, 3, id="which-is-bought"),
        pytest.param(nodes(0, 4), {"min_unutilized_nodes": 2}, 0, 2, id="and-the-empty-ones-to-be-kept"),
        pytest.param(nodes(8, 1), {"min_unutilized_nodes": 5}, 0, 9, id="which-are-never-bought"),
        pytest.param(nodes(8, 0), {"min_unutilized_nodes": 5}, 1, 9, id="not-even-beside-others"),
        pytest.param(nodes(8, 8), {"min_unutilized_nodes": 3}, 0, 11, id="kept-beside-those-in-use"),
        pytest.param(nodes(1, 9), {"min_utilization_percent": 0}, 0, 10, id="no-threshold-never-shrinks"),
        pytest.param(nodes(9, 3), {"max_size": 10}, 0, 10, id="a-lowered-maximum-shrinks"),
        pytest.param([], {}, 3, 3, id="from-nothing"),
        pytest.param(nodes(8, 2, of=8), {}, 0, 10, id="nodes-of-eight-gpus-at-target"),
        pytest.param(nodes(7, 3, of=8), {}, 0, 8, id="nodes-of-eight-gpus-below-it"),
    ],
)
def test_target(pool: list[PoolNode], limits: dict[str, Any], wanted: int, target: int) -> None:
    assert evaluate(pool, a_provisioner(**limits).thresholds, wanted=wanted).target == target


def test_tainted_nodes_count_in_utilisation() -> None:
    marked_for_deletion = [replace(node, delete_after=9.0) for node in nodes(0, 20)]
    named = [replace(node, name=f"doomed-{place}") for place, node in enumerate(marked_for_deletion)]
    evaluation = evaluate([*nodes(80, 20), *named], a_provisioner().thresholds)
    assert (evaluation.utilization_percent, evaluation.current, evaluation.target) == (66, 120, 100)


def test_pods_assumed_on_coming_nodes_count_as_there() -> None:
    coming = [a_node(f"c{place}", assumed=1000, empty=False, registered=False, upcoming=True) for place in range(10)]
    assert evaluate(coming, a_provisioner().thresholds).target == 10


def test_a_little_used_on_every_node_does_not_starve_a_pod_that_needs_a_whole_one() -> None:
    crumbs = [a_node(f"n{place}", used=1, of=8) for place in range(10)]
    limits = a_provisioner().thresholds
    assert evaluate(crumbs, limits).target == 10, "no node that a pod is on can go"
    assert evaluate(crumbs, limits, wanted=1).target == 11


def test_instances_given_up_on_are_no_nodes_but_leave_no_room_either() -> None:
    pool = [*nodes(3, 0), a_node("lost", failed_to_register=True, registered=False)]
    evaluation = evaluate(pool, a_provisioner(max_size=5).thresholds, wanted=2)
    assert (evaluation.current, evaluation.fresh, evaluation.target) == (3, 1, 4)


def test_the_why_says_what_decided() -> None:
    limits = a_provisioner(min_unutilized_nodes=5).thresholds
    assert evaluate(nodes(10, 10), limits).why == (
        "10 GPUs in use are 50 %, below 80 %: 12 nodes meet it; 15 stay for minUnutilizedGPUNodes beside 10 in use"
    )


@pytest.mark.parametrize(
    ("limits", "wanted", "pending", "why"),
    [
        pytest.param(
            {}, 3, 11, "scale up by 3: 11 pending pods fit no existing or upcoming node", id="pods-that-fit-nowhere"
        ),
        pytest.param({}, 1, 1, "scale up by 1: 1 pending pod fits no existing or upcoming node", id="one-of-them"),
        pytest.param({"min_size": 4}, 0, 0, "scale up by 2 to minSize 4", id="the-minimum"),
        pytest.param(
            {"min_size": 4},
            5,
            9,
            "scale up by 5: 9 pending pods fit no existing or upcoming node; 2 of them to minSize 4",
            id="both",
        ),
    ],
)
def test_why_nodes_are_bought(limits: dict[str, Any], wanted: int, pending: int, why: str) -> None:
    found = evaluate(nodes(2, 0), a_provisioner(**limits).thresholds, wanted=wanted, pending=pending)
    assert (found.why, found.why_keep) == (why, "all are wanted")
