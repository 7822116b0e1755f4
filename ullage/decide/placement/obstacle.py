"""The obstacle: of all the reasons for which nodes refuse a pod, the one that its owner has to know.

This is the one ranking of reasons. Events, conditions, metrics, `explain`, `plan` and the dashboard all say what is
found here. Each node is found by every rule, not only by the first that refuses it, and is as far from taking the
pod as the worst of its reasons (`CuredBy`). The nodes that are nearest speak: what they lack is the obstacle.
So a full node of the wrong model does not say that it is full, and a cordoned node that is too small does not say that
it is cordoned. A limit is the obstacle only where nothing else is in the way.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ullage.decide.placement.engine import PlacementEngine, RejectedRows
from ullage.decide.placement.filters import masks
from ullage.decide.placement.filters.codes import CODE, FITS, REASONS, Codes
from ullage.decide.placement.filters.node_terms import UNSCHEDULABLE, untolerated
from ullage.decide.placement.reasons import REASON_INFO
from ullage.model.pod import Pod
from ullage.model.resources import GPU
from ullage.model.shape import Shape
from ullage.model.units import Instant
from ullage.model.verdict import CuredBy, Reason
from ullage.state.node_columns import UNREADY_TAINTS
from ullage.state.snapshot import ClusterSnapshot

NO_NODES = "NoNodes"
"""Word where the cluster has no nodes at all: no rule refused."""

MOST_KEPT = 1024
KEPT_FOR = 5.0
"""Seconds for which a known obstacle is not looked for again while only nodes changed, not the reasons they give."""

_TOO_SMALL, _FULL = CODE[Reason.NODE_TOO_SMALL], CODE[Reason.INSUFFICIENT_RESOURCES]
_NO_GPUS, _UNREPORTED = CODE[Reason.NO_GPUS], CODE[Reason.INVENTORY_MISSING]
_UNLABELLED = CODE[Reason.NODE_SELECTOR_MISMATCH]
_STARTING, _UNREADY = CODE[Reason.NODE_STARTING], CODE[Reason.NODE_NOT_READY]
_CORDONED, _TAINTED = CODE[Reason.NODE_UNSCHEDULABLE], CODE[Reason.TAINT_NOT_TOLERATED]
_OF_STATE = UNREADY_TAINTS | {UNSCHEDULABLE.key}
"""Taints that say again that a node is not ready or is cordoned."""
_UNSUITABLE = frozenset(
    CODE[reason]
    for reason in (
        Reason.NO_GPUS,
        Reason.INVENTORY_MISSING,
        Reason.GPU_MODEL_MISMATCH,
        Reason.GPU_MEMORY_TOO_SMALL,
    )
)
"""Reasons of GPUs that say more than that the node counts too few of them."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Obstacle of a pod: one reason, and the nodes nearest to taking the pod, which give it."""

    reason: Reason | None
    """None where there are no nodes."""
    cured_by: CuredBy = CuredBy.OTHER_NODES
    lasting: bool = False
    """The nodes would refuse the pod for this reason if they were empty."""
    nodes: int = 0
    """Number of nodes that are nearest."""
    example: str = ""
    """The first of them by name."""
    alone: bool = True
    """Nothing else keeps the pod off that node."""

    @property
    def word(self) -> str:
        """One word, for metrics and Events."""
        return NO_NODES if self.reason is None else self.reason.value

    @property
    def headline(self) -> str:
        """One sentence without numbers: the same as long as the obstacle is."""
        if self.reason is None:
            return "there are no nodes"
        return headline_of(self.reason, lasting=self.lasting)


def headline_of(reason: Reason, *, lasting: bool = False) -> str:
    """Sentence on a pod that waits for this reason."""
    info = REASON_INFO[reason]
    said = (info.lasting_headline if lasting else "") or info.headline
    return said or f"{info.words[0].lower()}{info.words[1:].rstrip('.')}"


def nearness(reason: Reason, *, lasting: bool = False) -> CuredBy:
    """Change that lets a node which refuses for this reason take the pod."""
    cured_by = REASON_INFO[reason].cured_by
    return CuredBy.OTHER_NODES if lasting and cured_by is CuredBy.ROOM else cured_by


def main_reason(reasons: Mapping[Reason, int]) -> Reason | None:
    """The nearest of the first reasons of nodes, where no more is known of them; then the most frequent."""
    known = [reason for reason in reasons if reason is not Reason.FITS]
    return min(known, key=lambda one: (nearness(one), -reasons[one], REASONS.index(one)), default=None)


def find_obstacle(engine: PlacementEngine, pod: Pod, *, now: Instant, closed: Codes | None = None) -> Obstacle | None:
    """The obstacle of a pod that holds no room; None if a node fits. `closed` has codes of rows a quota refuses."""
    columns = engine.snapshot.columns
    rejected = _without_implied(engine.rejections(pod, now=now), pod, engine.snapshot)
    if closed is not None:
        rejected += [RejectedRows(code, closed == code) for code in np.unique(closed).tolist() if code != FITS]
    found = _distances(rejected, columns.size, _newcomers(rejected, columns.size))
    order = columns.by_name
    if not len(order):
        return Obstacle(None)
    distance = found.worst[order] * 256 + found.count[order]
    if not distance.min():
        return None
    near = order[distance == distance.min()]
    told, first, counts = np.unique(found.entry[near], return_index=True, return_counts=True)
    codes = [rejected[number].code for number in told.tolist()]
    if found.worst[near[0]] > CuredBy.OTHER_NODES:
        # Rules are in order: a node of the right model without enough memory is nearer than one of another model.
        most = int(np.argmax(codes))
    else:
        most = min(range(len(told)), key=lambda place: (-counts[place], codes[place]))
    entry = rejected[int(told[most])]
    return Obstacle(
        REASONS[entry.code],
        CuredBy(int(found.worst[near[0]]) - 1),
        entry.lasting,
        int(counts[most]),
        columns.names[int(near[int(first[most])])],
        alone=int(found.count[near[0]]) == 1,
    )


