"""Request paths, query parameters and bodies of every API call."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from ullage import errors
from ullage.kube.client import json_codec
from ullage.kube.client.api import Apply, Binding, Deletion, JsonPatch, ListSelector, MergePatch, Patch
from ullage.kube.client.protobuf_writer import compact
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.transport import Request

MANAGER = "ullage"
"""Field manager: the name under which the API server records our writes."""

_JSON_PATCH = "application/json-patch+json"
_MERGE_PATCH = "application/merge-patch+json"
_APPLY_PATCH = "application/apply-patch+yaml"  # JSON is YAML, too


def object_path(resource: Resource[Any], namespace: str, name: str, subresource: str = "") -> str:
    """The path of one object. A missing name would make it the path of them all, which DELETE takes at its word."""
    for part, text in (("name", name), ("namespace", namespace)):
        if text in (".", "..") or "/" in text or "%" in text or (part == "name" and not text):
            raise errors.BadRequest(f"{resource.id}: {text!r} cannot be the {part} of an object")
    return resource.path(namespace, name, subresource)


def words(verb: str, resource: Resource[Any], namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Describe a call, for messages: `get pods default/web-1`."""
    kind = f"{resource.id}/{subresource}" if subresource else resource.id
    place = f"{namespace}/{name}" if namespace and name else name or (f"in {namespace}" if namespace else "")
    return f"{verb} {kind} {place}".rstrip()


def address(written: JsonObject) -> tuple[str, str]:
    """Name and namespace of an object about to be written."""
    metadata = written.get("metadata") or {}
    return metadata.get("name") or "", metadata.get("namespace") or ""


def selected(selection: ListSelector) -> dict[str, str]:
    chosen = {"labelSelector": selection.labels, "fieldSelector": selection.fields}
    return {key: value for key, value in chosen.items() if value}


def not_older_than(version: str | None) -> dict[str, str]:
    if version is None:
        return {}
    # With a limit, a resourceVersion means "exactly" unless it is said otherwise; "0" always means "whatever you have".
    match = {} if version == "0" else {"resourceVersionMatch": "NotOlderThan"}
    return {"resourceVersion": version} | match


def writing(dry_run: bool) -> dict[str, str]:
    return {"fieldManager": MANAGER} | ({"dryRun": "All"} if dry_run else {})


def post_request(path: str, query: Mapping[str, str], written: JsonObject) -> Request:
    """A new object. The few kinds written for every pod have a shorter form as well."""
    return Request("POST", path, query, json_codec.encode(written), compact=partial(compact, written))


def patch_request(resource: Resource[Any], path: str, patch: Patch) -> Request:
    match patch:
        case MergePatch(body):
            return Request("PATCH", path, writing(False), json_codec.encode(json_codec.to_json(body)), _MERGE_PATCH)
        case JsonPatch(operations):
            steps = [json_codec.to_json(operation) for operation in operations]
            return Request("PATCH", path, writing(False), json_codec.encode(steps), _JSON_PATCH)
        case Apply(body, manager, force):
            query = {"fieldManager": manager, "force": "true" if force else "false"}
            written = json_codec.whole_object(resource, body)
            return Request("PATCH", path, query, json_codec.encode(written), _APPLY_PATCH)


def deletion_options(how: Deletion) -> JsonObject:
    """The fields of DeleteOptions that say something."""
    preconditions = {"uid": how.uid, "resourceVersion": how.resource_version}
    options: JsonObject = {}
    if wanted := {key: value for key, value in preconditions.items() if value}:
        options["preconditions"] = wanted
    if how.grace_seconds is not None:
        options["gracePeriodSeconds"] = how.grace_seconds
    if how.propagation is not None:
        options["propagationPolicy"] = how.propagation.value
    if how.dry_run:
        options["dryRun"] = ["All"]
    return options


def binding_body(pod: str, namespace: str, binding: Binding) -> JsonObject:
    """A Binding. Its uid and resourceVersion are preconditions, its annotations and labels are merged into the pod."""
    metadata = {
        "name": pod,
        "namespace": namespace,
        "uid": binding.uid,
        "resourceVersion": binding.resource_version,
        "annotations": dict(binding.annotations),
        "labels": dict(binding.labels),
    }
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {key: value for key, value in metadata.items() if value},
        "target": {"apiVersion": "v1", "kind": "Node", "name": binding.node},
    }


def eviction_body(pod: str, namespace: str, how: Deletion) -> JsonObject:
    """An Eviction: a deletion that asks the disruption budgets first."""
    body: JsonObject = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": namespace},
    }
    options = deletion_options(how)
    return body | {"deleteOptions": options} if options else body
