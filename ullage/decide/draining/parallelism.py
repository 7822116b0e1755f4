"""Parallelism of removals: each pool by its own pacing, all pools within one limit. See `unneeded` for one pool."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ullage.decide.draining.inputs import RemovalPacing
from ullage.decide.draining.unneeded import DueRemovals, OngoingCounts, due
from ullage.model.draining import RemovableNode, UnremovableNode, UnremovableReason
from ullage.model.intents import RemoveNode
from ullage.model.node import Node
from ullage.model.provisioner import PROVISIONER_LABEL
from ullage.model.units import Instant


@dataclass(frozen=True, slots=True)
class OngoingRemoval:
    """Removal that has begun."""

    node: str
    pool: str
    """Empty for nodes of no pool."""
    empty: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OngoingRemovals:
    """Removals under way, and removals to be resumed."""

    going: Sequence[OngoingRemoval] = ()
    left: Collection[str] = ()
    """Nodes whose removal an earlier process began: they come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PacingByPool:
    """Pacing of each pool, and limits of all pools together."""

    pools: Mapping[str, RemovalPacing] = field(default_factory=dict)
    others: RemovalPacing = field(default_factory=RemovalPacing)
    """Pacing of nodes of no pool."""
    most_at_once: int = 100
    """Removals under way in all pools together."""
    most_drains: int = 50

    def of(self, pool: str) -> RemovalPacing:
        return self.pools.get(pool, self.others)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalBatch:
    """Removals to begin now, and why the other candidates wait."""

    removals: tuple[RemoveNode, ...] = ()
    waiting: tuple[UnremovableNode, ...] = ()
    """By name."""
    throttled: frozenset[str] = frozenset()
    """Pools with a due candidate and no free removal."""
    wake_at: Instant | None = None


NO_REMOVALS = RemovalBatch()


def pool_of(node: Node | None) -> str:
    """Pool name of a node; empty if it has none."""
    return "" if node is None else node.labels.get(PROVISIONER_LABEL, "")


def crop_to_limits(
    removable: Iterable[RemovableNode],
    since: Mapping[str, Instant],
    nodes: Mapping[str, Node],
    begun: OngoingRemovals,
    pacing: PacingByPool,
    *,
    now: Instant,
) -> RemovalBatch:
    """Choose due removals, as many as the limits allow."""
    first, going = begun.left, begun.going
    by_pool: dict[str, list[RemovableNode]] = {}
    for one in sorted(removable, key=lambda one: one.node not in first):
        by_pool.setdefault(pool_of(nodes[one.node]), []).append(one)
    found = {
        pool: due(some, since, nodes, _ongoing(going, pool), pacing.of(pool), now=now)
        for pool, some in sorted(by_pool.items())
    }
    removals = sorted((one for pool in found.values() for one in pool.removals), key=lambda one: one.node not in first)
    chosen = _within(removals, going, pacing)
    late = [one for one in removals if one.node not in chosen]
    # With the limit of all pools used up, it is why late candidates wait.
    full = len(going) + len(chosen) >= pacing.most_at_once
    throttled = {pool for pool, one in found.items() if one.throttled}
    throttled |= {pool_of(nodes[one.node]) for one in late} if full else set()
    waiting = [one for pool in found.values() for one in pool.waiting]
    waiting += [UnremovableNode(node=one.node, reason=UnremovableReason.THROTTLED) for one in late]
    return RemovalBatch(
        removals=tuple(one for one in removals if one.node in chosen),
        waiting=tuple(sorted(waiting, key=lambda one: one.node)),
        throttled=frozenset(throttled),
        wake_at=_earliest(found.values()),
    )


def _ongoing(going: Iterable[OngoingRemoval], pool: str) -> OngoingCounts:
    here = [one.empty for one in going if one.pool == pool]
    return OngoingCounts(empty=sum(here), drains=len(here) - sum(here))


def _within(removals: Sequence[RemoveNode], going: Sequence[OngoingRemoval], pacing: PacingByPool) -> frozenset[str]:
    """Nodes that may go by the limits of all pools together: empty nodes before others."""
    room = max(pacing.most_at_once - len(going), 0)
    drains = max(pacing.most_drains - sum(not one.empty for one in going), 0)
    chosen = [one.node for one in removals if not one.evict][:room]
    chosen += [one.node for one in removals if one.evict][: min(room - len(chosen), drains)]
    return frozenset(chosen)


def _earliest(found: Iterable[DueRemovals]) -> Instant | None:
    return min((one.wake_at for one in found if one.wake_at is not None), default=None)
