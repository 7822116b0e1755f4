"""The rules of CustomResourceDefinitions. What they define is in `custom`."""

from ullage.sim.apiserver.custom.cel_rules import check_rules
from ullage.sim.apiserver.custom.structural import check_schema
from ullage.sim.apiserver.kinds.kind import AdmissionContext, KindRules
from ullage.sim.apiserver.merge.type_merging import merge_schema_of
from ullage.sim.apiserver.request import names
from ullage.sim.apiserver.request.field_errors import FieldError, required, wrong
from ullage.sim.apiserver.storage.json_bytes import JsonObject, copied
from ullage.sim.apiserver.types.object_schemas import object_schema

_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_PENDING = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"


class DefinitionRules(KindRules):
    shape = object_schema("apiextensions.v1.CustomResourceDefinition")
    counts_generations = True
    unconditional_update = False
    schema = merge_schema_of("apiextensions.v1.CustomResourceDefinition")

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("conversion", {"strategy": "None"})
        called = spec.setdefault("names", {})
        if called.get("kind"):
            called.setdefault("singular", called["kind"].lower())
            called.setdefault("listKind", called["kind"] + "List")

    def prepare_create(self, obj: JsonObject, around: AdmissionContext) -> None:
        """Names are free here and serving starts at once, so the conditions of a moment later are true already."""
        spec, now = obj["spec"], around.timestamp()
        stored = [version.get("name") for version in spec.get("versions") or [] if version.get("storage")]
        obj["status"] = {
            "conditions": [
                _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
                _condition("Established", "InitialNamesAccepted", "the initial names have been accepted", now),
            ],
            "acceptedNames": dict(spec["names"]),
            "storedVersions": stored,
        }

    def mark_deleted(self, obj: JsonObject, around: AdmissionContext) -> JsonObject | None:
        """It stays until its objects are gone."""
        if obj["metadata"].get("deletionTimestamp"):
            return copied(obj)
        marked, now = copied(obj), around.timestamp()
        held = marked["metadata"].setdefault("finalizers", [])
        if _CLEANUP not in held:
            held.append(_CLEANUP)
        marked["metadata"]["deletionTimestamp"] = now
        condition = _condition("Terminating", "InstanceDeletionPending", _PENDING, now)
        marked.setdefault("status", {}).setdefault("conditions", []).append(condition)
        return marked

    def prepare_update(self, obj: JsonObject, _old: JsonObject) -> None:
        stored = [version.get("name") for version in obj["spec"].get("versions") or [] if version.get("storage")]
        status = obj.get("status") or {}
        status["storedVersions"] = [*dict.fromkeys([*(status.get("storedVersions") or []), *stored])]
        status["acceptedNames"] = dict(obj["spec"].get("names") or {})
        obj["status"] = status

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec, called, found = obj["spec"], obj["spec"]["names"], list[FieldError]()
        expected = f"{called.get('plural', '')}.{spec.get('group', '')}"
        if obj["metadata"].get("name") != expected:
            why = 'must be spec.names.plural+"."+spec.group'
            found.append(wrong("metadata.name", obj["metadata"].get("name"), why))
        if not spec.get("group"):
            found.append(required("spec.group"))
        if spec.get("scope") not in ("Namespaced", "Cluster"):
            found.append(required("spec.scope"))
        if not [version for version in spec.get("versions") or [] if version.get("storage")]:
            why = "must have exactly one version marked as storage version"
            found.append(wrong("spec.versions", spec.get("versions"), why))
        for member in ("plural", "kind"):
            if not called.get(member):
                found.append(required(f"spec.names.{member}"))
        versions = spec.get("versions") or []
        for index, version in enumerate(versions):
            found += _check_version(version, f"spec.versions[{index}]")
            at = f"spec.versions[{index}].schema.openAPIV3Schema"
            schema = (version.get("schema") or {}).get("openAPIV3Schema")
            if not schema:
                found.append(required(at))
            else:
                at = "spec.validation.openAPIV3Schema" if len(versions) == 1 else at
                found += check_schema(schema, at, root=True) or check_rules(schema, at)
        return found


def _condition(name: str, reason: str, message: str, now: str) -> JsonObject:
    return {"type": name, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}


def _check_version(version: JsonObject, at: str) -> list[FieldError]:
    name = version.get("name") or ""
    found = [wrong(f"{at}.name", name, why) for why in names.dns_label(name)]
    scale = (version.get("subresources") or {}).get("scale")
    if scale is not None:
        paths = [member for member in ("specReplicasPath", "statusReplicasPath") if not scale.get(member)]
        found += [required(f"{at}.subresources.scale.{member}") for member in paths]
    for index, field in enumerate(version.get("selectableFields") or []):
        if not field.get("jsonPath"):
            found.append(required(f"{at}.selectableFields[{index}].jsonPath"))
    return found
