"""Objects of a recording: which changes are what users and machines did, and how they are written down. Pure.

What our own processes and Kubernetes' controllers write is a result, not a cause: a replay makes its own.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from ullage.kube.client import resources as known
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.manifests.pruning import pruned
from ullage.model.draining import CANDIDATE_TAINT, DRAINING_TAINT
from ullage.model.karpenter import COMPONENT_LABEL, HANDOVER, UNCLAIMED
from ullage.model.provisioner import DELETION_TAINT, PROVISIONER_LABEL

OWNERS = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "Pod", "Node"})
"""Kinds whose controllers work in the simulator too: what they own is made there again."""
OUR_TAINTS = frozenset({CANDIDATE_TAINT, DRAINING_TAINT, DELETION_TAINT, HANDOVER, UNCLAIMED})
_KUBERNETES_TAINT = "node.kubernetes.io/"
_MIRROR = "kubernetes.io/config.mirror"
_OUTPUTS = ("gpu.scheduling/", "deployment.kubernetes.io/", "kubectl.kubernetes.io/")
_INPUTS_OF_OURS = ("gpu.scheduling/claim", "gpu.scheduling/claim-template")


class Part(Enum):
    """Part that a kind plays in a recording."""

    INPUT = "input"
    """Made by users: created, changed and deleted as recorded."""
    POD = "pod"
    NODE = "node"
    REPORT = "report"
    """Report of a node's agent."""


RECORDED: Mapping[Resource[Any], Part] = {
    known.NAMESPACES: Part.INPUT,
    known.PRIORITY_CLASSES: Part.INPUT,
    known.NODE_PROVISIONERS: Part.INPUT,
    known.NODES: Part.NODE,
    known.GPU_NODE_STATUSES: Part.REPORT,
    known.GPU_QUOTAS: Part.INPUT,
    known.BUDGETS: Part.INPUT,
    known.POD_GROUPS: Part.INPUT,
    known.DEPLOYMENTS: Part.INPUT,
    known.STATEFUL_SETS: Part.INPUT,
    known.DAEMON_SETS: Part.INPUT,
    known.JOBS: Part.INPUT,
    known.GPU_CLAIMS: Part.INPUT,
    known.PODS: Part.POD,
}
"""Kinds that are followed."""


def is_result(part: Part, manifest: JsonObject) -> bool:
    """True for an object that controllers, the cloud or kubelets made, and that a replay makes by itself."""
    meta = manifest["metadata"]
    if any(one.get("kind") in OWNERS for one in meta.get("ownerReferences") or ()):
        return True
    labels = meta.get("labels") or {}
    if part is Part.NODE:
        return PROVISIONER_LABEL in labels
    return part is Part.POD and (COMPONENT_LABEL in labels or _MIRROR in (meta.get("annotations") or {}))


def fresh(manifest: JsonObject) -> JsonObject:
    """Manifest as a user would create it: without identity, times, status and what our processes wrote."""
    kept = pruned(manifest)
    meta = kept["metadata"]
    notes = {key: value for key, value in (meta.get("annotations") or {}).items() if _is_input(key)}
    named = {key: meta[key] for key in ("name", "namespace") if meta.get(key)}
    labels = {"labels": meta["labels"]} if meta.get("labels") else {}
    body = {key: value for key, value in kept.items() if key not in ("metadata", "status")}
    made = {**body, "metadata": {**named, **labels, **({"annotations": notes} if notes else {})}}
    if manifest["kind"] == "Node":
        status = manifest.get("status") or {}
        made["spec"] = _node_spec(manifest.get("spec") or {})
        made["status"] = {key: status[key] for key in ("capacity", "allocatable", "conditions") if key in status}
    if manifest["kind"] == "GpuNodeStatus":
        made["status"] = manifest.get("status") or {}
    return made


def name_of(manifest: JsonObject) -> JsonObject:
    """The least of a manifest that names the object."""
    meta = manifest["metadata"]
    named = {key: meta[key] for key in ("name", "namespace") if meta.get(key)}
    return {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "metadata": named}


def difference(before: JsonObject, after: JsonObject) -> JsonObject | None:
    """Merge patch of labels and everything beside metadata and status; None if a user changed nothing there."""
    old, new = _stated(fresh(before)), _stated(fresh(after))
    patch = merge_patch(old, new)
    if not patch:
        return None
    meta = {**name_of(after)["metadata"], **patch.pop("metadata", {})}
    return {**name_of(after), **patch, "metadata": meta}


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """JSON merge patch (RFC 7386) from one object to another; empty if they are equal."""
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            inner = merge_patch(before, value)
            if inner:
                patch[key] = inner
        elif before != value or key not in old:
            patch[key] = value
    return patch


def _stated(manifest: JsonObject) -> dict[str, Any]:
    """Fields whose changes are a user's. A node's resources are its machine's; agents' reports are compared apart."""
    left_out = ("apiVersion", "kind", "metadata", "status")
    body = {key: value for key, value in manifest.items() if key not in left_out}
    return {**body, "metadata": {"labels": manifest["metadata"].get("labels") or {}}}


def _node_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in spec.items() if key in ("unschedulable", "providerID")}
    taints = [
        one
        for one in spec.get("taints") or ()
        if one["key"] not in OUR_TAINTS and not one["key"].startswith(_KUBERNETES_TAINT)
    ]
    return kept | ({"taints": taints} if taints else {})


def _is_input(annotation: str) -> bool:
    return annotation in _INPUTS_OF_OURS or not annotation.startswith(_OUTPUTS)
