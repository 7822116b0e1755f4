"""Validation of pod specs, in pods and in templates alike: the rules our code and our users meet."""

from typing import Any

from ullage.model.quantity import quantity
from ullage.sim.apiserver.kinds.metadata import check_labels
from ullage.sim.apiserver.request import names
from ullage.sim.apiserver.request.field_errors import (
    FieldError,
    duplicate,
    forbidden_field,
    required,
    unsupported,
    wrong,
)
from ullage.sim.apiserver.rules.pod_affinity import check_affinity, check_spread
from ullage.sim.apiserver.storage.json_bytes import JsonObject

_STANDARD = ("cpu", "memory", "ephemeral-storage")
_MAX_DEADLINE = 2147483647
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def check_pod_spec(spec: Any, at: str) -> list[FieldError]:
    """All field errors, in the order the server reports them."""
    if not isinstance(spec, dict):
        return [required(at)]
    found = _check_volumes(_objects(spec.get("volumes")), f"{at}.volumes")
    volumes = {volume.get("name") for volume in _objects(spec.get("volumes"))}
    found += _check_containers(spec, at, volumes)
    found += _check_choices(spec, at)
    found += check_labels(spec.get("nodeSelector") or {}, f"{at}.nodeSelector")
    if node := spec.get("nodeName"):
        found += [wrong(f"{at}.nodeName", node, why) for why in names.dns_subdomain(node)]
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_DEADLINE:
        found.append(wrong(f"{at}.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive"))
    found += check_affinity(spec.get("affinity") or {}, f"{at}.affinity")
    found += check_tolerations(_objects(spec.get("tolerations")), f"{at}.tolerations")
    found += check_spread(_objects(spec.get("topologySpreadConstraints")), f"{at}.topologySpreadConstraints")
    return found + _check_gates(spec, at)


def _check_choices(spec: JsonObject, at: str) -> list[FieldError]:
    found: list[FieldError] = []
    restart = ("Always", "OnFailure", "Never")
    if spec.get("restartPolicy") not in restart:
        found.append(unsupported(f"{at}.restartPolicy", spec.get("restartPolicy"), restart))
    dns = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
    if spec.get("dnsPolicy") not in dns:
        found.append(unsupported(f"{at}.dnsPolicy", spec.get("dnsPolicy"), dns))
    return found


