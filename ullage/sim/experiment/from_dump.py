"""Run that starts from a dump of a live cluster: shows what another setting would have done."""

from typing import Any

from ullage.errors import UserError
from ullage.kube.client.resource import JsonObject
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
    """Objects of the dump. `pods_run` is the run time in seconds, from their start, of pods that end by themselves."""
    return tuple(_pod(one, pods_run) if one.get("kind") == "Pod" else one for one in dump.objects)


def restored_fleet(dump: Dump) -> SimulatedFleet:
    """Fleet of the dump, reduced to what arrivals need: the memory of the smallest GPU."""
    sizes = [device.memory for inventory in dump.inventories for device in inventory.devices if device.memory]
    return SimulatedFleet(smallest_gpu=min(sizes, default=0))


def not_ours(dump: Dump, schedulers: tuple[str, ...]) -> list[str]:
    """Pending pods whose schedulers are not simulated."""
    return [
        f"{one['metadata'].get('namespace', 'default')}/{one['metadata']['name']}"
        for one in dump.objects
        if one.get("kind") == "Pod"
        and not one["spec"].get("nodeName")
        and one.get("status", {}).get("phase") not in _OVER
        and one["spec"].get("schedulerName", "default-scheduler") not in schedulers
    ]


def _pod(pod: JsonObject, pods_run: float | None) -> JsonObject:
    spec: dict[str, Any] = pod.get("spec", {})
    if pods_run is None or spec.get("restartPolicy", "Always") == "Always":
        return pod
    meta = pod["metadata"]
    annotations = {DURATION: f"{pods_run:.3f}", **(meta.get("annotations") or {})}
    return {**pod, "metadata": {**meta, "annotations": annotations}}
