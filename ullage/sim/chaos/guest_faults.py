"""Faults of Karpenter and of VMs. Each function begins one and returns its end; None if there is nothing to strike."""

from collections.abc import Callable, Mapping
from typing import Any

from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import NODE_CLAIMS, PODS, VIRTUAL_MACHINE_MIGRATIONS, VIRTUAL_MACHINES
from ullage.model.fact_event import ObjectKey
from ullage.model.karpenter import is_smart_pod
from ullage.sim.chaos.manifests import CALM_CORES
from ullage.sim.chaos.story import ChaosFault, FaultKind
from ullage.sim.world.world import World

End = Callable[[], None]
_BUSY_CORES = 10.0


def nothing() -> None:
    """End of a fault that is over at once."""
    return


def bare(resource: Resource[Any], name: str, namespace: str = "") -> JsonObject:
    """Manifest with nothing but a name."""
    meta = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}


def heal_guests(world: World) -> None:
    """Put Karpenter and VMs right: capacity is there, Karpenter runs, VMs are calm."""
    if world.karpenter is not None:
        world.karpenter.set_available(True)
        world.karpenter.start()
    if world.vms is not None:
        world.vms.reachable = True
        _calm(world)


def _karpenter_no_capacity(world: World, _fault: ChaosFault) -> End | None:
    karpenter = world.karpenter
    if karpenter is None:
        return None
    karpenter.set_available(False)
    return lambda: karpenter.set_available(True)


def _karpenter_stops(world: World, _fault: ChaosFault) -> End | None:
    if world.karpenter is None:
        return None
    world.karpenter.stop()
    return world.karpenter.start


def _delete_smart_pod(world: World, fault: ChaosFault) -> End | None:
    pods = world.observers.mirror.pods
    return _delete_one(world, PODS, sorted(key for key, pod in pods.items() if is_smart_pod(pod.labels)), fault)


def _delete_node_claim(world: World, fault: ChaosFault) -> End | None:
    return _delete_one(world, NODE_CLAIMS, _keys(world, NODE_CLAIMS), fault)


def _delete_migration(world: World, fault: ChaosFault) -> End | None:
    return _delete_one(world, VIRTUAL_MACHINE_MIGRATIONS, _keys(world, VIRTUAL_MACHINE_MIGRATIONS), fault)


def _permits_unreachable(world: World, _fault: ChaosFault) -> End | None:
    vms = world.vms
    if vms is None:
        return None
    vms.reachable = False
    return lambda: setattr(vms, "reachable", True)


def _vm_burst(world: World, fault: ChaosFault) -> End | None:
    """Make every second VM busy."""
    keys = _keys(world, VIRTUAL_MACHINES)[fault.pick % 2 :: 2]
    if world.vms is None or not keys:
        return None
    for key in keys:
        world.vms.guests.set_load(key, _BUSY_CORES)
    return lambda: _calm(world)


def _calm(world: World) -> None:
    for key in _keys(world, VIRTUAL_MACHINES):
        if world.vms is not None:
            world.vms.guests.set_load(key, CALM_CORES)


def _keys(world: World, resource: Resource[Any]) -> list[ObjectKey]:
    found = [one["metadata"] for one in world.hand.all_of(resource)]
    return sorted(ObjectKey(meta.get("namespace", ""), meta["name"]) for meta in found)


def _delete_one(world: World, resource: Resource[Any], keys: list[ObjectKey], fault: ChaosFault) -> End | None:
    if not keys:
        return None
    key = keys[fault.pick % len(keys)]
    world.hand.delete(bare(resource, key.name, key.namespace))
    return nothing


GUEST_FAULTS: Mapping[FaultKind, Callable[[World, ChaosFault], End | None]] = {
    FaultKind.KARPENTER_NO_CAPACITY: _karpenter_no_capacity,
    FaultKind.KARPENTER_STOPS: _karpenter_stops,
    FaultKind.DELETE_SMART_POD: _delete_smart_pod,
    FaultKind.DELETE_NODE_CLAIM: _delete_node_claim,
    FaultKind.PERMITS_UNREACHABLE: _permits_unreachable,
    FaultKind.VM_BURST: _vm_burst,
    FaultKind.DELETE_MIGRATION: _delete_migration,
}
