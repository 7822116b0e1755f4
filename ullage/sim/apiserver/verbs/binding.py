"""POST pods/NAME/binding: a pod's node, and what is written on the pod in the same transaction."""

from ullage.kube.client.transport import Response
from ullage.sim.apiserver.request.api_call import ApiCall
from ullage.sim.apiserver.request.status_errors import (
    StatusError,
    StatusSubject,
    bad_request,
    conflict,
    not_found,
    unexpected,
)
from ullage.sim.apiserver.storage.context import ServerContext
from ullage.sim.apiserver.storage.json_bytes import JsonObject, encode
from ullage.sim.apiserver.storage.store import StoredObject
from ullage.sim.apiserver.verbs.conditions import set_condition
from ullage.sim.apiserver.verbs.update import precondition_failed

_TOPOLOGY = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
DONE = encode({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})


def bind(call: ApiCall, world: ServerContext) -> Response:
    """Raises StatusError with 409 if the pod has a node, is being deleted, is gated, or fails a precondition."""
    dry_run = call.dry_run("CreateOptions")
    binding = call.plain_body("Binding")
    metadata = binding.get("metadata") or {}
    if metadata.get("name") != call.target.name:
        raise bad_request("name in URL does not match name in Binding object")
    node = (binding.get("target") or {}).get("name")
    if not isinstance(node, str) or not node:
        raise unexpected("target.name: Required value")
    _check_texts(metadata)
    stored = world.store.shelf("pods").get(call.key)
    if stored is None:
        raise not_found(call.kind.about(call.target.name))
    _check(call, stored.obj, metadata)
    world.gate.check(call.arrival(binding))
    if not dry_run:
        world.store.put("pods", call.key, _bound(stored, metadata, node, world), stored.owners)
    return Response(201, DONE)


def _check_texts(metadata: JsonObject) -> None:
    for member in ("annotations", "labels"):
        values = metadata.get(member) or {}
        if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            message = f"json: cannot unmarshal into Go struct field ObjectMeta.metadata.{member} of type string"
            raise bad_request(f'Binding in version "v1" cannot be handled as a Binding: {message}')


def _check(call: ApiCall, pod: JsonObject, metadata: JsonObject) -> None:
    name, about = call.target.name, call.kind.about(call.target.name)
    for member, word in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        said, found = metadata.get(member), pod["metadata"][member]
        if said and said != found:
            raise conflict(about, precondition_failed(call, word, said, found))
    if pod["metadata"].get("deletionTimestamp"):
        raise _refused(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if node := pod["spec"].get("nodeName"):
        raise _refused(name, f'pod {name} is already assigned to node "{node}"')
    if pod["spec"].get("schedulingGates"):
        raise _refused(name, f"pod {name} has non-empty .spec.schedulingGates")


def _refused(name: str, why: str) -> StatusError:
    return conflict(StatusSubject("pods/binding", "", name), why)


def _bound(stored: StoredObject, metadata: JsonObject, node: str, world: ServerContext) -> JsonObject:
    pod = stored.fresh()
    pod["spec"]["nodeName"] = node
    pod["status"].pop("nominatedNodeName", None)
    _merge(pod["metadata"], "annotations", metadata.get("annotations") or {})
    found = world.find("nodes", node)
    labels = (found or {}).get("metadata", {}).get("labels") or {}
    topology = {key: labels[key] for key in _TOPOLOGY if key in labels}
    _merge(pod["metadata"], "labels", {**(metadata.get("labels") or {}), **topology})
    set_condition(pod["status"], {"type": "PodScheduled", "status": "True"}, world.timestamp())
    return pod


def _merge(metadata: JsonObject, member: str, added: JsonObject) -> None:
    if added:
        metadata[member] = {**(metadata.get(member) or {}), **added}
