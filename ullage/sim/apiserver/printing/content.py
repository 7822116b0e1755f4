"""Configuration, services, volumes, accounts and events, as rows."""

from ullage.sim.apiserver.printing.ages import age_of, since
from ullage.sim.apiserver.printing.column import NONE, UNSET, Cell, Printer, columns, name_of, part
from ullage.sim.apiserver.printing.labels import labels_text
from ullage.sim.apiserver.storage.json_bytes import JsonObject

_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _aged(obj: JsonObject, now: float) -> list[Cell]:
    return [name_of(obj), age_of(obj, now)]


def _config_map(obj: JsonObject, now: float) -> list[Cell]:
    return [name_of(obj), len(obj.get("data") or {}) + len(obj.get("binaryData") or {}), age_of(obj, now)]


def _secret(obj: JsonObject, now: float) -> list[Cell]:
    return [name_of(obj), obj.get("type", ""), len(obj.get("data") or {}), age_of(obj, now)]


def _service(obj: JsonObject, now: float) -> list[Cell]:
    spec = part(obj, "spec")
    return [
        name_of(obj),
        spec.get("type", ""),
        (spec.get("clusterIPs") or [spec.get("clusterIP")])[0] or NONE,
        _outside(obj, spec),
        ",".join(_port(port) for port in spec.get("ports") or []) or NONE,
        age_of(obj, now),
        labels_text(spec.get("selector")),
    ]


def _outside(obj: JsonObject, spec: JsonObject) -> str:
    given = ",".join(spec.get("externalIPs") or [])
    match spec.get("type"):
        case "LoadBalancer":
            balancers = part(obj, "status", "loadBalancer").get("ingress") or []
            found = ",".join(one.get("ip") or one.get("hostname") or "" for one in balancers)
            return ",".join(text for text in (found, given) if text) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
        case _:
            return given or NONE


def _port(port: JsonObject) -> str:
    outer = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{outer}/{port.get('protocol', 'TCP')}"


def _endpoints(obj: JsonObject, now: float) -> list[Cell]:
    found = [
        f"{address.get('ip')}:{port.get('port')}"
        for subset in obj.get("subsets") or []
        for port in subset.get("ports") or []
        for address in subset.get("addresses") or []
    ]
    more = f" + {len(found) - 3} more..." if len(found) > 3 else ""
    return [name_of(obj), ",".join(found[:3]) + more or NONE, age_of(obj, now)]


def _modes(found: list[str] | None) -> str:
    return ",".join(short for word, short in _MODES.items() if word in (found or []))


def _volume_claim(obj: JsonObject, now: float) -> list[Cell]:
    spec, status = part(obj, "spec"), part(obj, "status")
    phase = "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", "")
    volume, capacity, modes = spec.get("volumeName") or "", "", ""
    if volume:
        capacity, modes = part(status, "capacity").get("storage") or "", _modes(status.get("accessModes"))
    return [
        name_of(obj),
        phase,
        volume,
        capacity,
        modes,
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or UNSET,
        age_of(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def _volume(obj: JsonObject, now: float) -> list[Cell]:
    spec, status = part(obj, "spec"), part(obj, "status")
    claim = spec.get("claimRef")
    phase = "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", "")
    return [
        name_of(obj),
        part(spec, "capacity").get("storage") or "",
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        phase,
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or UNSET,
        status.get("reason", ""),
        age_of(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def _role_binding(obj: JsonObject, now: float) -> list[Cell]:
    role, subjects = part(obj, "roleRef"), obj.get("subjects") or []
    accounts = [f"{s.get('namespace', '')}/{s.get('name')}" for s in subjects if s.get("kind") == "ServiceAccount"]
    users, groups = ([s.get("name", "") for s in subjects if s.get("kind") == kind] for kind in ("User", "Group"))
    return [
        name_of(obj),
        f"{role.get('kind', '')}/{role.get('name', '')}",
        age_of(obj, now),
        ", ".join(users),
        ", ".join(groups),
        ", ".join(accounts),
    ]


def _webhooks(obj: JsonObject, now: float) -> list[Cell]:
    return [name_of(obj), len(obj.get("webhooks") or []), age_of(obj, now)]


def _revision(obj: JsonObject, now: float) -> list[Cell]:
    owners = [owner for owner in obj["metadata"].get("ownerReferences") or [] if owner.get("controller")]
    shown = NONE
    if owners:
        group = owners[0].get("apiVersion", "").rpartition("/")[0]
        shown = owners[0].get("kind", "").lower() + (f".{group}" if group else "") + f"/{owners[0].get('name')}"
    return [name_of(obj), shown, obj.get("revision", 0), age_of(obj, now)]


def _event(obj: JsonObject, now: float) -> list[Cell]:
    first = since(obj.get("firstTimestamp") or obj.get("eventTime"), now)
    last = since(obj["lastTimestamp"], now) if obj.get("lastTimestamp") else first
    count = obj.get("count") or 1
    if series := obj.get("series"):
        last, count = since(series.get("lastObservedTime"), now), series.get("count", 0)
    about, source = part(obj, "involvedObject"), part(obj, "source")
    component = source.get("component") or obj.get("reportingComponent") or ""
    instance = source.get("host") or obj.get("reportingInstance") or ""
    kind, name = about.get("kind", "").lower(), about.get("name")
    return [
        last,
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        about.get("fieldPath", ""),
        f"{component}, {instance}" if instance else component,
        (obj.get("message") or "").strip(),
        first,
        count,
        name_of(obj),
    ]


EVENT = Printer(
    columns(
        "Last Seen; Type; Reason; Object; wide Subobject; wide Source; Message; wide First Seen; wide Count; wide Name"
    ),
    _event,
)
_BINDING = Printer(columns("Name; Role; Age; wide Users; wide Groups; wide ServiceAccounts"), _role_binding)
_HOOKS = Printer(columns("Name; Webhooks:integer; Age"), _webhooks)
_AGED = Printer(columns("Name; Age"), _aged)
_VOLUME_COLUMNS = "StorageClass; VolumeAttributesClass;"

PRINTERS = {
    "configmaps": Printer(columns("Name; Data; Age"), _config_map),
    "secrets": Printer(columns("Name; Type; Data; Age"), _secret),
    "services": Printer(columns("Name; Type; Cluster-IP; External-IP; Port(s); Age; wide Selector"), _service),
    "endpoints": Printer(columns("Name; Endpoints; Age"), _endpoints),
    "serviceaccounts": _AGED,
    "deviceclasses.resource.k8s.io": _AGED,
    "resourceclaimtemplates.resource.k8s.io": _AGED,
    "persistentvolumeclaims": Printer(
        columns(f"Name; Status; Volume; Capacity; Access Modes; {_VOLUME_COLUMNS} Age; wide VolumeMode"), _volume_claim
    ),
    "persistentvolumes": Printer(
        columns(
            "Name; Capacity; Access Modes; Reclaim Policy; Status; Claim; "
            f"{_VOLUME_COLUMNS} Reason; Age; wide VolumeMode"
        ),
        _volume,
    ),
    "rolebindings.rbac.authorization.k8s.io": _BINDING,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDING,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _HOOKS,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _HOOKS,
    "controllerrevisions.apps": Printer(columns("Name; Controller; Revision; Age"), _revision),
    "events": EVENT,
}
