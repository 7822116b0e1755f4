"""Objects without what says nothing about placement and might be nobody's business: commands, environments, secrets'
names, probes, last-applied copies. What is left runs in a simulator as the whole would."""

from collections.abc import Mapping
from typing import Any

from ullage.kube.client.resource import JsonObject

_CONTAINER = ("name", "image", "resources", "ports", "restartPolicy")
_VOLUMES = ("persistentVolumeClaim", "emptyDir", "hostPath", "ephemeral")
_POD_SPEC_DROPPED = (
    "imagePullSecrets",
    "serviceAccount",
    "serviceAccountName",
    "hostAliases",
    "dnsConfig",
    "securityContext",
)
_META_DROPPED = ("managedFields", "selfLink")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def pruned(manifest: JsonObject) -> JsonObject:
    """Return a copy with only the fields that matter to placement."""
    kept: JsonObject = {**manifest, "metadata": _metadata(manifest.get("metadata", {}))}
    spec = manifest.get("spec")
    if not isinstance(spec, Mapping):
        return kept
    if manifest.get("kind") == "Pod":
        return kept | {"spec": _pod_spec(spec)}
    template = spec.get("template")
    if isinstance(template, Mapping) and isinstance(template.get("spec"), Mapping) and "containers" in template["spec"]:
        made = {**template, "metadata": _metadata(template.get("metadata", {})), "spec": _pod_spec(template["spec"])}
        return kept | {"spec": {**spec, "template": made}}
    return kept


def _metadata(metadata: Mapping[str, Any]) -> JsonObject:
    kept = {key: value for key, value in metadata.items() if key not in _META_DROPPED}
    if "annotations" in kept:
        kept["annotations"] = {key: value for key, value in kept["annotations"].items() if key != _LAST_APPLIED}
    return kept


def _pod_spec(spec: Mapping[str, Any]) -> JsonObject:
    kept: JsonObject = {key: value for key, value in spec.items() if key not in _POD_SPEC_DROPPED}
    for group in ("containers", "initContainers"):
        if group in kept:
            kept[group] = [{key: one[key] for key in _CONTAINER if key in one} for one in kept[group]]
    kept.pop("ephemeralContainers", None)
    if "volumes" in kept:
        kept["volumes"] = [
            {"name": one.get("name", ""), kind: one[kind]}
            for one in kept["volumes"]
            for kind in _VOLUMES
            if kind in one
        ]
    return kept
