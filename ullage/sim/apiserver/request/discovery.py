"""API discovery: one document per group, or all of them aggregated."""

from ullage.kube.client.transport import Request, Response
from ullage.sim.apiserver.kinds.kind import ServedKind
from ullage.sim.apiserver.kinds.registry import KindRegistry
from ullage.sim.apiserver.release import RELEASE
from ullage.sim.apiserver.request.negotiation import clauses
from ullage.sim.apiserver.storage.json_bytes import JsonObject, encode

VERSION = f"v{RELEASE}+ullage-sim"
_TEXT_OK = Response(200, b"ok", content_type="text/plain; charset=utf-8")
_CHANGES = ["get", "patch", "update"]
_SUBRESOURCE: dict[str, tuple[tuple[str, str, str] | None, list[str]]] = {
    "status": (None, _CHANGES),
    "scale": (("autoscaling", "v1", "Scale"), _CHANGES),
    "binding": (("", "", "Binding"), ["create"]),
    "eviction": (("policy", "v1", "Eviction"), ["create"]),
    "finalize": (None, ["update"]),
    "attach": (("", "", "PodAttachOptions"), ["create", "get"]),
    "exec": (("", "", "PodExecOptions"), ["create", "get"]),
    "log": (None, ["get"]),
    "portforward": (("", "", "PodPortForwardOptions"), ["create", "get"]),
}
"""Its kind, where it is not that of the whole, and its verbs."""
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"


def discover(request: Request, registry: KindRegistry) -> Response | None:
    """The answer to a discovery path; None where it is not one."""
    parts = request.path.strip("/").split("/")
    match parts:
        case ["healthz" | "readyz" | "livez", *_]:
            return _TEXT_OK
        case ["version"]:
            return Response(200, encode(_version()))
        case ["api" | "apis"] if version := _aggregated_version(request.accept):
            body = encode(_aggregated(registry, version, core=parts == ["api"]))
            return Response(200, body, content_type=_AGGREGATED.format(version=version))
        case ["api"]:
            return Response(200, encode({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}))
        case ["apis"]:
            groups = [_group(name, versions) for name, versions in registry.groups().items() if name]
            return Response(200, encode({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        case ["api", version] if version in registry.groups().get("", []):
            return Response(200, encode(_resources(registry, "", version)))
        case ["apis", group] if group in registry.groups():
            body = encode({"kind": "APIGroup", "apiVersion": "v1", **_group(group, registry.groups()[group])})
            return Response(200, body)
        case ["apis", group, version] if version in registry.groups().get(group, []):
            return Response(200, encode(_resources(registry, group, version)))
        case _:
            return None


def _aggregated_version(accept: str) -> str:
    """Version of the aggregated discovery document that is asked for; empty if none is."""
    for _, said in clauses(accept):
        if said.get("as") == "APIGroupDiscoveryList" and said.get("v") in ("v2", "v2beta1"):
            return said["v"]
    return ""


def _version() -> JsonObject:
    major, minor = VERSION.lstrip("v").split(".")[:2]
    return {
        "major": major,
        "minor": minor,
        "gitVersion": VERSION,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "simulated",
    }


def _group(name: str, versions: list[str]) -> JsonObject:
    served = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": served, "preferredVersion": served[0]}


def _served(registry: KindRegistry, group: str, version: str) -> list[ServedKind]:
    return [kind for kind in registry.kinds() if (kind.group, kind.version) == (group, version)]


def _resources(registry: KindRegistry, group: str, version: str) -> JsonObject:
    listed: list[JsonObject] = []
    for kind in _served(registry, group, version):
        listed.append(_resource(kind))
        listed += [_part(kind, name) for name in sorted(kind.subresources)]
    group_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": listed}


def _resource(kind: ServedKind) -> JsonObject:
    body: JsonObject = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    return body | _names(kind)


def _names(kind: ServedKind) -> JsonObject:
    found: JsonObject = {}
    if kind.short_names:
        found["shortNames"] = list(kind.short_names)
    if kind.categories:
        found["categories"] = list(kind.categories)
    return found


def _part(kind: ServedKind, name: str) -> JsonObject:
    type_of, verbs = _SUBRESOURCE[name]
    body: JsonObject = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced}
    group, version, body["kind"] = type_of or ("", "", kind.kind)
    if version:
        body |= {"group": group, "version": version}
    return {**body, "verbs": verbs}


def _aggregated(registry: KindRegistry, version: str, *, core: bool) -> JsonObject:
    items = [
        {"metadata": {"name": name} if name else {}, "versions": [_version_of(registry, name, one) for one in versions]}
        for name, versions in registry.groups().items()
        if core is (name == "")
    ]
    kind = "APIGroupDiscoveryList"
    return {"kind": kind, "apiVersion": f"apidiscovery.k8s.io/{version}", "metadata": {}, "items": items}


def _version_of(registry: KindRegistry, group: str, version: str) -> JsonObject:
    resources = [_described(kind) for kind in _served(registry, group, version)]
    return {"version": version, "resources": resources, "freshness": "Current"}


def _described(kind: ServedKind) -> JsonObject:
    own = (kind.group, kind.version) if kind.custom else ("", "")
    body: JsonObject = {
        "resource": kind.plural,
        "responseKind": _kind_reference(*own, kind.kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
        **_names(kind),
    }
    parts: list[JsonObject] = []
    for name in sorted(kind.subresources):
        type_of, verbs = _SUBRESOURCE[name]
        reference = _kind_reference(*(type_of or (*own, kind.kind)))
        parts.append({"subresource": name, "responseKind": reference, "verbs": verbs})
    return body | ({"subresources": parts} if parts else {})


def _kind_reference(group: str, version: str, kind: str) -> JsonObject:
    return {"group": group, "version": version, "kind": kind}
