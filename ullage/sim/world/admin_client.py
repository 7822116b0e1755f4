"""Client with all rights, for the simulated user and cloud: writes manifests to the server synchronously, without
latency.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from ullage.errors import NotFound, UserError
from ullage.kube.client import resources, status_errors
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.transport import Request
from ullage.kube.crds.catalog import OURS, POD_GROUP
from ullage.sim.apiserver import SimulatedApiServer

APPLY_PATCH, MERGE_PATCH = "application/apply-patch+yaml", "application/merge-patch+json"
_NOW = msgspec.json.encode({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
_SOON = msgspec.json.encode({"apiVersion": "v1", "kind": "DeleteOptions"})

_KNOWN: Mapping[tuple[str, str], Resource[Any]] = {
    (one.api_version, one.kind): one
    for one in (
        *(found for found in vars(resources).values() if isinstance(found, Resource)),
        *(resources.RESOURCE_SLICES + resources.RESOURCE_CLAIMS),
        *(definition.resource for definition in (*OURS, POD_GROUP)),
    )
}


def resource_of(manifest: JsonObject) -> Resource[Any]:
    """Resource of a manifest's kind. Raises UserError if the simulator does not know the kind."""
    found = _KNOWN.get((manifest.get("apiVersion", ""), manifest.get("kind", "")))
    if found is None:
        raise UserError(f"{manifest.get('apiVersion')} {manifest.get('kind')}: the simulator knows no such kind")
    return found


class AdminClient:
    """Synchronous: when a method returns, the write is stored. Raises ApiError."""

    def __init__(self, server: SimulatedApiServer, user: str) -> None:
        self._server = server
        self._user = user

    def create(self, manifest: JsonObject) -> None:
        """Create the object. Its status is written by a second request if its kind does not accept one at creation."""
        resource = resource_of(manifest)
        namespace = _namespace(resource, manifest)
        self._ask("POST", resource.path(namespace), manifest)
        status = manifest.get("status")
        if status and resource is not resources.NODES:  # those are made with theirs
            self.merge(resource, manifest["metadata"]["name"], {"status": status}, namespace, part="status")

    def read(self, resource: Resource[Any], name: str, namespace: str = "") -> JsonObject | None:
        """Object as stored; None if it does not exist."""
        response = self._server.handle(Request("GET", resource.path(namespace, name)), self._user)
        if response.status == 404:
            return None
        found: JsonObject = msgspec.json.decode(response.body)
        return found

    def all_of(self, resource: Resource[Any]) -> list[JsonObject]:
        """Objects of a kind in all namespaces, as stored. Empty if the kind is not served."""
        response = self._server.handle(Request("GET", resource.path()), self._user)
        return [] if response.status == 404 else list(msgspec.json.decode(response.body)["items"])

    def merge(
        self, resource: Resource[Any], name: str, body: JsonObject, namespace: str = "", *, part: str = ""
    ) -> None:
        self._ask("PATCH", resource.path(namespace, name, part), body, MERGE_PATCH)

    def delete(self, manifest: JsonObject, *, at_once: bool = False) -> bool:
        """Delete the object. False if it did not exist."""
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
            raise status_errors.from_response(response, f"{request.method} {request.path}")


def _namespace(resource: Resource[Any], manifest: JsonObject) -> str:
    return manifest["metadata"].get("namespace", "default") if resource.namespaced else ""
