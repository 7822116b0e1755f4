"""A GPU has at most one exclusive holder, shares never exceed it, and what a pod was given is leased to it."""

import heapq
from collections.abc import Iterable

from ullage.model.device import MILLI_GPU
from ullage.sim.world.books import Books, Step
from ullage.sim.world.facts import LeaseNow, PodNow
from ullage.sim.world.invariants.breach import Breach, Report, lease_name, node_name, pod_name

Gpu = tuple[str, int]

LEASE_OUTLIVES_POD_SECONDS = 300.0
"""The sweeper frees what pods that are gone held: at once, or when nothing runs on the GPU any more."""


class GpuChecks:
    """Keeps who was given each GPU, and who holds its Lease."""

    def __init__(self, books: Books, report: Report) -> None:
        self._books = books
        self._report = report
        self._given: dict[Gpu, dict[str, int]] = {}
        self._leased: dict[Gpu, LeaseNow] = {}
        self._left: list[tuple[float, str, str]] = []
        """When a Lease must no longer name a pod that is gone, its name, and the pod's uid."""
        for lease in books.leases.values():
            self._leased[lease.node, lease.device] = lease
        for pod in books.pods.values():
            for gpu in _gpus(pod):
                self._given.setdefault(gpu, {})[pod.uid] = pod.milli
        books.pod_listeners.append(self._pod)
        books.lease_listeners.append(self._lease)

    def _pod(self, step: Step[PodNow]) -> None:
        if self._left:
            self.check_left(step.at)
        before, after = _gpus(step.before), _gpus(step.after)
        if step.after is None or (step.after.over and not (step.before and step.before.over)):
            self._pod_ended(step)
        if before == after:
            return
        for gpu in before:
            self._given[gpu].pop(step.fact.uid, None)
        pod = step.after
        if pod is None or not pod.holds:
            return
        if before:
            self._say(step, "GPUs of a pod never change", f"{pod.key} was moved from {before} to {after}", pod)
        for gpu in after:
            self._give(step, pod, gpu)

    def _give(self, step: Step[PodNow], pod: PodNow, gpu: Gpu) -> None:
        holders = self._given.setdefault(gpu, {})
        holders[pod.uid] = pod.milli
        lease = self._leased.get(gpu)
        if sum(holders.values()) > MILLI_GPU:
            others = [self._books.by_uid[uid] for uid in holders if uid in self._books.by_uid]
            names = " and ".join(str(one.key) for one in others)
            self._say(step, "no GPU twice", f"GPU {gpu[1]} of {gpu[0]} was given to {names}", *others, lease=lease)
        if lease is None or pod.uid not in lease.holders:
            held = "nobody" if lease is None else ", ".join(sorted(lease.holders))
            what = f"{pod.key} was bound to GPU {gpu[1]} of {gpu[0]}, which is leased to {held}"
            self._say(step, "a bound pod's GPUs are leased to it", what, pod, lease=lease)

    def _lease(self, step: Step[LeaseNow]) -> None:
        lease = step.fact
        gpu = (lease.node, lease.device)
        holders = step.after.holders if step.after is not None else {}
        if step.after is None:
            self._leased.pop(gpu, None)
        else:
            self._leased[gpu] = step.after
        if sum(holders.values()) > MILLI_GPU:
            what = f"{lease.name} is held by more than fit: {dict(holders)}"
            self._say(step, "no GPU twice", what, *self._pods(holders), lease=lease)
        for uid in self._given.get(gpu, ()):
            if uid not in holders:
                pods = self._pods((uid,))
                what = f"{lease.name} was taken from {', '.join(str(one.key) for one in pods)}, bound to it"
                self._say(step, "a bound pod's GPUs are leased to it", what, *pods, lease=lease)

    def _pod_ended(self, step: Step[PodNow]) -> None:
        uid = step.fact.uid
        for device in step.fact.devices:
            lease = self._leased.get((step.fact.node, device))
            if lease is not None and uid in lease.holders:
                heapq.heappush(self._left, (step.at + LEASE_OUTLIVES_POD_SECONDS, lease.name, uid))

    def check_left(self, now: float) -> None:
        """What had to be over by now."""
        while self._left and self._left[0][0] <= now:
            _, name, uid = heapq.heappop(self._left)
            lease = self._books.leases.get(name)
            if lease is not None and uid in lease.holders:
                what = f"{name} still names pod {uid}, gone {LEASE_OUTLIVES_POD_SECONDS:g} s ago"
                self._report(Breach(now, "leases of pods that are gone disappear", what, (lease_name(name),)))

    def _pods(self, uids: Iterable[str]) -> list[PodNow]:
        return [self._books.by_uid[uid] for uid in uids if uid in self._books.by_uid]

    def _say(
        self,
        step: Step[PodNow] | Step[LeaseNow],
        rule: str,
        what: str,
        *pods: PodNow,
        lease: LeaseNow | None = None,
    ) -> None:
        about = [pod_name(pod.key) for pod in pods]
        about += [lease_name(lease.name), node_name(lease.node)] if lease is not None else []
        self._report(Breach(step.at, rule, what, tuple(about)))


def _gpus(pod: PodNow | None) -> list[Gpu]:
    if pod is None or not pod.devices or not pod.holds:
        return []
    return [(pod.node, device) for device in pod.devices]
