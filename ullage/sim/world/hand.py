"""The hand of whoever plays the user: writes manifests to the server at once, with every right and no distance."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ullage.errors import NotFound, UserError
from ullage.kube import failure, resources
from ullage.kube.crds.catalog import OURS, POD_GROUP
from ullage.kube.resource import JsonObject, Resource
from ullage.kube.transport import Request
from ullage.sim.apiserver import SimulatedApiServer

APPLY_PATCH, MERGE_PATCH = "application/apply-patch+yaml", "application/merge-patch+json"
_NOW = msgspec.json.encode({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
_SOON = msgspec.json.encode({"apiVersion": "v1", "kind": "DeleteOptions"})

_KNOWN: Mapping[tuple[str, str], Resource[Any]] = {
    (one.api_version, one.kind): one
    for one in (
        *(found for found in vars(resources).values() if isinstance(found, Resource)),
        *(definition.resource for definition in (*OURS, POD_GROUP)),
    )
}


def resource_of(manifest: JsonObject) -> Resource[Any]:
    """What a manifest is a manifest of. Raises UserError."""
    found = _KNOWN.get((manifest.get("apiVersion", ""), manifest.get("kind", "")))
    if found is None:
        raise UserError(f"{manifest.get('apiVersion')} {manifest.get('kind')}: the simulator knows no such kind")
    return found


class Hand:
    """Synchronous: when a method returns, it has happened. Raises ApiError."""

    def __init__(self, server: SimulatedApiServer, user: str) -> None:
        self._server = server
        self._user = user

    def create(self, manifest: JsonObject) -> None:
        """Make the object. A status is written, too, where its kind would not take it at birth."""
        resource = resource_of(manifest)
        namespace = _namespace(resource, manifest)
        self._ask("POST", resource.path(namespace), manifest)
        status = manifest.get("status")
        if status and resource is not resources.NODES:  # those are made with theirs
            self.merge(resource, manifest["metadata"]["name"], {"status": status}, namespace, part="status")

    def merge(
        self, resource: Resource[Any], name: str, body: JsonObject, namespace: str = "", *, part: str = ""
    ) -> None:
        self._ask("PATCH", resource.path(namespace, name, part), body, MERGE_PATCH)

    def delete(self, manifest: JsonObject, *, at_once: bool = False) -> bool:
        """Whether it was there."""
        resource = resource_of(manifest)
        path = resource.path(_namespace(resource, manifest), manifest["metadata"]["name"])
        try:
            self._send(Request("DELETE", path, body=_NOW if at_once else _SOON))
        except NotFound:
            return False
        return True

    def _ask(self, method: str, path: str, body: JsonObject, content_type: str = "application/json") -> None:
        self._send(Request(method, path, body=msgspec.json.encode(body), content_type=content_type))

    def _send(self, request: Request) -> None:
        response = self._server.handle(request, self._user)
        if response.status >= 300:
            raise failure.from_response(response, f"{request.method} {request.path}")


def _namespace(resource: Resource[Any], manifest: JsonObject) -> str:
    return manifest["metadata"].get("namespace", "default") if resource.namespaced else ""
