"""Liveness after the faults: the world comes to rest, nobody waits who could be placed, and nothing is left behind.

Judged from the objects as stored and from the cloud's own list, by simple sums: nothing of the observed code is used.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, VIRTUAL_MACHINE_MIGRATIONS
from ullage.model.admission import LEASED_TAINT
from ullage.model.device import KIND_LABEL, DeviceHealth, GpuNodeKind
from ullage.model.draining import DRAINING_TAINT
from ullage.model.fact_event import ObjectKey
from ullage.model.karpenter import GPU_TAINT, HANDOVER, is_smart_pod
from ullage.model.provisioner import DELETION_TAINT
from ullage.sim.apiserver.storage.store import Listener, StoredChange
from ullage.sim.chaos.manifests import GANG_SIZE, LARGEST_INSTANCE, RIVAL, node_name
from ullage.sim.world.stored_objects import StoredPod
from ullage.sim.world.world import World

REST_SECONDS = 240.0
"""Seconds without a write of ours after which the world is at rest: longer than every timer of a small pool."""
ANSWER_SECONDS = 120.0
"""Seconds after the last change of a pod by anybody else before a world at rest is judged: ours may have to answer."""
CONVERGES_WITHIN = 3600.0
_ADMITS_CLAIMS = (LEASED_TAINT, GPU_TAINT)
"""Taints that every pod with a claim tolerates."""
_WATCHED = (
    "pods",
    "nodes",
    "leases.coordination.k8s.io",
    "gpuclaims.gpu.scheduling",
    "nodeprovisioners.gpu.scheduling",
)


@dataclass(frozen=True, slots=True)
class LivenessBreach:
    """A promise about the end of a run that was not kept."""

    rule: str
    sentence: str


class WriteClock:
    """Time of the last write of one of our processes that is no heartbeat, and of the last that may call for one."""

    def __init__(self, world: World, ours: Collection[str]) -> None:
        self._world = world
        self._ours = frozenset(ours)
        self.last = 0.0
        self.what = "nothing"
        self.asked = 0.0
        """Time of the last change of a pod by somebody else."""
        for place in _WATCHED:
            world.server.listen(place, self._wrote(place))

    def at_rest(self, since: float) -> bool:
        """True if ours have written nothing for long enough, and for as long as `since`, and nobody waits for them."""
        now = self._world.elapsed
        return now - max(self.last, since) >= REST_SECONDS and now - self.asked >= ANSWER_SECONDS

    def _wrote(self, place: str) -> Listener:
        def note(change: StoredChange) -> None:
            meta = change.after.obj["metadata"]
            heartbeat = place.startswith("leases") and not meta["name"].startswith("gpu-")
            if not heartbeat and self._world.server.caller in self._ours:
                self.last = self._world.elapsed
                self.what = f"{self._world.server.caller} wrote {place} {meta.get('namespace', '')}/{meta['name']}"
            elif place == "pods":
                self.asked = self._world.elapsed

        return note


def breaches(world: World) -> Iterator[LivenessBreach]:
    """Everything that is wrong with a world at rest."""
    mirror = world.observers.mirror
    for lease in mirror.leases.values():
        for uid in lease.holders:
            if uid not in mirror.by_uid or mirror.by_uid[uid].over:
                yield LivenessBreach("no Lease is left behind", f"{lease.name} names pod {uid}, which is gone")
    for pod in mirror.pods.values():
        if pod.holds and pod.devices:
            held = {
                lease.device for lease in mirror.leases.values() if lease.node == pod.node and pod.uid in lease.holders
            }
            if missing := set(pod.devices) - held:
                text = f"{pod.key} runs on GPUs {sorted(missing)} of {pod.node} without their Leases"
                yield LivenessBreach("a running pod's GPUs are leased to it", text)
    for node in mirror.nodes.values():
        if any(key in (DRAINING_TAINT, DELETION_TAINT) for key, _, _ in node.taints):
            yield LivenessBreach("no taint is left behind", f"{node.name} is tainted for removal, and nothing happens")
    yield from _machines(world)
    yield from _starving(world)
    yield from _hand_overs(world)
    yield from _vms(world)
    yield from _reservations(world)


def _reservations(world: World) -> Iterator[LivenessBreach]:
    """Leased GPUs that a DRA driver publishes and no ResourceClaim withholds; and withheld ones that nobody leases."""
    published = {one["spec"]["pool"]["name"] for one in world.hand.all_of(RESOURCE_SLICES[0])}
    ours = world.hand.all_of(RESOURCE_CLAIMS[0])
    withheld = {one["metadata"]["name"] for one in ours if (one.get("status") or {}).get("allocation")}
    leased = {lease.name for lease in world.observers.mirror.leases.values() if lease.node in published}
    for name in sorted(leased - withheld):
        yield LivenessBreach("a leased GPU is withheld from ResourceClaims", f"{name} has no reservation")
    for name in sorted({one["metadata"]["name"] for one in ours} - leased):
        yield LivenessBreach("no reservation is left behind", f"{name} is there, and its Lease is not")


def _machines(world: World) -> Iterator[LivenessBreach]:
    """Instances without a node cost money and serve nobody. Nodes without an instance are no places for pods."""
    nodes, machines = world.observers.mirror.nodes, set(world.cloud.machine_ids())
    for node in sorted(nodes.values(), key=lambda one: one.name):
        if node.pool and node.name not in machines:
            yield LivenessBreach("no node without its machine is left behind", f"{node.name} has no instance any more")
    for machine in world.cloud.machine_ids():
        if machine not in nodes:
            yield LivenessBreach("no machine is left behind", f"instance {machine} has no node, and nothing happens")


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A pod of ours that waits, with the number of GPUs that would do: whole ones, also for parts of them."""

    pod: StoredPod
    gpus: int
    gang: str


