"""GPU invariants: at most one exclusive holder, shares within the GPU, and a Lease for every allocated GPU.

A Lease that a user deletes is restored in time. A Lease that one of our processes takes from a bound pod is a breach at
once.
"""

import heapq
import math
from collections.abc import Collection, Iterable

from ullage.kube.client.resources import GPU_NODE_STATUSES
from ullage.model.device import MILLI_GPU
from ullage.sim.apiserver import SimulatedApiServer
from ullage.sim.apiserver.storage.store import StoredChange
from ullage.sim.world.invariants.breach import InvariantBreach, Report, lease_name, node_name, pod_name
from ullage.sim.world.object_mirror import ObjectChange, ObjectMirror
from ullage.sim.world.stored_objects import StoredLease, StoredPod

Gpu = tuple[str, int]

LEASE_OUTLIVES_POD_SECONDS = 300.0
"""Seconds. The LeaseGarbageCollector frees Leases of gone pods: at once, or when nothing runs on the GPU any more, as
its agent reports.
"""


RESTORED_WITHIN_SECONDS = 60.0
"""Seconds after the deletion of a Lease within which a running pod's GPU is leased to it again."""
STOPPED_SECONDS = 150.0
"""Seconds for which a process may be stopped between taking a Lease and the bind, and not see that it was deleted."""


