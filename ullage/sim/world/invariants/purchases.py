"""Purchase invariants: nothing is bought in place of late reports, and a purchase comes for whoever needs one.

The second is the controller's picture of leased GPUs: to one that does not hear of Leases a GPU in quarantine is free,
the pod waits, and nothing is bought. Only pods are judged that nothing but a number of whole GPUs decides about.
"""

import heapq
from collections.abc import Iterator
from typing import Any

import msgspec

from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import GPU_NODE_STATUSES, GPU_QUOTAS, NODE_POOLS
from ullage.kube.timestamps import read_time
from ullage.model.admission import LEASED_TAINT
from ullage.model.device import KIND_LABEL, MILLI_GPU, GpuNodeKind
from ullage.model.fact_event import ObjectKey
from ullage.model.karpenter import GPU_TAINT
from ullage.model.quantity import milli
from ullage.model.resources import GPU
from ullage.sim.apiserver import SimulatedApiServer
from ullage.sim.apiserver.storage.store import Listener, StoredChange
from ullage.sim.world.agents import ALWAYS_FRESH
from ullage.sim.world.invariants.breach import InvariantBreach, Report, node_name, pod_name
from ullage.sim.world.invariants.pools import PoolChecks
from ullage.sim.world.object_mirror import ObjectChange, ObjectMirror
from ullage.sim.world.stored_objects import StoredLease, StoredNode, StoredPod

SILENT_AFTER, EXCUSED_FOR = 90.0, 300.0
"""Seconds after which a report is late, and seconds for which a late one is waited for."""
SETTLED_SECONDS = 120.0
"""Seconds in which a purchase may still be one for what was there before."""
SERVED_WITHIN = 900.0
"""Seconds a pod may wait for a purchase while nothing is bought, and no pool backs off."""
_OURS = (LEASED_TAINT, GPU_TAINT)
_DECIDES_OTHERWISE = ("nodeSelector", "affinity", "topologySpreadConstraints", "resourceClaims", "schedulingGates")
_OF_CLAIMS = ("selector", "gangRef")
_PLAIN_DEVICES = {"count", "exclusivity", "policy"}
_decoded = msgspec.json.Decoder().decode