def _check_gates(spec: JsonObject, at: str) -> list[FieldError]:
    found: list[FieldError] = []
    seen: list[str] = []
    for index, gate in enumerate(_objects(spec.get("schedulingGates"))):
        name = gate.get("name") or ""
        where = f"{at}.schedulingGates[{index}]"
        found += [wrong(f"{where}.name", name, why) for why in names.qualified_name(name)]
        if name in seen:
            found.append(duplicate(where, name))
        seen.append(name)
    if seen and spec.get("nodeName"):
        found.append(forbidden_field(f"{at}.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return found


def _check_containers(spec: JsonObject, at: str, volumes: set[Any]) -> list[FieldError]:
    found: list[FieldError] = []
    if not spec.get("containers"):
        found.append(required(f"{at}.containers"))
    seen: list[str] = []
    for member in ("containers", "initContainers"):
        for index, container in enumerate(_objects(spec.get(member))):
            where = f"{at}.{member}[{index}]"
            found += _check_container(container, where, volumes)
            name = container.get("name")
            if name and name in seen:
                found.append(duplicate(f"{where}.name", name))
            seen.append(name or "")
    return found


def _check_container(container: JsonObject, at: str, volumes: set[Any]) -> list[FieldError]:
    found: list[FieldError] = []
    name = container.get("name")
    if not name:
        found.append(required(f"{at}.name"))
    else:
        found += [wrong(f"{at}.name", name, why) for why in names.dns_label(name)]
    image = container.get("image") or ""
    if not image:
        found.append(required(f"{at}.image"))
    elif image != image.strip():
        found.append(wrong(f"{at}.image", image, "must not have leading or trailing whitespace"))
    found += _check_ports(_objects(container.get("ports")), f"{at}.ports")
    for index, variable in enumerate(_objects(container.get("env"))):
        if not variable.get("name"):
            found.append(required(f"{at}.env[{index}].name"))
    for index, mount in enumerate(_objects(container.get("volumeMounts"))):
        where = f"{at}.volumeMounts[{index}]"
        if mount.get("name") not in volumes:
            message = f'Not found: "{mount.get("name") or ""}"'
            found.append(FieldError(f"{where}.name", "FieldValueNotFound", message))
        if not mount.get("mountPath"):
            found.append(required(f"{where}.mountPath"))
    return found + check_resources(container.get("resources") or {}, f"{at}.resources")


def _check_ports(ports: list[JsonObject], at: str) -> list[FieldError]:
    found: list[FieldError] = []
    for index, port in enumerate(ports):
        where = f"{at}[{index}]"
        number = port.get("containerPort")
        if not number:
            found.append(required(f"{where}.containerPort"))
        elif not 1 <= number <= 65535:
            found.append(wrong(f"{where}.containerPort", number, "must be between 1 and 65535, inclusive"))
        if port.get("protocol") not in ("TCP", "UDP", "SCTP"):
            found.append(unsupported(f"{where}.protocol", port.get("protocol"), ["SCTP", "TCP", "UDP"]))
    return found


def check_resources(resources: JsonObject, at: str) -> list[FieldError]:
    """Limits and requests of one container."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    found = _check_amounts(limits, f"{at}.limits") + _check_amounts(requests, f"{at}.requests")
    if found:
        return found
    for name, amount in requests.items():
        limit = limits.get(name)
        if is_extended(name):
            if limit is None:
                why = "Limit must be set for non overcommitable resources"
                found.append(required(f"{at}.limits", why))
            elif quantity(limit) != quantity(amount):
                found.append(wrong(f"{at}.requests", amount, f"must be equal to {name} limit of {limit}"))
        elif limit is not None and quantity(amount) > quantity(limit):
            found.append(wrong(f"{at}.requests", amount, f"must be less than or equal to {name} limit of {limit}"))
    return found


def _check_amounts(amounts: JsonObject, at: str) -> list[FieldError]:
    found: list[FieldError] = []
    for name, amount in amounts.items():
        where = f"{at}[{name}]"
        number = quantity(amount)
        if number < 0:
            found.append(wrong(where, amount, "must be greater than or equal to 0"))
        if "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
            found.append(wrong(where, name, "must be a standard resource type or fully qualified"))
            found.append(wrong(where, name, "must be a standard resource for containers"))
        elif is_extended(name) and number != int(number):
            found.append(wrong(where, amount, "must be an integer"))
    return found


def is_extended(name: str) -> bool:
    """A device or another resource Kubernetes only counts."""
    return "/" in name and not name.partition("/")[0].endswith("kubernetes.io")


def check_tolerations(tolerations: list[JsonObject], at: str) -> list[FieldError]:
    found: list[FieldError] = []
    for index, toleration in enumerate(tolerations):
        where = f"{at}[{index}]"
        key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
        if key:
            found += [wrong(f"{where}.key", key, why) for why in names.qualified_name(key)]
        elif operator != "Exists":
            why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            found.append(wrong(f"{where}.operator", operator, why))
        effect = toleration.get("effect") or ""
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            found.append(wrong(f"{where}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
        if operator not in ("Equal", "Exists"):
            found.append(unsupported(f"{where}.operator", operator, ["Equal", "Exists"]))
        elif operator == "Exists" and toleration.get("value"):
            why = "value must be empty when `operator` is 'Exists'"
            found.append(wrong(f"{where}.operator", toleration["value"], why))
        if effect and effect not in _EFFECTS:
            found.append(unsupported(f"{where}.effect", effect, _EFFECTS))
    return found


def _check_volumes(volumes: list[JsonObject], at: str) -> list[FieldError]:
    found: list[FieldError] = []
    seen: list[str] = []
    for index, volume in enumerate(volumes):
        where, name = f"{at}[{index}]", volume.get("name") or ""
        problems = [wrong(f"{where}.name", name, why) for why in names.dns_label(name)] if name else []
        if not name:
            problems.append(required(f"{where}.name"))
        claim = volume.get("persistentVolumeClaim")
        if isinstance(claim, dict) and not claim.get("claimName"):
            problems.append(required(f"{where}.persistentVolumeClaim.claimName"))
        if name in seen and not problems:
            problems.append(duplicate(f"{where}.name", name))
        if not problems:
            seen.append(name)
        found += problems
    return found


def _objects(value: Any) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
