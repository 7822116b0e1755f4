"""What draining remembers from loop to loop: removals under way, nodes left alone for a while, pods just evicted.

A restart forgets it and loses nothing by it: what must survive is on the nodes.
"""

from collections.abc import Iterable, Mapping

from ullage.decide.drain.turns import Going
from ullage.model.drain import RecentEviction
from ullage.model.drain_promise import Promise
from ullage.model.pod import Pod


class Ledger:
    """Times are seconds since the epoch."""

    def __init__(self, *, evictions_kept: float) -> None:
        self._kept = evictions_kept
        self._going: dict[str, Going] = {}
        self._promises: dict[str, Promise] = {}
        self._let_go: set[str] = set()
        self._failed: dict[str, tuple[float, str]] = {}
        self._evictions: list[RecentEviction] = []

    @property
    def going(self) -> Mapping[str, Going]:
        """Removals under way, by node."""
        return self._going

    @property
    def promises(self) -> Mapping[str, Promise]:
        """What they count on, by node."""
        return self._promises

    def begin(self, promise: Promise, pool: str) -> None:
        self._going[promise.node] = Going(promise.node, pool, not promise.action.evict)
        self._promises[promise.node] = promise

    def end(self, node: str) -> None:
        self._going.pop(node, None)
        self._promises.pop(node, None)

    def fail(self, node: str, why: str, *, until: float) -> None:
        """It could not be removed: leave it alone until then."""
        self._failed[node] = (until, why)

    def letting_go(self, node: str) -> None:
        """Somebody is taking care of what was left on it."""
        self._let_go.add(node)

    def has_let_go(self, node: str) -> None:
        self._let_go.discard(node)

    @property
    def busy(self) -> frozenset[str]:
        """Nodes somebody is at work on."""
        return frozenset(self._going) | frozenset(self._let_go)

    def failed(self) -> dict[str, str]:
        """Nodes that are left alone, and why."""
        return {node: why for node, (_, why) in sorted(self._failed.items())}

    def evicted(self, pod: Pod, *, at: float) -> None:
        """It was told to go just now."""
        self._evictions = [one for one in self._evictions if one.pod.uid != pod.uid]
        self._evictions.append(RecentEviction(pod=pod, at=at))

    @property
    def evictions(self) -> tuple[RecentEviction, ...]:
        return tuple(self._evictions)

    def forget(self, nodes: Iterable[str], *, now: float) -> None:
        """What is over, and what is about nodes that are not there any more."""
        if self._failed:
            there = set(nodes)
            self._failed = {node: one for node, one in self._failed.items() if one[0] > now and node in there}
        self._evictions = [one for one in self._evictions if now - one.at < self._kept]

    def next_moment(self) -> float | None:
        """When something of this is over."""
        moments = [until for until, _ in self._failed.values()]
        moments += [one.at + self._kept for one in self._evictions]
        return min(moments, default=None)
