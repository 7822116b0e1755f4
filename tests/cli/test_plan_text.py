"""Plans for people: many pods of a workload in one row, equal refusals once, columns explained."""

import pytest

from ullage.cli.plan_drain import as_lines as drain_lines
from ullage.cli.plan_scale import as_lines as scale_lines
from ullage.cli.plan_schedule_text import MOST_ROWS, plan_lines, workload_of
from ullage.decide.draining.inputs import DrainPlan, PlannerMemory
from ullage.decide.explain.plan_scale import ScalePlan
from ullage.decide.explain.plan_schedule import PlannedPlacement, SchedulePlan, UnschedulablePod
from ullage.decide.explain.rejections import NodeRejections
from ullage.decide.placement.engine import Placement
from ullage.decide.provisioning.node_offers import ScaleUpBlocked
from ullage.model.draining import UnremovableNode, UnremovableReason
from ullage.model.fact_event import ObjectKey
from ullage.model.verdict import Reason


@pytest.mark.parametrize(
    ("name", "workload"),
    [
        pytest.param("train-0", "team/train-*", id="a-number"),
        pytest.param("web-7d4b9c6f5d-x2k4p", "team/web-*", id="a-deployment"),
        pytest.param("batch-job-2-x2k4p", "team/batch-job-*", id="an-indexed-job"),
        pytest.param("notebook", "team/notebook", id="a-pod-alone"),
        pytest.param("train-large", "team/train-large", id="a-word"),
    ],
)
def test_the_workload_of_a_pod(name: str, workload: str) -> None:
    assert workload_of(ObjectKey("team", name)) == workload


def placed(count: int) -> tuple[PlannedPlacement, ...]:
    return tuple(
        PlannedPlacement(ObjectKey("team", f"serve-{n}"), Placement(node=f"node-{n % 5}", choice=None))
        for n in range(count)
    )


def test_few_pods_have_a_row_each_and_the_columns_are_explained() -> None:
    lines = plan_lines(SchedulePlan(placed(2), (), ()))
    assert lines[0].split() == ["POD", "NODE", "GPUS", "ISLANDS", "SCORE"]
    assert any(line.startswith("ISLANDS: ") and "SCORE: " in line for line in lines)


def test_many_pods_of_a_workload_are_one_row() -> None:
    lines = plan_lines(SchedulePlan(placed(MOST_ROWS + 1), (), ()))
    assert lines[0].split() == ["WORKLOAD", "PODS", "GPUS", "NODES"]
    assert lines[1].split() == ["team/serve-*", "21", "-", "node-0,", "node-1,", "node-2", "and", "2", "more"]
    assert len(plan_lines(SchedulePlan(placed(MOST_ROWS + 1), (), ()), every=True)) > MOST_ROWS


def test_equal_refusals_are_told_once() -> None:
    why = (NodeRejections(Reason.GPU_MODEL_MISMATCH, 260, "node-a", "L4 asked"),)
    pods = tuple(UnschedulablePod(ObjectKey("team", f"train-{n}"), why, ("add a pool with L4",)) for n in range(369))
    lines = plan_lines(SchedulePlan((), pods, ()))
    assert lines == [
        "team/train-* (369 pods) have no place",
        "  260 nodes   GpuModelMismatch   node-a: L4 asked",
        "  helps: add a pool with L4",
        "",
        "0 placed, 369 without a place",
    ]


def test_many_pods_without_a_node_of_one_workload_are_one_line() -> None:
    refused = {"pool": ScaleUpBlocked.FULL}
    unmet = {ObjectKey("team", f"train-{n}"): refused for n in range(5)}
    plan = ScalePlan(steps=(), unmet=unmet, sizes={"pool": (2, 2)}, settled=True)
    assert scale_lines(plan) == ["team/train-* (5 pods) stay without a node (pool: MaxSizeReached)", "pool 2 -> 2"]


def test_many_nodes_that_stay_for_one_reason_are_one_row() -> None:
    reason = next(iter(UnremovableReason))
    staying = tuple(UnremovableNode(node=f"node-{n:02d}", reason=reason) for n in range(30))
    plan = DrainPlan(removable=(), unremovable=staying, budgets_left={}, memory=PlannerMemory())
    assert drain_lines(plan)[1].split()[:4] == ["node-00", "and", "29", "more"]
