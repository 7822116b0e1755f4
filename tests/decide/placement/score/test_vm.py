"""The score of a node for a VM pod: the curve, the worse resource, the node's size."""

import pytest

from tests.vms import a_row
from ullage.decide.placement.score.vm import relief_score, vm_score
from ullage.model.vm import NodeLedger, VmAmounts
from ullage.model.vm_scoring import VmScoring

CURVE = VmScoring(min_usage_score=0.5, max_usage_score=0.0, score_peak=0.8)
LARGEST = VmAmounts(100, 100)


def a_node(cpu: int, memory: int, total: int = 100) -> NodeLedger:
    return NodeLedger(a_row(total=total, system=0, reserved=cpu), a_row(total=total, system=0, reserved=memory))


@pytest.mark.parametrize(
    ("used", "expected"),
    [(0.0, 0.5), (0.4, 0.75), (0.8, 1.0), (0.9, 0.5), (1.0, 0.0)],
    ids=["empty", "half-way-up", "peak", "half-way-down", "full"],
)
def test_the_curve(used: float, expected: float) -> None:
    assert CURVE.value(used) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("node", "score"),
    [
        pytest.param(a_node(70, 70), 100, id="the-pod-brings-it-to-the-peak"),
        pytest.param(a_node(30, 70), 75, id="the-worse-resource-counts"),
        pytest.param(a_node(85, 70), 25, id="nearly-full"),
        pytest.param(a_node(91, 0), 0, id="no-room"),
        pytest.param(a_node(30, 30, total=50), 50, id="half-as-large-as-the-largest"),
        pytest.param(a_node(0, 0, total=0), 0, id="nothing-to-reserve"),
    ],
)
def test_a_node_is_scored_with_the_pod_on_it(node: NodeLedger, score: int) -> None:
    assert vm_score(node, VmAmounts(10, 10), LARGEST, CURVE) == score


def test_an_overfull_node_scores_nothing() -> None:
    assert vm_score(a_node(130, 130), VmAmounts(0, 1), LARGEST, CURVE) == 0


@pytest.mark.parametrize(
    "bad", [{"min_usage_score": 1.1}, {"max_usage_score": -0.1}, {"score_peak": 0.0}, {"score_peak": 1.0}], ids=str
)
def test_a_curve_that_is_none_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        VmScoring(**bad)


@pytest.mark.parametrize(
    ("reserved", "score"),
    [
        pytest.param((0, 0), 1 + 99 * 70 // 100, id="empty"),
        pytest.param((30, 50), 1 + 99 * 20 // 100, id="the-worse-resource-counts"),
        pytest.param((70, 0), 1, id="up-to-the-watermark"),
        pytest.param((71, 0), 0, id="above-the-watermark"),
    ],
)
def test_a_target_of_a_migration_scores_by_what_is_left_below_its_watermark(
    reserved: tuple[int, int], score: int
) -> None:
    cpu, memory = (a_row(total=100, system=0, watermark=80, reserved=one) for one in reserved)
    assert relief_score(NodeLedger(cpu, memory), VmAmounts(10, 10), LARGEST) == score
