"""Pods evicted not long ago whose successors are not there yet: they must find a place before others are evicted."""

from collections.abc import Iterable, Mapping

from ullage.model.drain import RecentEviction, Workload
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.provisioner import STAY_BEHIND
from ullage.state.placements import Placements


def kept(evictions: Iterable[RecentEviction], *, keep: float, now: float) -> tuple[RecentEviction, ...]:
    """Those that are still looked after, in the order they happened."""
    found = [one for one in evictions if now - one.at < keep]
    return tuple(sorted(found, key=lambda one: (one.at, one.pod.key)))


def still_missing(
    evictions: Iterable[RecentEviction], workloads: Mapping[str, Workload], placements: Placements
) -> list[Pod]:
    """Pods that are to come back: of each owner as many as it has fewer than it wants; all, if that is not known."""
    missing: dict[str, int] = {}
    found: dict[ObjectKey, Pod] = {}
    for eviction in evictions:
        pod, owner = eviction.pod, eviction.pod.owner
        if owner is None or owner.kind in STAY_BEHIND or pod.marks.mirror or pod.marks.daemon:
            continue
        there = placements.state.pods.get(pod.key)
        if there is not None and there.uid != pod.uid:
            continue  # it is back under its own name
        known = workloads.get(owner.uid)
        if known is not None:
            left = missing.setdefault(owner.uid, max(known.target - known.current, 0))
            if not left:
                continue
            missing[owner.uid] = left - 1
        found[pod.key] = placements.pods.get(pod.key, pod)
    return [found[key] for key in sorted(found)]