def _waiting(world: World) -> Iterator[_Waiting]:
    """Pods that wait and that sums can judge. Not those of quotas, MIG and required islands.

    Nor those of a world with VMs: their permits decide how much processor is left, and that is no sum over pods.
    """
    mirror = world.observers.mirror
    for pod in () if world.vms is not None else sorted(mirror.pods.values(), key=lambda one: one.key):
        if pod.node or pod.over or pod.leaves_by is not None or pod.key.namespace != "default":
            continue
        claim = mirror.claims.get(_claim_key(pod)) if pod.claim else {}
        # The rival is a pod of kube-scheduler that selects nodes of Karpenter.
        if pod.key.name != RIVAL and not pod.template and claim is not None and not _is_special(claim):
            yield _Waiting(pod, max(1, mirror.asked_gpus(pod)[0]), claim.get("gangRef") or "")


def _starving(world: World) -> Iterator[LivenessBreach]:
    """Pods that wait although one node has all they ask for, and gangs for which nodes have."""
    gangs: dict[str, list[_Waiting]] = {}
    for one in _waiting(world):
        room = _room(world, one.pod)
        if one.gang:
            gangs.setdefault(one.gang, []).append(one)
        elif free := next((name for name, gpus in room.items() if gpus >= one.gpus), ""):
            text = f"{one.pod.key} waits for {one.gpus} GPUs, and {free} has {room[free]} free"
            yield LivenessBreach("nobody waits who could be placed", text)
    for name, members in gangs.items():
        seats = sum(gpus // members[0].gpus for gpus in _room(world, members[0].pod).values())
        alike = {one.gpus for one in members} == {members[0].gpus}
        if alike and len(members) == GANG_SIZE and seats >= GANG_SIZE:
            text = (
                f"gang {name} waits for {GANG_SIZE} times {members[0].gpus} GPUs, and there is room for {seats} times"
            )
            yield LivenessBreach("nobody waits who could be placed", text)


def _room(world: World, pod: StoredPod) -> dict[str, int]:
    """Free GPUs of the nodes that a pod may run on."""
    reachable, found = _reachable(world, pod), dict[str, int]()
    for name, node in sorted(world.observers.mirror.nodes.items()):
        if name in reachable and all(key in _ADMITS_CLAIMS and pod.claim for key, _, _ in node.taints):
            found[name] = len(free_gpus(world, name))
    return found


def _reachable(world: World, pod: StoredPod) -> Collection[str]:
    """Nodes that a pod may run on by its volume and its own selector. No node of a story is counted."""
    if _is_free(world, pod):
        return world.observers.mirror.nodes.keys()
    return {node_name(0)} if _has_volume(world, pod) else ()


def _is_free(world: World, pod: StoredPod) -> bool:
    """True if a pod has no volume, and does not select counted nodes by itself, whatever its claim says by now."""
    selected = (_spec(world, pod).get("nodeSelector") or {}).get(KIND_LABEL)
    return selected != GpuNodeKind.COUNTED.value.lower() and not _has_volume(world, pod)


def _has_volume(world: World, pod: StoredPod) -> bool:
    """True if a pod has the volume that only the first node can reach."""
    return any("persistentVolumeClaim" in one for one in _spec(world, pod).get("volumes") or ())


def _spec(world: World, pod: StoredPod) -> JsonObject:
    stored = world.hand.read(PODS, pod.key.name, pod.key.namespace)
    found: JsonObject = stored["spec"] if stored else {}
    return found


def _is_special(claim: JsonObject) -> bool:
    """True if more than a number of free GPUs decides whether a claim can be served.

    Every stored claim has a topology, for which the API server has a default: only a required one says no.
    """
    required = (claim.get("topology") or {}).get("mode") == "Required"
    mig = (claim.get("devices") or {}).get("exclusivity") == "MIG"
    return required or mig or bool(claim.get("selector"))


def _claim_key(pod: StoredPod) -> ObjectKey:
    return ObjectKey(pod.key.namespace, pod.claim)


def free_gpus(world: World, node: str) -> list[int]:
    """Healthy GPUs of a node that no pod and no Lease names."""
    mirror = world.observers.mirror
    inventory = world.reported(node)
    if inventory is None:
        return []
    held = {lease.device for lease in mirror.leases.values() if lease.node == node and lease.holders}
    held |= {device for pod in mirror.on_node.get(node, {}).values() for device in pod.devices}
    return [
        device.id
        for device in inventory.devices
        if device.health is DeviceHealth.HEALTHY and not device.mig and not device.in_use_by and device.id not in held
    ]


def _hand_overs(world: World) -> Iterator[LivenessBreach]:
    """Smart pods and marks of hand-overs that are over, and claims that Karpenter could serve and is not asked for."""
    mirror = world.observers.mirror
    if world.karpenter is None:
        return
    for pod in sorted(mirror.pods.values(), key=lambda one: one.key):
        if is_smart_pod(pod.labels):
            yield LivenessBreach("no smart pod is left behind", f"{pod.key} is still there, and nothing happens")
        elif not pod.node and not pod.over and pod.claim and pod.key.namespace == "default":
            claim = mirror.claims.get(_claim_key(pod))
            count, part = mirror.asked_gpus(pod)
            plain = claim is not None and not part and not (claim.get("gangRef") or claim.get("selector"))
            if plain and count <= LARGEST_INSTANCE and _is_free(world, pod):
                text = f"{pod.key} waits for {count} GPUs, and nobody asks Karpenter for a node"
                yield LivenessBreach("Karpenter is asked for whoever fits nowhere", text)
    for node in sorted(mirror.nodes.values(), key=lambda one: one.name):
        if any(key == HANDOVER for key, _, _ in node.taints) or node.kept:
            yield LivenessBreach("no hand-over is left behind", f"{node.name} is closed or kept, and nothing happens")


def _vms(world: World) -> Iterator[LivenessBreach]:
    """Migrations that never end, and VMs without a pod that runs."""
    for one in world.hand.all_of(VIRTUAL_MACHINE_MIGRATIONS):
        if (one.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            name = one["metadata"]["name"]
            yield LivenessBreach("migrations end", f"VirtualMachineMigration {name} is not over, and nothing happens")
