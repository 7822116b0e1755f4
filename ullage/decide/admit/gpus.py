"""How many whole GPUs a pod must request so that its request is not less than its claim."""

from collections.abc import Iterable

from ullage.model.admission import AskedContainer, RequestGpus, Role
from ullage.model.claim import DeviceAsk, Exclusivity
from ullage.model.resources import MILLI


def request_change(containers: Iterable[AskedContainer], ask: DeviceAsk) -> RequestGpus | None:
    """What is missing is added to the first app container that asks for GPUs, else to the first.

    None where enough is asked for, and for claims of parts: those are counted on the devices alone.
    """
    if ask.exclusivity is not Exclusivity.EXCLUSIVE:
        return None
    known = tuple(containers)
    together, most = _totals(known)
    apps = [container for container in known if container.spot.role is Role.APP]
    missing = ask.count * MILLI - together
    if most >= ask.count * MILLI or not apps:
        return None
    chosen = next((container for container in apps if container.gpus_milli), apps[0])
    return RequestGpus(chosen.spot, -(-(chosen.gpus_milli + missing) // MILLI))


def _totals(containers: Iterable[AskedContainer]) -> tuple[int, int]:
    """What apps and sidecars take together, and the most that is taken at any time, as kube-scheduler counts it."""
    sidecars = apps = peak = 0
    for container in containers:
        match container.spot.role:
            case Role.INIT:
                peak = max(peak, sidecars + container.gpus_milli)
            case Role.SIDECAR:
                sidecars += container.gpus_milli
            case Role.APP:
                apps += container.gpus_milli
            case Role.EPHEMERAL:
                pass  # asks for nothing, by Kubernetes' own rule
    return apps + sidecars, max(apps + sidecars, peak)
