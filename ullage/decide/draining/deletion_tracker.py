"""Node deletion tracker: removals under way, nodes not tried for a while, evicted pods, workloads that replace them.

Kept in memory only. After a restart, removals are found by taints and evicted pods by missing replicas.
Live pods are counted in the snapshot, never taken from their controller: its status may lag behind a deletion.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from ullage.decide.draining.parallelism import OngoingRemoval
from ullage.model.draining import RecentEviction, WorkloadReplicas
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Updated
from ullage.model.pod import Pod
from ullage.model.provisioner import STAY_BEHIND
from ullage.model.removal_plan import RemovalPlan
from ullage.model.units import Instant, Seconds, Steady, after
from ullage.state.snapshot import ClusterSnapshot


class WorkloadIndex:
    """Workloads by uid. `kinds` are watched completely: a workload of such a kind that is not in the index is gone."""

    def __init__(self) -> None:
        self.by_uid: dict[str, WorkloadReplicas] = {}
        self.kinds: frozenset[str] = frozenset()

    def apply(self, event: FactEvent[Any]) -> None:
        """Apply one fact event; events of other facts are ignored."""
        match event:
            case Added(new=WorkloadReplicas() as new) | Updated(new=WorkloadReplicas() as new):
                self.by_uid[new.uid] = new
            case Deleted(old=WorkloadReplicas() as old):
                self.by_uid.pop(old.uid, None)
            case _:
                pass


MOST_OF_ONE_OWNER, MOST_IN_ALL = 500, 5000
"""Bounds on missing pods restored at a start: an owner can want any number of replicas and never get them."""


def kept(evictions: Iterable[RecentEviction], *, keep: Seconds, now: Instant) -> tuple[RecentEviction, ...]:
    """Evictions less than `keep` seconds old, oldest first."""
    found = [one for one in evictions if now - one.at < keep]
    return tuple(sorted(found, key=lambda one: (one.at, one.pod.key)))


def still_missing(
    evictions: Iterable[RecentEviction], workloads: Mapping[str, WorkloadReplicas], snapshot: ClusterSnapshot
) -> list[Pod]:
    """Evicted pods still to be replaced: per owner at most its missing replicas; all, if its target is unknown."""
    evictions = tuple(evictions)
    live = _live(snapshot, {one.pod.owner.uid for one in evictions if one.pod.owner is not None})
    missing: dict[str, int] = {}
    found: dict[ObjectKey, Pod] = {}
    for eviction in evictions:
        pod, owner = eviction.pod, eviction.pod.owner
        if owner is None or owner.kind in STAY_BEHIND or pod.marks.mirror or pod.marks.daemon:
            continue
        there = snapshot.state.pods.get(pod.key)
        if there is not None and there.uid != pod.uid:
            continue  # its replacement has the same name
        known = workloads.get(owner.uid)
        if known is not None:
            left = missing.setdefault(owner.uid, max(known.target - live[owner.uid], 0))
            if not left:
                continue
            missing[owner.uid] = left - 1
        found[pod.key] = snapshot.pods.get(pod.key, pod)
    return [found[key] for key in sorted(found)]


def behind(
    evictions: Iterable[RecentEviction], workloads: Mapping[str, WorkloadReplicas], snapshot: ClusterSnapshot
) -> frozenset[str]:
    """Uids of owners whose status counts more pods than are live: they have not observed the evictions yet."""
    owners = {one.pod.owner.uid for one in evictions if one.pod.owner is not None} & workloads.keys()
    live = _live(snapshot, owners)
    return frozenset(uid for uid in owners if workloads[uid].current > live[uid])


def missing_at_start(workloads: Mapping[str, WorkloadReplicas], snapshot: ClusterSnapshot) -> list[Pod]:
    """Pods that owners want and do not have, at the start of a process: whether they were evicted is not recorded.

    Terminating pods count as themselves. Pods that are gone are copied from another pod of their owner, else from its
    template.
    """
    there: dict[str, list[Pod]] = {}
    for pod in snapshot.state.pods.values():
        if pod.owner is not None and pod.owner.uid in workloads and not pod.phase.over:
            there.setdefault(pod.owner.uid, []).append(pod)
    found: list[Pod] = []
    for uid in sorted(workloads):
        known = workloads[uid]
        if known.kind in STAY_BEHIND:
            continue
        pods = sorted(there.get(uid, ()), key=lambda pod: pod.key)
        live, going = [pod for pod in pods if not pod.deleting], [pod for pod in pods if pod.deleting]
        short = min(known.target - len(live), MOST_OF_ONE_OWNER, MOST_IN_ALL - len(found))
        if short <= 0:
            continue
        found += going[:short]
        like = next(iter(live or going), known.template)
        if like is not None:
            found += [_another(like, number) for number in range(short - len(going))]
    return found


def _another(like: Pod, number: int) -> Pod:
    """Copy of a pod as its owner will create it. The name has a `#`, so no real pod can have it."""
    key = ObjectKey(like.key.namespace, f"{like.key.name}#{number}")
    uid = f"{like.uid or like.key}#{number}"
    return replace(like, key=key, uid=uid, node="", gpu_ids=(), gpu_instances=(), deleting=False)


def _live(snapshot: ClusterSnapshot, owners: Collection[str]) -> Counter[str]:
    """Number of pods per owner uid that are neither finished nor being deleted."""
    if not owners:
        return Counter()
    pods = snapshot.state.pods.values()
    return Counter(
        pod.owner.uid
        for pod in pods
        if pod.owner is not None and pod.owner.uid in owners and not pod.deleting and not pod.phase.over
    )


class NodeDeletionTracker:
    """Removals, failures and recent evictions. Times are seconds since the epoch, except where stated."""

    def __init__(self, *, evictions_kept: Seconds) -> None:
        self.kept = evictions_kept
        self._going: dict[str, OngoingRemoval] = {}
        self._plans: dict[str, RemovalPlan] = {}
        self._releasing: set[str] = set()
        self._failed: dict[str, tuple[Instant, str]] = {}
        self._unknown: dict[str, Steady] = {}
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
        self._going[plan.node] = OngoingRemoval(plan.node, pool, not plan.intent.evict)
        self._plans[plan.node] = plan

    def end(self, node: str) -> None:
        self._going.pop(node, None)
        self._plans.pop(node, None)

    def fail(self, node: str, why: str, *, until: Instant) -> None:
        """Record a failed removal: the node is not tried before `until`."""
        self._failed[node] = (until, why)

    def machine_unknown(self, node: str, *, since: Steady) -> None:
        """Record that the node's instance may be deleted already. `since`: steady clock."""
        self._unknown[node] = since

    @property
    def unknown(self) -> Mapping[str, Steady]:
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

    def evicted(self, pod: Pod, *, at: Instant) -> None:
        """Record an eviction."""
        self._evictions = [one for one in self._evictions if one.pod.uid != pod.uid]
        self._evictions.append(RecentEviction(pod=pod, at=at))

    def restore(self, missing: Iterable[Pod], *, at: Instant) -> None:
        """Record pods missing at a start as evicted at `at`."""
        self._evictions = [*self._evictions, *(RecentEviction(pod=pod, at=at) for pod in missing)]

    @property
    def evictions(self) -> tuple[RecentEviction, ...]:
        return tuple(self._evictions)

    def forget(self, nodes: Iterable[str], *, unnoticed: Collection[str] = (), now: Instant) -> None:
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
        self._evictions = [one for one in self._evictions if now - one.at < self.kept]

    def clock_was_set(self, by: Seconds) -> None:
        """Shift all wall-clock times after the clock was set, so that elapsed times stay the same."""
        self._failed = {node: (after(until, by), why) for node, (until, why) in self._failed.items()}
        self._evictions = [replace(one, at=one.at + by) for one in self._evictions]

    def next_deadline(self) -> Instant | None:
        """Earliest time at which a failure or an eviction expires."""
        instants = [until for until, _ in self._failed.values()]
        instants += [after(one.at, self.kept) for one in self._evictions]
        return min(instants, default=None)
