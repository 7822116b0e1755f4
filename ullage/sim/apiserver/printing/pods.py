"""Pods as rows. The status column shows the most telling of phase, containers and deletion."""

from dataclasses import dataclass
from typing import Any

from ullage.sim.apiserver.printing.ages import age_of, since
from ullage.sim.apiserver.printing.column import NONE, Cell, Printer, columns, name_of, part
from ullage.sim.apiserver.storage.json_bytes import JsonObject

_TERMINAL = ("Succeeded", "Failed")


@dataclass(slots=True)
class _Seen:
    """Facts about the containers of a pod, gathered one by one."""

    reason: str
    restarts: int = 0
    last_restart: str = ""
    sidecar_restarts: int = 0
    sidecar_last_restart: str = ""
    ready: int = 0
    initializing: bool = False


def pod_cells(pod: JsonObject, now: float) -> list[Cell]:
    status, spec = part(pod, "status"), part(pod, "spec")
    sidecars = {
        container.get("name")
        for container in spec.get("initContainers") or []
        if container.get("restartPolicy") == "Always"
    }
    seen = _Seen(_phase_reason(status))
    _see_init_containers(seen, status, spec, sidecars)
    if not seen.initializing or _holds(status, "Initialized"):
        _see_containers(seen, status)
    restarts: str = str(seen.restarts)
    if seen.restarts and seen.last_restart:
        restarts = f"{seen.restarts} ({since(seen.last_restart, now)} ago)"
    ready = f"{seen.ready}/{len(spec.get('containers') or []) + len(sidecars)}"
    return [name_of(pod), ready, _shown_reason(pod, seen.reason), restarts, age_of(pod, now), *_wide(status, spec)]


def _wide(status: JsonObject, spec: JsonObject) -> list[Cell]:
    addresses = status.get("podIPs") or []
    address = addresses[0].get("ip") if addresses else status.get("podIP")
    gates = spec.get("readinessGates") or []
    passed = sum(1 for gate in gates if _holds(status, gate.get("conditionType", "")))
    return [
        address or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{passed}/{len(gates)}" if gates else NONE,
    ]


def _phase_reason(status: JsonObject) -> str:
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return status.get("reason") or status.get("phase") or ""


def _shown_reason(pod: JsonObject, reason: str) -> str:
    if not pod["metadata"].get("deletionTimestamp"):
        return reason
    if part(pod, "status").get("reason") == "NodeLost":
        return "Unknown"
    return reason if part(pod, "status").get("phase") in _TERMINAL else "Terminating"


def _see_init_containers(seen: _Seen, status: JsonObject, spec: JsonObject, sidecars: set[Any]) -> None:
    """They run in order: the first that is not through tells how far the pod is."""
    for index, container in enumerate(status.get("initContainerStatuses") or []):
        seen.restarts += container.get("restartCount") or 0
        seen.last_restart = max(seen.last_restart, _last_end(container))
        is_sidecar = container.get("name") in sidecars
        if is_sidecar:
            seen.sidecar_restarts += container.get("restartCount") or 0
            seen.sidecar_last_restart = max(seen.sidecar_last_restart, _last_end(container))
        ended, waits = part(container, "state", "terminated"), part(container, "state", "waiting").get("reason")
        if ended and not ended.get("exitCode"):
            continue
        if is_sidecar and container.get("started"):
            seen.ready += 1 if container.get("ready") else 0
            continue
        if ended:
            seen.reason = "Init:" + (ended.get("reason") or _how_it_ended(ended))
        elif waits and waits != "PodInitializing":
            seen.reason = f"Init:{waits}"
        else:
            seen.reason = f"Init:{index}/{len(spec.get('initContainers') or [])}"
        seen.initializing = True
        return


def _see_containers(seen: _Seen, status: JsonObject) -> None:
    """From the last to the first: the first one's word counts."""
    seen.restarts, seen.last_restart = seen.sidecar_restarts, seen.sidecar_last_restart
    running = False
    for container in reversed(status.get("containerStatuses") or []):
        seen.restarts += container.get("restartCount") or 0
        seen.last_restart = max(seen.last_restart, _last_end(container))
        state = part(container, "state")
        ended = state.get("terminated")
        if waits := part(state, "waiting").get("reason"):
            seen.reason = waits
        elif ended is not None:
            seen.reason = ended.get("reason") or _how_it_ended(ended)
        elif container.get("ready") and state.get("running") is not None:
            running = True
            seen.ready += 1
    if seen.reason == "Completed" and running:
        seen.reason = "Running" if _holds(status, "Ready") else "NotReady"


def _how_it_ended(ended: JsonObject) -> str:
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _last_end(container: JsonObject) -> str:
    return part(container, "lastState", "terminated").get("finishedAt") or ""


def _holds(status: JsonObject, condition: str) -> bool:
    return any(c.get("type") == condition and c.get("status") == "True" for c in status.get("conditions") or [])


POD = Printer(
    columns("Name; Ready; Status; Restarts; Age; wide IP; wide Node; wide Nominated Node; wide Readiness Gates"),
    pod_cells,
)
