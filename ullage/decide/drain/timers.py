"""Since when nodes are candidates, and whose time has come. What must survive a restart is in their taints."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ullage.model.drain import (
    CANDIDATE_TAINT,
    DrainAction,
    MarkCandidate,
    Removable,
    RemoveNode,
    UnmarkCandidate,
    Unremovable,
    WhyStays,
)
from ullage.model.node import Node

TRUSTED_FOR = 86_400.0
"""Seconds after which a taint found at a start is too old to tell anything: much may have happened meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long nodes are candidates before they go, and how many go at once."""

    unneeded: float = 600.0
    unready: float = 1200.0
    most_at_once: int = 10
    """Nodes being removed at once."""
    most_drains: int = 1
    """Of them, nodes with pods to evict. Fewer than `most_at_once`, so that drains never hold up empty nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Underway:
    """Removals that have begun."""

    empty: int = 0
    drains: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What is to be removed now, and why other candidates wait."""

    removals: tuple[RemoveNode, ...]
    waiting: tuple[Unremovable, ...]
    throttled: bool
    """Somebody's time has come, and neither an empty node nor any other may go now."""
    wake_at: float | None
    """When the next candidate's time comes."""


def marked_since(node: Node) -> float | None:
    """Since when a node is a candidate, by its taint. What cannot be read tells nothing."""
    for taint in node.taints:
        if taint.key == CANDIDATE_TAINT:
            return float(taint.value) if taint.value.isdecimal() and taint.value.isascii() else None
    return None


def candidates_since(
    candidates: Iterable[str], before: Mapping[str, float] | None, nodes: Mapping[str, Node], *, now: float
) -> dict[str, float]:
    """Who stays a candidate keeps its timer; who was none in the last loop starts anew. At a start taints tell."""
    found: dict[str, float] = {}
    for name in candidates:
        if before is not None:
            found[name] = before.get(name, now)
        else:
            marked = marked_since(nodes[name])
            found[name] = marked if marked is not None and now - TRUSTED_FOR <= marked <= now else now
    return found


def due(
    removable: Iterable[Removable],
    since: Mapping[str, float],
    nodes: Mapping[str, Node],
    underway: Underway,
    pace: Pace,
    *,
    now: float,
) -> Due:
    """Candidates whose time has come, as many as may go at once: empty ones first, then those with pods."""
    room = max(pace.most_at_once - underway.empty - underway.drains, 0)
    drains = max(pace.most_drains - underway.drains, 0)
    ripe: list[Removable] = []
    waiting: list[Unremovable] = []
    moments: list[float] = []
    for one in removable:
        ready = nodes[one.node].ready
        moment = since[one.node] + (pace.unneeded if ready else pace.unready)
        if one.waits_for:
            waiting.append(Unremovable(node=one.node, why=WhyStays.WAITS_FOR_COMPLETION, pod=one.waits_for[0]))
        elif now < moment:
            moments.append(moment)
            why = WhyStays.NOT_LONG_ENOUGH if ready else WhyStays.NOT_UNREADY_LONG_ENOUGH
            waiting.append(Unremovable(node=one.node, why=why, detail=f"{moment - now:.0f} s more"))
        else:
            ripe.append(one)
    empties = [one for one in ripe if one.empty]
    others = [one for one in ripe if not one.empty]
    going = empties[:room]
    going += others[: min(room - len(going), drains)]
    gone = {one.node for one in going}
    late = [one for one in ripe if one.node not in gone]
    waiting += [Unremovable(node=one.node, why=WhyStays.THROTTLED) for one in late]
    return Due(
        removals=tuple(_removal(one, since[one.node], now) for one in going),
        waiting=tuple(sorted(waiting, key=lambda one: one.node)),
        throttled=bool(late) and len(going) >= room,
        wake_at=min(moments, default=None),
    )


def _removal(one: Removable, since: float, now: float) -> RemoveNode:
    pods = {0: "", 1: ", its pod has a place elsewhere"}.get(
        len(one.moves), f", its {len(one.moves)} pods have a place elsewhere"
    )
    return RemoveNode(
        node=one.node,
        reason=one.why,
        evict=one.moves,
        why=f"{one.why.value}{pods}; a candidate for {now - since:.0f} s",
    )


def marks(
    since: Mapping[str, float], nodes: Mapping[str, Node], *, leave: Collection[str] = (), most: int = 10
) -> Sequence[DrainAction]:
    """Soft taints to put on and to take off, at most so many; taking off comes first. `leave` alone."""
    actions: list[DrainAction] = []
    for name in sorted(nodes):
        tainted = any(taint.key == CANDIDATE_TAINT for taint in nodes[name].taints)
        if tainted and name not in since and name not in leave:
            actions.append(UnmarkCandidate(node=name, why="it is needed again"))
    for name in sorted(since):
        node = nodes.get(name)
        if node is None or name in leave or marked_since(node) == float(int(since[name])):
            continue
        actions.append(MarkCandidate(node=name, since=since[name], why="its pods have a place elsewhere"))
    return actions[:most]
