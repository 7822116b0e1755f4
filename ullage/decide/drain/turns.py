"""Whose turn it is to go: each pool by its own pace, all together within one limit. See `timers` for one pool."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ullage.decide.drain.timers import Due, Pace, Underway, due
from ullage.model.drain import Removable, RemoveNode, Unremovable, WhyStays
from ullage.model.node import Node
from ullage.model.provisioner import PROVISIONER_LABEL


@dataclass(frozen=True, slots=True)
class Going:
    """A node whose removal has begun."""

    node: str
    pool: str
    """Empty for nodes of no pool."""
    empty: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """Removals that have begun."""

    going: Sequence[Going] = ()
    left: Collection[str] = ()
    """Nodes whose removal was begun by somebody who is no more: they come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paces:
    """How fast nodes go."""

    pools: Mapping[str, Pace] = field(default_factory=dict)
    others: Pace = field(default_factory=Pace)
    """Of nodes of no pool."""
    most_at_once: int = 100
    """Of all nodes together."""
    most_drains: int = 50

    def of(self, pool: str) -> Pace:
        return self.pools.get(pool, self.others)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """Who goes now, and why the other candidates wait."""

    removals: tuple[RemoveNode, ...] = ()
    waiting: tuple[Unremovable, ...] = ()
    """By name."""
    throttled: frozenset[str] = frozenset()
    """Pools in which somebody's time has come and nobody may go now."""
    wake_at: float | None = None


NOBODY = Turns()


def pool_of(node: Node | None) -> str:
    """The name of its pool; empty if it has none."""
    return "" if node is None else node.labels.get(PROVISIONER_LABEL, "")


def turns(
    removable: Iterable[Removable],
    since: Mapping[str, float],
    nodes: Mapping[str, Node],
    begun: Begun,
    paces: Paces,
    *,
    now: float,
) -> Turns:
    """Candidates whose time has come, as many as may go."""
    first, going = begun.left, begun.going
    by_pool: dict[str, list[Removable]] = {}
    for one in sorted(removable, key=lambda one: one.node not in first):
        by_pool.setdefault(pool_of(nodes[one.node]), []).append(one)
    found = {
        pool: due(some, since, nodes, _underway(going, pool), paces.of(pool), now=now)
        for pool, some in sorted(by_pool.items())
    }
    removals = sorted((one for pool in found.values() for one in pool.removals), key=lambda one: one.node not in first)
    chosen = _within(removals, going, paces)
    late = [one for one in removals if one.node not in chosen]
    # Once all limits are used up, whoever is late is late because of them.
    full = len(going) + len(chosen) >= paces.most_at_once
    throttled = {pool for pool, one in found.items() if one.throttled}
    throttled |= {pool_of(nodes[one.node]) for one in late} if full else set()
    waiting = [one for pool in found.values() for one in pool.waiting]
    waiting += [Unremovable(node=one.node, why=WhyStays.THROTTLED) for one in late]
    return Turns(
        removals=tuple(one for one in removals if one.node in chosen),
        waiting=tuple(sorted(waiting, key=lambda one: one.node)),
        throttled=frozenset(throttled),
        wake_at=_earliest(found.values()),
    )


def _underway(going: Iterable[Going], pool: str) -> Underway:
    here = [one.empty for one in going if one.pool == pool]
    return Underway(empty=sum(here), drains=len(here) - sum(here))


def _within(removals: Sequence[RemoveNode], going: Sequence[Going], paces: Paces) -> frozenset[str]:
    """Those that may go by the limits of all pools together: empty nodes before others."""
    room = max(paces.most_at_once - len(going), 0)
    drains = max(paces.most_drains - sum(not one.empty for one in going), 0)
    chosen = [one.node for one in removals if not one.evict][:room]
    chosen += [one.node for one in removals if one.evict][: min(room - len(chosen), drains)]
    return frozenset(chosen)


def _earliest(found: Iterable[Due]) -> float | None:
    return min((one.wake_at for one in found if one.wake_at is not None), default=None)
