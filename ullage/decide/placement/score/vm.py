"""Score of a node for a VM pod: a curve over how full the node would be, with a peak. See docs/vms.md, Scheduling.

Below the peak fuller nodes score higher, so that VMs pack; above it lower, so that VMs keep room to grow.
"""

import numpy as np
import numpy.typing as npt

from ullage.model.vm import LedgerRow, NodeLedger, VmAmounts
from ullage.model.vm_scoring import VmScoring
from ullage.state.vm_room import VmRoom

BEST = 100


def vm_score(node: NodeLedger, pod: VmAmounts, largest: VmAmounts, scoring: VmScoring) -> int:
    """Score from 0 to 100 of a node with the pod on it; the worse resource counts. 0 if the pod does not fit.

    `largest` is the most that any node has.
    """
    if not pod.within(node.free):
        return 0
    return min(
        _resource(node.cpu, pod.cpu, largest.cpu, scoring), _resource(node.memory, pod.memory, largest.memory, scoring)
    )


def relief_score(node: NodeLedger, pod: VmAmounts, largest: VmAmounts) -> int:
    """Score from 0 to 100 of a node as target of a migration: the more is left below its watermark, the better.

    0 where the pod would bring the node above it. A target near its peak is under pressure soon, and moves VMs on.
    """
    return min(_left(node.cpu, pod.cpu, largest.cpu), _left(node.memory, pod.memory, largest.memory))


def _left(row: LedgerRow, more: int, largest: int) -> int:
    left = row.watermark - row.reserved - more
    return 0 if left < 0 or not largest else 1 + (BEST - 1) * left // largest


def _resource(row: LedgerRow, more: int, largest: int, scoring: VmScoring) -> int:
    if not row.reservable or not largest:
        return 0
    used = (row.reserved + more) / row.reservable
    value = scoring.value(used, row.watermark / row.reservable)
    return max(0, int(BEST * value * row.total / largest))


def vm_scores(room: VmRoom, pod: VmAmounts, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    """`vm_score` of rows, all at once."""
    columns = room.ledger_columns()
    worst = np.full(len(rows), BEST, np.int64)
    for more, row in zip((pod.cpu, pod.memory), columns, strict=True):
        total, reservable, reserved = row.total[rows], row.reservable[rows], row.reserved[rows]
        largest = int(row.total.max(initial=0))
        if not largest:
            return np.zeros(len(rows), np.int64)
        used = (reserved + more) / np.maximum(reservable, 1)
        watermark = row.watermark[rows] / np.maximum(reservable, 1)
        score = (BEST * room.scoring.values(used, watermark) * total / largest).astype(np.int64)
        np.maximum(score, 0, out=score)
        score[(reservable == 0) | (more > np.maximum(0, reservable - reserved))] = 0
        worst = np.minimum(worst, score)
    return worst


def relief_scores(room: VmRoom, pod: VmAmounts, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    """`relief_score` of rows, all at once."""
    worst = np.full(len(rows), BEST, np.int64)
    for more, row in zip((pod.cpu, pod.memory), room.ledger_columns(), strict=True):
        largest = int(row.total.max(initial=0))
        if not largest:
            return np.zeros(len(rows), np.int64)
        left = row.watermark[rows] - row.reserved[rows] - more
        worst = np.minimum(worst, np.where(left < 0, 0, 1 + (BEST - 1) * left // largest))
    return worst