class PurchaseChecks:
    """Checks purchases for pods of `scheduler`, and pods that no purchase comes for."""

    def __init__(self, mirror: ObjectMirror, server: SimulatedApiServer, report: Report, pools: PoolChecks) -> None:
        self._mirror = mirror
        self._report = report
        self._pools = pools
        self._waiting: dict[str, ObjectKey] = {}
        self._asks: dict[str, dict[str, int] | None] = {}
        """By uid: what a waiting pod requests beside its claim; None if more than amounts decides where it goes."""
        self._last_left = float("-inf")
        self._due: list[tuple[float, str]] = []
        """Times at which waiting pods should have been served, by uid."""
        self._reports: dict[str, tuple[float, JsonObject]] = {}
        """Last report of each node, and when it was written."""
        self._changed: dict[str, float] = {}
        """Time at which GPUs of a node were last given or freed."""
        self._quotas: dict[ObjectKey, None] = {}
        self._node_pools: dict[ObjectKey, None] = {}
        """Of Karpenter, which buys for claims where it is there."""
        mirror.pod_listeners.append(self._pod)
        mirror.lease_listeners.append(self._lease)
        server.listen(GPU_NODE_STATUSES.id, self._reported)
        server.listen(GPU_QUOTAS.id, _noted(self._quotas))
        server.listen(NODE_POOLS.id, _noted(self._node_pools))

    def made(self, pool: str) -> None:
        """Check a purchase: it is none if all who wait would fit where only the report is late."""
        now = self._mirror.clock.now()
        waiting = [pod for key in self._waiting.values() if (pod := self._mirror.pods.get(key)) is not None]
        asking = [(pod, self._mirror.asked_gpus(pod)[0]) for pod in waiting]
        asking = [(pod, gpus) for pod, gpus in asking if gpus]
        if not asking or now - self._last_left < SETTLED_SECONDS:
            return
        if not self._pools.is_beyond_minimum(pool) or not all(self._is_plain(pod) for pod, _ in asking):
            return
        room = dict(self._late_rooms(now))
        for pod, gpus in sorted(asking, key=lambda one: -one[1]):
            admitting = (name for name in room if room[name] >= gpus and _admits(pod, self._mirror.nodes[name]))
            place = next(admitting, "")
            if not place:
                return
            room[place] -= gpus
        names = ", ".join(sorted(room))
        what = f"{pool} got a machine, and all who wait would fit on {names}, where only the report is late"
        about = (*(node_name(name) for name in sorted(room)), *(pod_name(pod.key) for pod, _ in asking[:4]))
        self._report(InvariantBreach(now, "nothing is bought in place of a late report", what, about))

    def check_due(self, now: float) -> None:
        """Report pods that should have been served by now, and look at the others again later."""
        while self._due and self._due[0][0] <= now:
            _, uid = heapq.heappop(self._due)
            if uid in self._waiting:
                self._check_served(uid, now)
                heapq.heappush(self._due, (now + SERVED_WITHIN, uid))

    def _check_served(self, uid: str, now: float) -> None:
        pod = self._mirror.pods[self._waiting[uid]]
        pool = self._unasked(pod, now)
        if pool:
            what = f"{pod.key} has waited for {SERVED_WITHIN:.0f} s, no node has room for it, and {pool} buys nothing"
            self._report(InvariantBreach(now, "a purchase comes for who needs one", what, (pod_name(pod.key),)))

    def _pod(self, step: ObjectChange[StoredPod]) -> None:
        self.check_due(step.at)
        pod, uid = step.after, step.fact.uid
        for one in (step.before, step.after):
            if one is not None and one.node and (step.before is None or one.holds != step.before.holds):
                self._changed[one.node] = step.at
        if pod is not None and not pod.node and not pod.over and pod.leaves_by is None:
            if uid not in self._waiting:
                self._waiting[uid] = pod.key
                heapq.heappush(self._due, (step.at + SERVED_WITHIN, uid))
            spec = _decoded(step.stored)["spec"]
            self._asks[uid] = _amounts(spec) if _is_plain(spec) else None
        elif self._waiting.pop(uid, None) is not None:
            del self._asks[uid]
            self._last_left = step.at
        if pod is None and step.before is not None and step.before.node:
            self._changed[step.before.node] = step.at

    def _lease(self, step: ObjectChange[StoredLease]) -> None:
        before = step.before.holders if step.before is not None else {}
        if step.after is None or step.after.holders != before:
            self._changed[step.fact.node] = step.at

    def _reported(self, change: StoredChange) -> None:
        self.check_due(self._mirror.clock.now())
        node = change.after.obj["metadata"]["name"]
        if change.deleted:
            self._reports.pop(node, None)
        else:
            self._reports[node] = self._mirror.clock.now(), change.after.obj.get("status") or {}

    def _is_plain(self, pod: StoredPod) -> bool:
        spec = self._mirror.claims.get(ObjectKey(pod.key.namespace, pod.claim)) if pod.claim else {}
        limited = any(key.namespace == pod.key.namespace for key in self._quotas)
        return self._asks.get(pod.uid) is not None and not pod.template and not limited and _is_plain_claim(spec)

    def _late_rooms(self, now: float) -> Iterator[tuple[str, int]]:
        """Free GPUs of nodes whose report is late, and excused, and where nothing has changed for some time."""
        late = {name: now - at - SILENT_AFTER for name, (at, said) in self._reports.items() if _grows_old(said)}
        late = {name: silent for name, silent in late.items() if silent > 0 and name in self._mirror.nodes}
        for name, silent in sorted(late.items()):
            settled = now - self._changed.get(name, float("-inf")) >= SETTLED_SECONDS
            if settled and silent < EXCUSED_FOR:
                yield name, self._free(self._mirror.nodes[name])

    def _free(self, node: StoredNode) -> int:
        """Healthy GPUs of a leased node that nobody has."""
        if node.labels.get(KIND_LABEL) != GpuNodeKind.LEASED.value.lower() or node.name not in self._reports:
            return 0
        said: list[dict[str, Any]] = self._reports[node.name][1].get("devices") or []
        healthy = {one["id"] for one in said if one.get("health", "Healthy") == "Healthy" and not one.get("inUseBy")}
        pods = self._mirror.on_node.get(node.name, {}).values()
        given = {device for pod in pods for device in pod.devices}
        leased = {lease.device for lease in self._mirror.leases.values() if lease.node == node.name and lease.holders}
        uncounted = sum(pod.gpu_milli // MILLI_GPU for pod in pods if not pod.devices)
        return max(len(healthy - given - leased) - uncounted, 0)

    def _unasked(self, pod: StoredPod, now: float) -> str:
        """A pool that would serve a pod which nobody has room for, and does not; empty if there is none."""
        gpus, asks = self._mirror.asked_gpus(pod)[0], self._asks.get(pod.uid)
        if self._node_pools or not gpus or asks is None or not pod.claim or not self._is_plain(pod):
            return ""
        if any(self._free(node) >= gpus for node in self._mirror.nodes.values()):
            return ""
        wanted = {**asks, GPU: gpus * MILLI_GPU}
        return next((name for name in self._pools.idle(now, SERVED_WITHIN) if self._pools.serves(name, wanted)), "")


def _noted(there: dict[ObjectKey, None]) -> Listener:
    """A listener that keeps the names of the objects that exist."""

    def note(change: StoredChange) -> None:
        meta = change.after.obj["metadata"]
        key = ObjectKey(meta.get("namespace", ""), meta["name"])
        if change.deleted:
            there.pop(key, None)
        else:
            there[key] = None

    return note


def _grows_old(report: JsonObject) -> bool:
    """False for a report that is dated at the end of time."""
    dated = report.get("observedAt") or ""
    return bool(dated) and read_time(dated) < ALWAYS_FRESH


def _admits(pod: StoredPod, node: StoredNode) -> bool:
    return all(key in _OURS and bool(pod.claim) for key, _, _ in node.taints)


def _is_plain(spec: JsonObject) -> bool:
    volumes = any(one.keys() & {"persistentVolumeClaim", "ephemeral"} for one in spec.get("volumes") or ())
    return not volumes and not any(map(spec.get, _DECIDES_OTHERWISE))


def _amounts(spec: JsonObject) -> dict[str, int]:
    """Requests of a pod's containers, in thousandths."""
    found: dict[str, int] = {}
    for container in spec["containers"]:
        for name, amount in ((container.get("resources") or {}).get("requests") or {}).items():
            found[name] = found.get(name, 0) + milli(amount)
    return found


def _is_plain_claim(spec: JsonObject | None) -> bool:
    if spec is None or any(map(spec.get, _OF_CLAIMS)):
        return False
    devices: JsonObject = spec.get("devices") or {}
    islands = (spec.get("topology") or {}).get("mode") == "Required"
    plain = devices.keys() <= _PLAIN_DEVICES and devices.get("exclusivity", "Exclusive") == "Exclusive"
    return plain and not islands
