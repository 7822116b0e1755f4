"""Node deletion tracker: removals under way, nodes that are not tried for a while, pods evicted lately.

Kept in memory only. After a restart, removals are found by taints and evicted pods by missing replicas.
"""

from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from ullage.decide.draining.parallelism import OngoingRemoval
from ullage.model.drain_promise import RemovalPlan
from ullage.model.draining import RecentEviction
from ullage.model.pod import Pod


class NodeDeletionTracker:
    """Removals, failures and recent evictions. Times are seconds since the epoch, except where stated."""

    def __init__(self, *, evictions_kept: float) -> None:
        self._kept = evictions_kept
        self._going: dict[str, OngoingRemoval] = {}
        self._plans: dict[str, RemovalPlan] = {}
        self._releasing: set[str] = set()
        self._failed: dict[str, tuple[float, str]] = {}
        self._unknown: dict[str, float] = {}
        self._evictions: list[RecentEviction] = []

    @property
    def going(self) -> Mapping[str, OngoingRemoval]:
        """Removals under way, by node."""
        return self._going

    @property
    def plans(self) -> Mapping[str, RemovalPlan]:
        """Removal plans under way, by node."""
        return self._plans

    def begin(self, plan: RemovalPlan, pool: str) -> None:
        self._going[plan.node] = OngoingRemoval(plan.node, pool, not plan.action.evict)
        self._plans[plan.node] = plan

    def end(self, node: str) -> None:
        self._going.pop(node, None)
        self._plans.pop(node, None)

    def fail(self, node: str, why: str, *, until: float) -> None:
        """Record a failed removal: the node is not tried before `until`."""
        self._failed[node] = (until, why)

    def machine_unknown(self, node: str, *, since: float) -> None:
        """Record that the node's instance may be deleted already. `since`: steady clock."""
        self._unknown[node] = since

    @property
    def unknown(self) -> Mapping[str, float]:
        """Nodes whose instance may be gone, with the steady time since then. Their taint stays until that is known."""
        return self._unknown

    def machine_known(self, node: str) -> None:
        """Record that the cloud has listed its instances since."""
        self._unknown.pop(node, None)

    def releasing(self, node: str) -> None:
        """Record that an abandoned removal of this node is being cleaned up."""
        self._releasing.add(node)

    def released(self, node: str) -> None:
        self._releasing.discard(node)

    @property
    def busy(self) -> frozenset[str]:
        """Nodes with a removal or a cleanup under way."""
        return frozenset(self._going) | frozenset(self._releasing)

    def failed(self) -> dict[str, str]:
        """Nodes that are not tried for now, and why."""
        return {node: why for node, (_, why) in sorted(self._failed.items())}

    def evicted(self, pod: Pod, *, at: float) -> None:
        """Record an eviction."""
        self._evictions = [one for one in self._evictions if one.pod.uid != pod.uid]
        self._evictions.append(RecentEviction(pod=pod, at=at))

    def restore(self, missing: Iterable[Pod], *, at: float) -> None:
        """Record pods missing at a start as evicted at `at`."""
        self._evictions = [*self._evictions, *(RecentEviction(pod=pod, at=at) for pod in missing)]

    @property
    def evictions(self) -> tuple[RecentEviction, ...]:
        return tuple(self._evictions)

    def forget(self, nodes: Iterable[str], *, unnoticed: Collection[str] = (), now: float) -> None:
        """Drop entries that are over, and entries of nodes that are gone.

        `unnoticed`: uids of owners that have not observed their evictions yet. The time of those starts anew at `now`.
        """
        if self._failed or self._unknown:
            there = set(nodes)
            self._unknown = {node: since for node, since in self._unknown.items() if node in there}
            self._failed = {node: one for node, one in self._failed.items() if one[0] > now and node in there}
        if unnoticed:
            self._evictions = [
                replace(one, at=now) if one.pod.owner is not None and one.pod.owner.uid in unnoticed else one
                for one in self._evictions
            ]
        self._evictions = [one for one in self._evictions if now - one.at < self._kept]

    def clock_was_set(self, by: float) -> None:
        """Shift all wall-clock times after the clock was set, so that elapsed times stay the same."""
        self._failed = {node: (until + by, why) for node, (until, why) in self._failed.items()}
        self._evictions = [replace(one, at=one.at + by) for one in self._evictions]

    def next_moment(self) -> float | None:
        """Earliest time at which a failure or an eviction expires."""
        moments = [until for until, _ in self._failed.values()]
        moments += [one.at + self._kept for one in self._evictions]
        return min(moments, default=None)
