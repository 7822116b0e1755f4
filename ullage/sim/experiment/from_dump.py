"""Run that starts from a dump of a live cluster: shows what another setting would have done."""

from typing import Any

from ullage.errors import UserError
from ullage.kube.client.resource import JsonObject
from ullage.kube.read.leases import MANAGED, NODE
from ullage.sim.fleet.fleet import SimulatedFleet
from ullage.sim.kubelet.timings import DURATION
from ullage.state.dump import Dump, read_dump

_OVER = ("Succeeded", "Failed")


def read_cluster(text: bytes, source: str) -> Dump:
    """Read a dump that a run can start from. Raises UserError."""
    try:
        dump = read_dump(text)
    except ValueError as error:
        raise UserError(f"{source}: {error}; give a file of `ullage dump`, or of a broken simulation") from error
    if not dump.objects:
        raise UserError(f"{source}: has no objects to go on from; take a new one with `ullage dump`")
    return dump


def restored_objects(dump: Dump, pods_run: float | None) -> tuple[JsonObject, ...]:
    """Objects of the dump, without those on nodes that it does not have (`on_no_node`).

    `pods_run` is the run time in seconds, from their start, of pods that end by themselves.
    """
    nodes = _nodes(dump)
    kept = (one for one in dump.objects if _is_on(one) in nodes)
    return tuple(_pod(one, pods_run) if one.get("kind") == "Pod" else one for one in kept)


def restored_fleet(dump: Dump) -> SimulatedFleet:
    """Fleet of the dump, reduced to what arrivals need: the memory of the smallest GPU."""
    sizes = [device.memory for inventory in dump.inventories for device in inventory.devices if device.memory]
    return SimulatedFleet(smallest_gpu=min(sizes, default=0))


def on_no_node(dump: Dump) -> list[str]:
    """Bound pods and Leases of GPUs whose node the dump does not have: nobody can play their kubelet."""
    nodes = _nodes(dump)
    return [f"{one['kind'].lower()} {_name(one)}" for one in dump.objects if _is_on(one) not in nodes]


def not_ours(dump: Dump, schedulers: tuple[str, ...]) -> list[str]:
    """Pending pods whose schedulers are not simulated."""
    return [
        _name(one)
        for one in dump.objects
        if one.get("kind") == "Pod"
        and not one["spec"].get("nodeName")
        and one.get("status", {}).get("phase") not in _OVER
        and one["spec"].get("schedulerName", "default-scheduler") not in schedulers
    ]


def _nodes(dump: Dump) -> set[str]:
    """Names of the nodes; the empty name is that of no node."""
    return {"", *(one["metadata"]["name"] for one in dump.objects if one.get("kind") == "Node")}


def _is_on(manifest: JsonObject) -> str:
    """Name of the node that the object is on: the node of a bound pod or of a GPU's Lease; empty for all others."""
    if manifest.get("kind") == "Pod" and manifest.get("status", {}).get("phase") not in _OVER:
        return str(manifest["spec"].get("nodeName") or "")
    if manifest.get("kind") == "Lease" and (manifest["metadata"].get("labels") or {}).get(MANAGED) == "true":
        return str((manifest["metadata"].get("annotations") or {}).get(NODE, ""))
    return ""


def _name(manifest: JsonObject) -> str:
    return f"{manifest['metadata'].get('namespace', 'default')}/{manifest['metadata']['name']}"


def _pod(pod: JsonObject, pods_run: float | None) -> JsonObject:
    spec: dict[str, Any] = pod.get("spec", {})
    if pods_run is None or spec.get("restartPolicy", "Always") == "Always":
        return pod
    meta = pod["metadata"]
    annotations = {DURATION: f"{pods_run:.3f}", **(meta.get("annotations") or {})}
    return {**pod, "metadata": {**meta, "annotations": annotations}}
