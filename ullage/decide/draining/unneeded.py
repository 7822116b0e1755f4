"""Unneeded timers: time each node became a candidate, and due removals. Soft taints keep timers across restarts."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ullage.decide.draining.inputs import PlannerMemory, RemovalPacing
from ullage.model.draining import CANDIDATE_TAINT, RemovableNode, UnremovableNode, UnremovableReason
from ullage.model.intents import CleanDeletionCandidate, DrainIntent, MarkDeletionCandidate, RemoveNode
from ullage.model.node import Node
from ullage.model.units import Instant, Seconds, after

TRUSTED_FOR = Seconds(86_400.0)
"""Age in seconds beyond which a soft taint found at a start is not trusted, and the timer starts anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OngoingCounts:
    """Numbers of removals under way in one pool."""

    empty: int = 0
    drains: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DueRemovals:
    """Removals of one pool to begin now, and why its other candidates wait."""

    removals: tuple[RemoveNode, ...]
    waiting: tuple[UnremovableNode, ...]
    throttled: bool
    """A candidate is due and waits, because `most_at_once` removals are under way."""
    wake_at: Instant | None
    """Time at which the next candidate is due."""


def marked_since(node: Node) -> Instant | None:
    """Time in the node's soft taint; None without one, or if it cannot be read."""
    for taint in node.taints:
        if taint.key == CANDIDATE_TAINT:
            return Instant(float(taint.value)) if taint.value.isdecimal() and taint.value.isascii() else None
    return None


def candidates_since(
    candidates: Iterable[str], before: Mapping[str, Instant] | None, nodes: Mapping[str, Node], *, now: Instant
) -> dict[str, Instant]:
    """Timers of these candidates: kept from the last loop, or started now. At a start they are read from taints."""
    found: dict[str, Instant] = {}
    for name in candidates:
        if before is not None:
            found[name] = before.get(name, now)
        else:
            marked = marked_since(nodes[name])
            found[name] = marked if marked is not None and now - TRUSTED_FOR <= marked <= now else now
    return found


def without_timer(memory: PlannerMemory, node: str) -> PlannerMemory:
    """The memory without this node's timer: as a candidate again, it starts anew."""
    if memory.since is None or node not in memory.since:
        return memory
    return replace(memory, since={name: since for name, since in memory.since.items() if name != node})


def with_clock_set(memory: PlannerMemory, by: Seconds) -> PlannerMemory:
    """The memory after the clock was set by so many seconds: elapsed times stay the same."""
    return replace(
        memory,
        since=None if memory.since is None else {name: Instant(since + by) for name, since in memory.since.items()},
        refused={name: (after(at, by), why) for name, (at, why) in memory.refused.items()},
    )


def due(
    removable: Iterable[RemovableNode],
    since: Mapping[str, Instant],
    nodes: Mapping[str, Node],
    ongoing: OngoingCounts,
    pacing: RemovalPacing,
    *,
    now: Instant,
) -> DueRemovals:
    """Due candidates, as many as may go at once: empty nodes first, then nodes with pods."""
    room = max(pacing.most_at_once - ongoing.empty - ongoing.drains, 0)
    drains = max(pacing.most_drains - ongoing.drains, 0)
    due_now: list[RemovableNode] = []
    waiting: list[UnremovableNode] = []
    deadlines: list[Instant] = []
    for one in removable:
        ready = nodes[one.node].ready
        deadline = since[one.node] + (pacing.unneeded if ready else pacing.unready)
        if one.waits_for:
            waiting.append(
                UnremovableNode(node=one.node, reason=UnremovableReason.WAITS_FOR_COMPLETION, pod=one.waits_for[0])
            )
        elif now < deadline:
            deadlines.append(Instant(deadline))
            reason = UnremovableReason.NOT_LONG_ENOUGH if ready else UnremovableReason.NOT_UNREADY_LONG_ENOUGH
            waiting.append(UnremovableNode(node=one.node, reason=reason, detail=f"{deadline - now:.0f} s more"))
        else:
            due_now.append(one)
    empties = [one for one in due_now if one.empty]
    others = [one for one in due_now if not one.empty]
    going = empties[:room]
    going += others[: min(room - len(going), drains)]
    gone = {one.node for one in going}
    late = [one for one in due_now if one.node not in gone]
    waiting += [UnremovableNode(node=one.node, reason=UnremovableReason.THROTTLED) for one in late]
    return DueRemovals(
        removals=tuple(_removal(one, since[one.node], now) for one in going),
        waiting=tuple(sorted(waiting, key=lambda one: one.node)),
        throttled=bool(late) and len(going) >= room,
        wake_at=min(deadlines, default=None),
    )


def _removal(one: RemovableNode, since: Instant, now: Instant) -> RemoveNode:
    pods = {0: "", 1: ", its pod has a place elsewhere"}.get(
        len(one.moves), f", its {len(one.moves)} pods have a place elsewhere"
    )
    return RemoveNode(
        node=one.node,
        reason=one.reason,
        evict=one.moves,
        why=f"{one.reason.value}{pods}; a candidate for {now - since:.0f} s",
    )


def soft_taints(
    since: Mapping[str, Instant], nodes: Mapping[str, Node], *, leave: Collection[str] = (), most: int = 10
) -> Sequence[DrainIntent]:
    """Soft taints to add and to remove, at most `most`, removals first. Nodes in `leave` are not touched."""
    actions: list[DrainIntent] = []
    for name in sorted(nodes):
        tainted = any(taint.key == CANDIDATE_TAINT for taint in nodes[name].taints)
        if tainted and name not in since and name not in leave:
            actions.append(CleanDeletionCandidate(node=name, why="it is needed again"))
    for name in sorted(since):
        node = nodes.get(name)
        if node is None or name in leave or marked_since(node) == float(int(since[name])):
            continue
        actions.append(MarkDeletionCandidate(node=name, since=since[name], why="its pods have a place elsewhere"))
    return actions[:most]
