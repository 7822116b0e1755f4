"""Changes of a MachineDeployment's size, each with a note of its cause. Pure: an object in, an object out."""

import json
from typing import Any

from ullage.cloud.api import CreateRequest, RequestRejected
from ullage.kube.client.resource import JsonObject

API_GROUP = "cluster.x-k8s.io"
DEPLOYMENT_LABEL = "cluster.x-k8s.io/deployment-name"
DELETE_FIRST = "cluster.x-k8s.io/delete-machine"
"""Annotation of a Machine that is deleted first when its set shrinks."""
OTHER_AUTOSCALER = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
PURCHASES = "gpu.scheduling/purchases"
"""Annotation: count and time by token, the latest last."""
REMOVALS = "gpu.scheduling/removals"
"""Annotation: Machines that no longer count, though they may still exist."""

MOST_PURCHASES = 50
"""Number of purchases remembered. Only the last one is ever requested again."""


def with_purchase(raw: JsonObject, request: CreateRequest, now: float) -> JsonObject:
    """Add the replicas of a purchase; the same object if that has been done before. Raises RequestRejected."""
    if OTHER_AUTOSCALER in (raw["metadata"].get("annotations") or {}):
        raise RequestRejected(
            f"MachineDeployment {raw['metadata']['name']} is scaled by cluster-autoscaler: see {OTHER_AUTOSCALER}"
        )
    known = note_of(raw, PURCHASES, {})
    if request.token in known:
        if known[request.token][0] != request.count:
            raise RequestRejected(f"token {request.token} was used for another purchase")
        return raw
    known[request.token] = [request.count, int(now)]
    kept = dict(list(known.items())[-MOST_PURCHASES:])
    return _scaled(raw, replicas_of(raw) + request.count, {PURCHASES: kept})


def with_removal(raw: JsonObject, machine: str, there: frozenset[str]) -> JsonObject:
    """Remove one replica for a Machine to be deleted; the same object if that has been done before.

    `there` are Machines that still exist: the notes about others are dropped.
    """
    noted = note_of(raw, REMOVALS, [])
    if machine in noted:
        return raw
    kept = [name for name in noted if name in there]
    return _scaled(raw, max(0, replicas_of(raw) - 1), {REMOVALS: [*kept, machine]})


def without_one_missing(raw: JsonObject, there: frozenset[str]) -> JsonObject:
    """Remove one replica, if more are requested than Machines exist."""
    staying = there - set(note_of(raw, REMOVALS, []))
    return _scaled(raw, replicas_of(raw) - 1, {}) if replicas_of(raw) > len(staying) else raw


def replicas_of(raw: JsonObject) -> int:
    """Replicas of the spec; 1 by Kubernetes' default."""
    replicas = raw["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)


def note_of(raw: JsonObject, key: str, otherwise: Any) -> Any:
    """Content of an annotation of ours. Raises RequestRejected where it cannot be read: another writer changed it."""
    text = (raw["metadata"].get("annotations") or {}).get(key)
    if text is None:
        return otherwise
    try:
        note = json.loads(text)
    except ValueError as error:
        raise RequestRejected(f"{raw['metadata']['name']}: annotation {key} is not ours to read: {error}") from error
    if type(note) is not type(otherwise):
        raise RequestRejected(f"{raw['metadata']['name']}: annotation {key} is not ours to read: {text!r}")
    return note


def _scaled(raw: JsonObject, replicas: int, notes: JsonObject) -> JsonObject:
    metadata = raw["metadata"]
    written = {key: json.dumps(note, separators=(",", ":")) for key, note in notes.items()}
    annotations = (metadata.get("annotations") or {}) | written
    return raw | {
        "metadata": metadata | {"annotations": annotations},
        "spec": raw["spec"] | {"replicas": replicas},
    }