class GpuChecks:
    """Tracks the pods each GPU is allocated to and the holders of its Lease.

    Processes in `ours` never take a Lease from a bound pod.
    """

    def __init__(self, mirror: ObjectMirror, server: SimulatedApiServer, report: Report, ours: Collection[str]) -> None:
        self._mirror = mirror
        self._report = report
        self._ours = frozenset(ours)
        self._lost: dict[tuple[Gpu, str], float] = {}
        """Deadline for a Lease to name a bound pod again, by GPU and the pod's uid."""
        self._deadlines: list[tuple[float, Gpu, str]] = []
        """The same in order, with those of Leases that were restored since."""
        self._taken: dict[tuple[Gpu, str], float] = {}
        """Time at which somebody else took a Lease from a holder, bound or not."""
        self._given: dict[Gpu, dict[str, int]] = {}
        self._leased: dict[Gpu, StoredLease] = {}
        self._left: list[tuple[float, str, str]] = []
        """Deadline for a Lease to stop naming a gone pod, the Lease's name, and the pod's uid."""
        self._used: dict[Gpu, frozenset[str]] = {}
        """Uids of the pods that use each GPU, as its agent last reported."""
        for lease in mirror.leases.values():
            self._leased[lease.node, lease.device] = lease
        for pod in mirror.pods.values():
            for gpu in _gpus(pod):
                self._given.setdefault(gpu, {})[pod.uid] = pod.milli
        mirror.pod_listeners.append(self._pod)
        mirror.lease_listeners.append(self._lease)
        server.listen(GPU_NODE_STATUSES.id, self._inventory)

    def _inventory(self, change: StoredChange) -> None:
        node = change.after.obj["metadata"]["name"]
        for device in (change.after.obj.get("status") or {}).get("devices") or ():
            self._used[node, device["id"]] = frozenset(() if change.deleted else device.get("inUseBy") or ())

    def _pod(self, step: ObjectChange[StoredPod]) -> None:
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

    def _give(self, step: ObjectChange[StoredPod], pod: StoredPod, gpu: Gpu) -> None:
        holders = self._given.setdefault(gpu, {})
        holders[pod.uid] = pod.milli
        lease = self._leased.get(gpu)
        if sum(holders.values()) > MILLI_GPU:
            others = [self._mirror.by_uid[uid] for uid in holders if uid in self._mirror.by_uid]
            names = " and ".join(str(one.key) for one in others)
            self._say(step, "no GPU twice", f"GPU {gpu[1]} of {gpu[0]} was given to {names}", *others, lease=lease)
        if _is_leased_to(pod, lease):
            return
        if step.at - self._taken.get((gpu, pod.uid), -math.inf) < STOPPED_SECONDS:
            self._miss(gpu, pod.uid, step.at)
        else:
            held = "nobody" if lease is None else ", ".join(sorted(lease.holders))
            what = f"{pod.key} was bound to GPU {gpu[1]} of {gpu[0]}, which is leased to {held}"
            self._say(step, "a bound pod's GPUs are leased to it", what, pod, lease=lease)

    def _miss(self, gpu: Gpu, uid: str, at: float) -> None:
        """Note that a bound pod has lost its Lease by no fault of ours."""
        if (gpu, uid) not in self._lost:
            deadline = self._lost[gpu, uid] = at + RESTORED_WITHIN_SECONDS
            heapq.heappush(self._deadlines, (deadline, gpu, uid))

    def _note_taken(self, step: ObjectChange[StoredLease], gpu: Gpu) -> None:
        before = step.before.holders if step.before is not None else ()
        after = step.after.holders if step.after is not None else ()
        for uid in after:
            self._taken.pop((gpu, uid), None)
        if step.by not in self._ours:
            self._taken.update(dict.fromkeys(((gpu, uid) for uid in before if uid not in after), step.at))

    def _lease(self, step: ObjectChange[StoredLease]) -> None:
        self.check_left(step.at)
        lease = step.fact
        gpu = (lease.node, lease.device)
        self._note_taken(step, gpu)
        holders = step.after.holders if step.after is not None else {}
        if step.after is None:
            self._leased.pop(gpu, None)
        else:
            self._leased[gpu] = step.after
        if sum(holders.values()) > MILLI_GPU:
            what = f"{lease.name} is held by more than fit: {dict(holders)}"
            self._say(step, "no GPU twice", what, *self._pods(holders), lease=lease)
        if holders and min(holders.values()) == 0 < max(holders.values()):
            what = f"{lease.name} is held whole or in shares, and in MIG instances: {dict(holders)}"
            self._say(step, "no GPU twice", what, *self._pods(holders), lease=lease)
        for uid in self._given.get(gpu, ()):
            pods = self._pods((uid,))
            if all(_is_leased_to(pod, step.after) for pod in pods):
                self._lost.pop((gpu, uid), None)
            elif step.by not in self._ours:
                self._miss(gpu, uid, step.at)
            elif all(_is_leased_to(pod, step.before) for pod in pods):
                # Otherwise somebody else took it; holders of a shared GPU are restored one after another.
                what = f"{lease.name} was taken from {', '.join(str(one.key) for one in pods)}, bound to it"
                self._say(step, "a bound pod's GPUs are leased to it", what, *pods, lease=lease)

    def _pod_ended(self, step: ObjectChange[StoredPod]) -> None:
        uid = step.fact.uid
        for device in step.fact.devices:
            lease = self._leased.get((step.fact.node, device))
            if lease is not None and uid in lease.holders:
                heapq.heappush(self._left, (step.at + LEASE_OUTLIVES_POD_SECONDS, lease.name, uid))

    def check_left(self, now: float) -> None:
        """Report Leases not restored and Leases not released by their deadlines."""
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, gpu, uid = heapq.heappop(self._deadlines)
            if self._lost.get((gpu, uid)) != deadline:
                continue  # it was restored, and perhaps lost once more
            del self._lost[gpu, uid]
            for pod in self._pods((uid,) if uid in self._given.get(gpu, ()) else ()):
                what = f"GPU {gpu[1]} of {gpu[0]} was not leased to {pod.key} again in {RESTORED_WITHIN_SECONDS:g} s"
                about = (pod_name(pod.key), node_name(gpu[0]))
                self._report(InvariantBreach(now, "a bound pod's GPUs are leased to it", what, about))
        while self._left and self._left[0][0] <= now:
            _, name, uid = heapq.heappop(self._left)
            lease = self._mirror.leases.get(name)
            if lease is not None and uid in self._used.get((lease.node, lease.device), ()):
                heapq.heappush(self._left, (now + LEASE_OUTLIVES_POD_SECONDS, name, uid))
            elif lease is not None and uid in lease.holders:
                what = f"{name} still names pod {uid}, gone {LEASE_OUTLIVES_POD_SECONDS:g} s ago"
                self._report(InvariantBreach(now, "leases of pods that are gone disappear", what, (lease_name(name),)))

    def _pods(self, uids: Iterable[str]) -> list[StoredPod]:
        return [self._mirror.by_uid[uid] for uid in uids if uid in self._mirror.by_uid]

    def _say(
        self,
        step: ObjectChange[StoredPod] | ObjectChange[StoredLease],
        rule: str,
        what: str,
        *pods: StoredPod,
        lease: StoredLease | None = None,
    ) -> None:
        about = [pod_name(pod.key) for pod in pods]
        about += [lease_name(lease.name), node_name(lease.node)] if lease is not None else []
        self._report(InvariantBreach(step.at, rule, what, tuple(about)))


def _is_leased_to(pod: StoredPod, lease: StoredLease | None) -> bool:
    """True if the Lease names the pod; for a pod with MIG instances, if it names at least one of them.

    All Leases of such a pod together name all its instances.
    """
    if lease is None or pod.uid not in lease.holders:
        return False
    return bool(pod.milli) or any(lease.instances.get(uuid) == pod.uid for uuid in pod.sees)


def _gpus(pod: StoredPod | None) -> list[Gpu]:
    if pod is None or not pod.devices or not pod.holds:
        return []
    return [(pod.node, device) for device in pod.devices]