def _newcomers(rejected: list[RejectedRows], size: int) -> npt.NDArray[np.bool_]:
    """Rows of nodes of which too little is known to say that they could take the pod, if only it chose them."""
    found = np.zeros(size, np.bool_)
    for code, rows, _ in rejected:
        found |= rows if code in (_STARTING, _UNREPORTED) else False
    return found


def _without_implied(rejected: list[RejectedRows], pod: Pod, snapshot: ClusterSnapshot) -> list[RejectedRows]:
    """Rejections without those that another one says better.

    A node that is too small is not also full; a node that lacks nothing but GPUs says what its GPUs lack; a node that
    is starting has no GPUs yet, unless it counts some; and the taint of a cordoned node, or of one that is not ready,
    is no reason of its own.
    """
    size = snapshot.columns.size
    unsuitable, lacking, small, starting, closed = (np.zeros(size, np.bool_) for _ in range(5))
    for code, rows, _ in rejected:
        small |= rows if code == _TOO_SMALL else False
        lacking |= rows if code >= _NO_GPUS else False
        unsuitable |= rows if code in _UNSUITABLE else False
        starting |= rows if code == _STARTING else False
        closed |= rows if code in (_STARTING, _UNREADY, _CORDONED) else False
    others_fit, others_free = _without_gpus(pod, snapshot)
    open_else = masks.by_condition(
        snapshot, lambda one: untolerated(pod.shape, tuple(t for t in one.taints if t.key not in _OF_STATE)) is None
    )
    kept = {
        _TOO_SMALL: ~((unsuitable | starting) & others_fit) | (_newcomers(rejected, size) & _counts_gpus(snapshot)),
        _FULL: ~(small | (lacking & others_free)),
        _UNREADY: ~starting,
        _TAINTED: ~(closed & open_else),
    }
    spared = [one._replace(rows=one.rows & kept[one.code]) if one.code in kept else one for one in rejected]
    large = ~(small & ~unsuitable)
    return [
        one._replace(rows=one.rows & ~starting & (large | (not one.lasting))) if one.code >= _NO_GPUS else one
        for one in spared
    ]


def _counts_gpus(snapshot: ClusterSnapshot) -> npt.NDArray[np.bool_]:
    """Rows whose kubelet counts GPUs."""
    columns = snapshot.columns
    ((index, _),) = columns.needs([(GPU, 1)])
    counted: npt.NDArray[np.bool_] = columns.allocatable[index, : columns.size] > 0
    return counted


def _without_gpus(pod: Pod, snapshot: ClusterSnapshot) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Rows that have, and that have free, all the pod requests but GPUs."""
    columns = snapshot.columns
    fit, free = np.ones(columns.size, np.bool_), np.ones(columns.size, np.bool_)
    for index, amount in columns.needs([(name, amount) for name, amount in pod.shape.requests if name != GPU]):
        fit &= columns.allocatable[index, : columns.size] >= amount
        free &= columns.free[index, : columns.size] >= amount
    return fit, free


class KnownObstacles:
    """Obstacles by shape and namespace, for a caller that refuses thousands of pods alike."""

    def __init__(self) -> None:
        self._known: dict[tuple[Shape, str], tuple[frozenset[Reason], int, float, Obstacle | None]] = {}

    def of(
        self,
        engine: PlacementEngine,
        pod: Pod,
        reasons: Collection[Reason],
        *,
        now: Instant,
        closed: Codes | None = None,
    ) -> Obstacle | None:
        """The obstacle of a pod that nodes refused for these reasons."""
        kind, said = (pod.shape, pod.key.namespace), frozenset(reasons)
        version = engine.snapshot.columns.renewed.version
        if engine.snapshot.placed.refusals.about(pod):  # pods on nodes that avoid this one: its labels count
            return find_obstacle(engine, pod, now=now, closed=closed)
        known = self._known.pop(kind, None)
        if known is None or known[0] != said or (known[1] != version and now - known[2] >= KEPT_FOR):
            if len(self._known) >= MOST_KEPT:
                del self._known[next(iter(self._known))]
            known = said, version, now, find_obstacle(engine, pod, now=now, closed=closed)
        self._known[kind] = known
        return known[3]


@dataclass(frozen=True, slots=True)
class _Distances:
    worst: npt.NDArray[np.int64]
    """By row: one more than the farthest `CuredBy` of its reasons; 0 where it fits."""
    count: npt.NDArray[np.int64]
    entry: npt.NDArray[np.int64]
    """By row: place in the list of rejections of the farthest one, the first of equals."""


def _distances(rejected: list[RejectedRows], size: int, newcomers: npt.NDArray[np.bool_]) -> _Distances:
    """Distances of all rows. A newcomer with other labels is as far as a node of another kind: it hides none."""
    worst, count, place = (np.zeros(size, np.int64) for _ in range(3))
    for number, (code, rows, lasting) in sorted(enumerate(rejected), key=lambda entry: entry[1].code):
        distance = np.full(size, nearness(REASONS[code], lasting=lasting) + 1)
        if code == _UNLABELLED:
            distance[newcomers] = CuredBy.OTHER_NODES + 1
        farther = rows & (distance > worst)
        worst[farther] = distance[farther]
        place[farther] = number
        count[rows] += 1
    return _Distances(worst, count, place)
