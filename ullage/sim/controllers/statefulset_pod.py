"""The identity of a StatefulSet's pods: names, labels, volume claims, and the revision they were made from. Pure."""

import re
from collections.abc import Iterator

from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import VOLUME_CLAIMS
from ullage.sim.controllers.objects import PODS, REVISIONS, STATEFUL_SETS, ActorPod, ControllerRevision, StatefulSet
from ullage.sim.controllers.ownership import controller_reference, pod_from_template
from ullage.sim.controllers.writes import CreateObject

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"
POD_REVISION = "controller-revision-hash"

_ORDINAL = re.compile(r"(.*)-([0-9]+)")


def ordinal_of(owner: StatefulSet, pod: ActorPod) -> int | None:
    """The number in a pod's name, if the rest of it is the set's."""
    match = _ORDINAL.fullmatch(pod.metadata.name)
    return int(match[2]) if match and match[1] == owner.metadata.name else None


def snapshot(template: JsonObject) -> JsonObject:
    """Data of a ControllerRevision: the set's template."""
    return {"spec": {"template": {**template, "$patch": "replace"}}}


def revision_body(owner: StatefulSet, name: str, number: int) -> CreateObject:
    """A new ControllerRevision of the set's template."""
    labels = (owner.spec.template.get("metadata") or {}).get("labels") or {}
    body: JsonObject = {
        "metadata": {
            "name": name,
            "labels": {**labels, "controller.kubernetes.io/hash": name.rpartition("-")[2]},
            "ownerReferences": [controller_reference(STATEFUL_SETS, owner.metadata)],
        },
        "data": snapshot(owner.spec.template),
        "revision": number,
    }
    return CreateObject(REVISIONS, owner.metadata.namespace, body)


def stateful_pod(
    owner: StatefulSet, revision: ControllerRevision, ordinal: int, claims: frozenset[str]
) -> Iterator[CreateObject]:
    """The claims that are missing, then the pod that mounts them."""
    name, namespace = f"{owner.metadata.name}-{ordinal}", owner.metadata.namespace
    template = {key: value for key, value in revision.data["spec"]["template"].items() if key != "$patch"}
    body = pod_from_template(template, controller_reference(STATEFUL_SETS, owner.metadata), generate_name="")
    metadata, spec = body["metadata"], body["spec"]
    del metadata["generateName"]
    metadata["name"] = name
    identity = {POD_NAME: name, POD_INDEX: str(ordinal), POD_REVISION: revision.metadata.name}
    metadata["labels"] = {**metadata.get("labels", {}), **identity}
    spec["hostname"] = name
    if owner.spec.service_name:
        spec["subdomain"] = owner.spec.service_name
    mounts = {
        each["metadata"]["name"]: f"{each['metadata']['name']}-{name}" for each in owner.spec.volume_claim_templates
    }
    if mounts:
        kept = [volume for volume in spec.get("volumes") or () if volume["name"] not in mounts]
        own = [
            {"name": volume, "persistentVolumeClaim": {"claimName": claim_name}}
            for volume, claim_name in sorted(mounts.items())
        ]
        spec["volumes"] = [*own, *kept]
    for each in owner.spec.volume_claim_templates:
        if mounts[each["metadata"]["name"]] not in claims:
            yield CreateObject(VOLUME_CLAIMS, namespace, _claim(owner, each, mounts[each["metadata"]["name"]]))
    yield CreateObject(PODS, namespace, body)


def _claim(owner: StatefulSet, template: JsonObject, name: str) -> JsonObject:
    given = template.get("metadata") or {}
    labels = {**(given.get("labels") or {}), **(owner.spec.selector.match_labels if owner.spec.selector else {})}
    metadata: JsonObject = {"name": name, "labels": labels}
    if given.get("annotations"):
        metadata["annotations"] = dict(given["annotations"])
    return {"metadata": metadata, "spec": dict(template.get("spec") or {})}
