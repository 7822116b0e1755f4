"""Recently evicted pods without a replacement: each needs a place before other pods are evicted.

Live pods are counted in the snapshot, never taken from their controller: its status may lag behind a deletion.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from ullage.model.draining import RecentEviction, WorkloadReplicas
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.provisioner import STAY_BEHIND
from ullage.state.snapshot import ClusterSnapshot

MOST_OF_ONE_OWNER, MOST_IN_ALL = 500, 5000
"""Bounds on missing pods restored at a start: an owner can want any number of replicas and never get them."""


def kept(evictions: Iterable[RecentEviction], *, keep: float, now: float) -> tuple[RecentEviction, ...]:
    """Evictions less than `keep` seconds old, oldest first."""
    found = [one for one in evictions if now - one.at < keep]
    return tuple(sorted(found, key=lambda one: (one.at, one.pod.key)))


def still_missing(
    evictions: Iterable[RecentEviction], workloads: Mapping[str, WorkloadReplicas], placements: ClusterSnapshot
) -> list[Pod]:
    """Evicted pods still to be replaced: per owner at most its missing replicas; all, if its target is unknown."""
    evictions = tuple(evictions)
    live = _live(placements, {one.pod.owner.uid for one in evictions if one.pod.owner is not None})
    missing: dict[str, int] = {}
    found: dict[ObjectKey, Pod] = {}
    for eviction in evictions:
        pod, owner = eviction.pod, eviction.pod.owner
        if owner is None or owner.kind in STAY_BEHIND or pod.marks.mirror or pod.marks.daemon:
            continue
        there = placements.state.pods.get(pod.key)
        if there is not None and there.uid != pod.uid:
            continue  # its replacement has the same name
        known = workloads.get(owner.uid)
        if known is not None:
            left = missing.setdefault(owner.uid, max(known.target - live[owner.uid], 0))
            if not left:
                continue
            missing[owner.uid] = left - 1
        found[pod.key] = placements.pods.get(pod.key, pod)
    return [found[key] for key in sorted(found)]


def behind(
    evictions: Iterable[RecentEviction], workloads: Mapping[str, WorkloadReplicas], placements: ClusterSnapshot
) -> frozenset[str]:
    """Uids of owners whose status counts more pods than are live: they have not observed the evictions yet."""
    owners = {one.pod.owner.uid for one in evictions if one.pod.owner is not None} & workloads.keys()
    live = _live(placements, owners)
    return frozenset(uid for uid in owners if workloads[uid].current > live[uid])


def missing_at_start(workloads: Mapping[str, WorkloadReplicas], placements: ClusterSnapshot) -> list[Pod]:
    """Pods that owners want and do not have, at the start of a process: whether they were evicted is not recorded.

    Terminating pods count as themselves. Pods that are gone are copied from another pod of their owner, else from its
    template.
    """
    there: dict[str, list[Pod]] = {}
    for pod in placements.state.pods.values():
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


def _live(placements: ClusterSnapshot, owners: Collection[str]) -> Counter[str]:
    """Number of pods per owner uid that are neither finished nor being deleted."""
    if not owners:
        return Counter()
    pods = placements.state.pods.values()
    return Counter(
        pod.owner.uid
        for pod in pods
        if pod.owner is not None and pod.owner.uid in owners and not pod.deleting and not pod.phase.over
    )
