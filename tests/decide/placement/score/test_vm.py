"""The score of a node for a VM pod: the curve, the worse resource, the node's size."""

import numpy as np
import pytest

from tests.vms import a_row
from ullage.decide.placement.score.vm import relief_score, vm_score
from ullage.model.vm import NodeLedger, VmAmounts
from ullage.model.vm_scoring import VmScoring

CURVE = VmScoring(min_usage_score=0.5, max_usage_score=0.0, score_peak=0.8)
LARGEST = VmAmounts(100, 100)


def a_node(cpu: int, memory: int, total: int = 100) -> NodeLedger:
    cpu_row, memory_row = (a_row(total=total, system=0, watermark=total, reserved=one) for one in (cpu, memory))
    return NodeLedger(cpu_row, memory_row)


@pytest.mark.parametrize(
    ("used", "expected"),
    [(0.0, 0.5), (0.4, 0.75), (0.8, 1.0), (0.9, 0.5), (1.0, 0.0)],
    ids=["empty", "half-way-up", "peak", "half-way-down", "full"],
)
def test_the_curve(used: float, expected: float) -> None:
    assert CURVE.value(used) == pytest.approx(expected)


def test_the_peak_is_never_above_the_watermark() -> None:
    """Nodes packed above their watermark would move VMs away at once."""
    used = [0.2, 0.5, 0.6, 0.8]
    found = [CURVE.value(one, 0.5) for one in used]
    assert found.index(max(found)) == 1
    assert found[1] == pytest.approx(1.0)
    assert CURVE.values(np.array(used), np.full(4, 0.5)) == pytest.approx(found)
    assert CURVE.values(np.array(used), 0.0) == pytest.approx([1 - one for one in used]), "no room below it at all"


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
