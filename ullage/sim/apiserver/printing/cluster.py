"""Nodes, namespaces, budgets, leases and classes, as rows."""

from ullage.sim.apiserver.printing.ages import age_of
from ullage.sim.apiserver.printing.column import NONE, UNKNOWN, Cell, Printer, columns, name_of, number, part
from ullage.sim.apiserver.storage.json_bytes import JsonObject

_ROLE = "node-role.kubernetes.io/"


def _node(obj: JsonObject, now: float) -> list[Cell]:
    info = part(obj, "status", "nodeInfo")
    return [
        name_of(obj),
        _node_status(obj),
        _roles(obj),
        age_of(obj, now),
        info.get("kubeletVersion", ""),
        _address(obj, "InternalIP"),
        _address(obj, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _node_status(obj: JsonObject) -> str:
    ready = [c for c in part(obj, "status").get("conditions") or [] if c.get("type") == "Ready"]
    words = ["Ready" if c.get("status") == "True" else "NotReady" for c in ready[-1:]] or ["Unknown"]
    if part(obj, "spec").get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(obj: JsonObject) -> str:
    labels = obj["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE) and key != _ROLE}
    if named := labels.get("kubernetes.io/role"):
        roles.add(named)
    return ",".join(sorted(roles)) or NONE


def _address(obj: JsonObject, kind: str) -> str:
    for address in part(obj, "status").get("addresses") or []:
        if address.get("type") == kind:
            return str(address.get("address", ""))
    return NONE


def _namespace(obj: JsonObject, now: float) -> list[Cell]:
    return [name_of(obj), part(obj, "status").get("phase", ""), age_of(obj, now)]


def _lease(obj: JsonObject, now: float) -> list[Cell]:
    return [name_of(obj), part(obj, "spec").get("holderIdentity") or "", age_of(obj, now)]


def _budget(obj: JsonObject, now: float) -> list[Cell]:
    spec = part(obj, "spec")
    bounds = [str(spec[name]) if spec.get(name) is not None else "N/A" for name in ("minAvailable", "maxUnavailable")]
    return [name_of(obj), *bounds, number(obj, "status", "disruptionsAllowed"), age_of(obj, now)]


def _priority_class(obj: JsonObject, now: float) -> list[Cell]:
    return [
        name_of(obj),
        obj.get("value", 0),
        bool(obj.get("globalDefault")),
        age_of(obj, now),
        obj.get("preemptionPolicy", ""),
    ]


def _storage_class(obj: JsonObject, now: float) -> list[Cell]:
    annotations = obj["metadata"].get("annotations") or {}
    default = annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
    return [
        name_of(obj) + (" (default)" if default else ""),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy") or "Delete",
        obj.get("volumeBindingMode") or UNKNOWN,
        bool(obj.get("allowVolumeExpansion")),
        age_of(obj, now),
    ]


def _csi_node(obj: JsonObject, now: float) -> list[Cell]:
    return [name_of(obj), len(part(obj, "spec").get("drivers") or []), age_of(obj, now)]


def _slice(obj: JsonObject, now: float) -> list[Cell]:
    spec = part(obj, "spec")
    node = spec.get("nodeName") or ("<all>" if spec.get("allNodes") else UNKNOWN)
    return [name_of(obj), node, spec.get("driver", ""), part(spec, "pool").get("name", ""), age_of(obj, now)]


def _device_claim(obj: JsonObject, now: float) -> list[Cell]:
    status = part(obj, "status")
    states = ["deleted"] if obj["metadata"].get("deletionTimestamp") else []
    states.append("allocated" if status.get("allocation") else "pending")
    if status.get("reservedFor"):
        states.append("reserved")
    return [name_of(obj), ",".join(states), age_of(obj, now)]


PRINTERS = {
    "nodes": Printer(
        columns(
            "Name; Status; Roles; Age; Version; wide Internal-IP; wide External-IP; wide OS-Image; "
            "wide Kernel-Version; wide Container-Runtime"
        ),
        _node,
    ),
    "namespaces": Printer(columns("Name; Status; Age"), _namespace),
    "leases.coordination.k8s.io": Printer(columns("Name; Holder; Age"), _lease),
    "poddisruptionbudgets.policy": Printer(
        columns("Name; Min Available; Max Unavailable; Allowed Disruptions:integer; Age"), _budget
    ),
    "priorityclasses.scheduling.k8s.io": Printer(
        columns("Name; Value:integer; Global-Default:boolean; Age; PreemptionPolicy"), _priority_class
    ),
    "storageclasses.storage.k8s.io": Printer(
        columns("Name; Provisioner; ReclaimPolicy; VolumeBindingMode; AllowVolumeExpansion; Age"), _storage_class
    ),
    "csinodes.storage.k8s.io": Printer(columns("Name; Drivers:integer; Age"), _csi_node),
    "resourceslices.resource.k8s.io": Printer(columns("Name; Node; Driver; Pool; Age"), _slice),
    "resourceclaims.resource.k8s.io": Printer(columns("Name; State; Age"), _device_claim),
}
