"""What is served, for clients that ask before they speak."""

from ullage.kube.transport import Response
from ullage.sim.apiserver.kinds import Kind
from ullage.sim.apiserver.registry import Registry
from ullage.sim.apiserver.wire import JsonObject, encode

VERSION = "v1.36.4+ullage-sim"
_TEXT_OK = Response(200, b"ok")
_SUBRESOURCE = {
    "status": (None, ["get", "patch", "update"]),
    "scale": (("autoscaling", "v1", "Scale"), ["get", "patch", "update"]),
    "binding": (("", "v1", "Binding"), ["create"]),
    "eviction": (("policy", "v1", "Eviction"), ["create"]),
    "finalize": (None, ["update"]),
}


def discover(path: str, registry: Registry) -> Response | None:
    """The answer to a discovery path; None where it is not one."""
    parts = path.strip("/").split("/")
    match parts:
        case ["healthz" | "readyz" | "livez", *_]:
            return _TEXT_OK
        case ["version"]:
            return Response(200, encode(_version()))
        case ["api"]:
            return Response(200, encode({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}))
        case ["apis"]:
            groups = [_group(name, versions) for name, versions in registry.groups().items() if name]
            return Response(200, encode({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        case ["api", version] if version in registry.groups().get("", []):
            return Response(200, encode(_resources(registry, "", version)))
        case ["apis", group] if group in registry.groups():
            body = {"kind": "APIGroup", "apiVersion": "v1", **_group(group, registry.groups()[group])}
            return Response(200, encode(body))
        case ["apis", group, version] if version in registry.groups().get(group, []):
            return Response(200, encode(_resources(registry, group, version)))
        case _:
            return None


def _version() -> JsonObject:
    major, minor = VERSION.lstrip("v").split(".")[:2]
    return {"major": major, "minor": minor, "gitVersion": VERSION, "platform": "simulated"}


def _group(name: str, versions: list[str]) -> JsonObject:
    served = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": served, "preferredVersion": served[0]}


def _resources(registry: Registry, group: str, version: str) -> JsonObject:
    listed: list[JsonObject] = []
    for kind in registry.kinds():
        if (kind.group, kind.version) == (group, version):
            listed.append(_resource(kind))
            listed += [_part(kind, name) for name in kind.subresources]
    group_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": listed}


def _resource(kind: Kind) -> JsonObject:
    body: JsonObject = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        body["shortNames"] = list(kind.short_names)
    if kind.categories:
        body["categories"] = list(kind.categories)
    return body


def _part(kind: Kind, name: str) -> JsonObject:
    type_of, verbs = _SUBRESOURCE[name]
    body: JsonObject = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced}
    if type_of is not None:
        group, version, body["kind"] = type_of
        body |= {"group": group, "version": version}
    else:
        body["kind"] = kind.kind
    return {**body, "verbs": verbs}
