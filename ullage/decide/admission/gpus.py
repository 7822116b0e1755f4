"""Whole GPUs a pod must request so that its request is not less than its claim."""

from collections.abc import Iterable

from ullage.model.admission import AdmissionContainer, ContainerRole, RequestGpus
from ullage.model.claim import DeviceRequest, Exclusivity
from ullage.model.resources import MILLI


def request_change(containers: Iterable[AdmissionContainer], ask: DeviceRequest) -> RequestGpus | None:
    """Add the missing GPUs to the first app container that requests GPUs, else to the first app container.

    None where enough is asked for, and for claims of parts: those are counted on the devices alone.
    """
    if ask.exclusivity is not Exclusivity.EXCLUSIVE:
        return None
    known = tuple(containers)
    together, most = _totals(known)
    apps = [container for container in known if container.spot.role is ContainerRole.APP]
    missing = ask.count * MILLI - together
    if most >= ask.count * MILLI or not apps:
        return None
    chosen = next((container for container in apps if container.gpus_milli), apps[0])
    return RequestGpus(chosen.spot, -(-(chosen.gpus_milli + missing) // MILLI))


def _totals(containers: Iterable[AdmissionContainer]) -> tuple[int, int]:
    """GPUs of apps and sidecars together, and the peak at any time, as kube-scheduler counts them. In thousandths."""
    sidecars = apps = peak = 0
    for container in containers:
        match container.spot.role:
            case ContainerRole.INIT:
                peak = max(peak, sidecars + container.gpus_milli)
            case ContainerRole.SIDECAR:
                sidecars += container.gpus_milli
            case ContainerRole.APP:
                apps += container.gpus_milli
            case ContainerRole.EPHEMERAL:
                pass  # asks for nothing, by Kubernetes' own rule
    return apps + sidecars, max(apps + sidecars, peak)
