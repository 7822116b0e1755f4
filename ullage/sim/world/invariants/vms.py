"""VM invariants: no node holds more than it has, no VM is above its permit, none is migrated twice in its cool-down.

Judged by stored objects alone, at every write. `reserved - buffer` of a VM pod is its approval, or the VM's use where
that is more; without a readable approval it is the use.
"""

from typing import Any

import msgspec

from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import VIRTUAL_MACHINE_MIGRATIONS, VIRTUAL_MACHINES
from ullage.model.fact_event import ObjectKey
from ullage.model.quantity import quantity
from ullage.model.vm import VM_APPROVED, VM_NAME, VmAmounts
from ullage.sim.apiserver import SimulatedApiServer
from ullage.sim.apiserver.storage.store import StoredChange
from ullage.sim.world.invariants.breach import InvariantBreach, Report, node_name, pod_name
from ullage.sim.world.object_mirror import ObjectChange, ObjectMirror
from ullage.sim.world.stored_objects import StoredNode, StoredPod

_NOTHING = VmAmounts(0, 0)
_decode = msgspec.json.Decoder(dict[str, str | int]).decode


class VmChecks:
    """Tracks sizes of VMs, approvals of pods and room of nodes."""

    def __init__(
        self, mirror: ObjectMirror, server: SimulatedApiServer, report: Report, *, agent: str, cooldown: float
    ) -> None:
        self._mirror = mirror
        self._server = server
        self._report = report
        self._agent = agent
        self._cooldown = cooldown
        self._uses: dict[ObjectKey, VmAmounts] = {}
        self._homes: dict[ObjectKey, str] = {}
        """Pod that runs each VM."""
        self._pods: dict[str, dict[ObjectKey, tuple[ObjectKey, VmAmounts | None]]] = {}
        """By node: VM pods with their VM and approval."""
        self._rooms: dict[str, VmAmounts] = {}
        self._started: dict[ObjectKey, float] = {}
        mirror.pod_listeners.append(self._pod)
        mirror.node_listeners.append(self._node)
        server.listen(VIRTUAL_MACHINES.id, self._vm)
        server.listen(VIRTUAL_MACHINE_MIGRATIONS.id, self._migration)

    def _node(self, step: ObjectChange[StoredNode]) -> None:
        if step.after is None:
            self._rooms.pop(step.fact.name, None)
            return
        room = msgspec.json.decode(step.stored)["status"].get("allocatable") or {}
        self._rooms[step.fact.name] = _amounts(room)

    def _pod(self, step: ObjectChange[StoredPod]) -> None:
        pod = step.fact
        vm = pod.labels.get(VM_NAME, "")
        if not vm:
            return
        for node in {pod.node, step.before.node if step.before is not None else ""} - {""}:
            self._pods.get(node, {}).pop(pod.key, None)
        if step.after is None or not step.after.holds:
            return
        notes = msgspec.json.decode(step.stored)["metadata"].get("annotations") or {}
        approved = _approved(notes.get(VM_APPROVED, ""))
        self._pods.setdefault(pod.node, {})[pod.key] = (ObjectKey(pod.key.namespace, vm), approved)
        self._check_node(pod.node, step.at)

    def _vm(self, change: StoredChange) -> None:
        obj = change.after.obj
        key = ObjectKey(obj["metadata"]["namespace"], obj["metadata"]["name"])
        if change.deleted:
            self._uses.pop(key, None)
            self._homes.pop(key, None)
            return
        before = self._uses.get(key, _NOTHING)
        use = self._uses[key] = _use(obj)
        self._homes[key] = (obj.get("status") or {}).get("podName", "")
        if use.within(before):
            return
        now = self._mirror.clock.now()
        for node, pods in self._pods.items():
            for pod, (vm, approved) in pods.items():
                if vm == key:
                    self._check_node(node, now)
                    if self._server.caller == self._agent and pod.name == self._homes[key]:
                        self._check_permit(key, pod, use, approved)

    def _check_permit(self, vm: ObjectKey, pod: ObjectKey, use: VmAmounts, approved: VmAmounts | None) -> None:
        if approved is None or not use.within(approved):
            said = f"VM {vm} was given {use} by its agent, and pod {pod} is approved for {approved}"
            at = self._mirror.clock.now()
            self._report(InvariantBreach(at, "no VM is above its permit", said, (pod_name(pod),)))

    def _check_node(self, node: str, at: float) -> None:
        room = self._rooms.get(node)
        if room is None:
            return
        held = _NOTHING
        for vm, approved in self._pods.get(node, {}).values():
            held = held.plus(self._uses.get(vm, _NOTHING).at_least(approved or _NOTHING))
        if not held.within(room):
            about = (node_name(node), *(pod_name(pod) for pod in sorted(self._pods[node])[:4]))
            said = f"VMs of {node} hold {held.cpu}m CPU and {held.memory} bytes of {room.cpu}m and {room.memory}"
            self._report(InvariantBreach(at, "reserved - buffer <= total", said, about))

    def _migration(self, change: StoredChange) -> None:
        if change.before is not None or change.deleted:
            return
        obj, at = change.after.obj, self._mirror.clock.now()
        vm = ObjectKey(obj["metadata"]["namespace"], obj["spec"]["vmName"])
        before = self._started.get(vm)
        self._started[vm] = at
        # Times are noted in whole seconds.
        if before is not None and at - before < self._cooldown - 1.0:
            said = f"VM {vm} is migrated again after {at - before:.0f} s; its cool-down is {self._cooldown:.0f} s"
            self._report(InvariantBreach(at, "no VM is migrated twice within its cool-down", said, ()))

    @property
    def migrations(self) -> int:
        """VMs that were migrated at least once."""
        return len(self._started)


def _use(obj: JsonObject) -> VmAmounts:
    guest: dict[str, Any] = obj["spec"]["guest"]
    slot = int(quantity(guest.get("memorySlotSize", "1Gi")))
    return VmAmounts(int(quantity(guest["cpus"]["use"]) * 1000), int(guest["memorySlots"]["use"]) * slot)


def _approved(text: str) -> VmAmounts | None:
    try:
        return _amounts(_decode(text))
    except (msgspec.DecodeError, ValueError, KeyError):
        return None


def _amounts(said: Any) -> VmAmounts:
    return VmAmounts(int(quantity(said["cpu"]) * 1000), int(quantity(said["memory"])))
