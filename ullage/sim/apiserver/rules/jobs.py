"""The rules of Jobs."""

from collections.abc import Mapping

from ullage.sim.apiserver.kinds.kind import AdmissionContext, FieldReader, KindRules
from ullage.sim.apiserver.merge.type_merging import merge_schema_of
from ullage.sim.apiserver.request.field_errors import FieldError, required, unsupported, wrong
from ullage.sim.apiserver.rules.pod_defaults import default_pod_spec
from ullage.sim.apiserver.rules.pod_validation import check_pod_spec
from ullage.sim.apiserver.storage.json_bytes import JsonObject
from ullage.sim.apiserver.types.object_schemas import object_schema

_PREFIX = "batch.kubernetes.io/"


_JOB_FIELDS: Mapping[str, FieldReader] = {
    "status.successful": lambda obj: str(obj.get("status", {}).get("succeeded", 0))
}


class JobRules(KindRules):
    shape = object_schema("batch.v1.Job")
    counts_generations = True
    schema = merge_schema_of("batch.v1.Job")
    default_propagation = "Orphan"
    fields = _JOB_FIELDS

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        template = spec.setdefault("template", {})
        default_pod_spec(template.setdefault("spec", {}))
        template.setdefault("metadata", {})
        if spec.get("completions") is None and spec.get("parallelism") is None:
            spec["completions"] = 1
        for member, value in (("parallelism", 1), ("backoffLimit", 6)):
            if spec.get(member) is None:
                spec[member] = value
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")

    def prepare_create(self, obj: JsonObject, _around: AdmissionContext) -> None:
        obj["status"] = {}
        spec, metadata = obj["spec"], obj["metadata"]
        if spec.setdefault("manualSelector", False):
            return
        uid, name = metadata["uid"], metadata.get("name", "")
        labels = {_PREFIX + "controller-uid": uid, _PREFIX + "job-name": name, "controller-uid": uid, "job-name": name}
        for holder in (metadata, spec["template"]["metadata"]):
            holder["labels"] = {**(holder.get("labels") or {}), **labels}
        if spec.get("selector") is None:
            spec["selector"] = {"matchLabels": {_PREFIX + "controller-uid": uid}}

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec, found = obj["spec"], list[FieldError]()
        for member in (
            "parallelism",
            "completions",
            "backoffLimit",
            "activeDeadlineSeconds",
            "ttlSecondsAfterFinished",
        ):
            value = spec.get(member)
            if value is not None and value < 0:
                found.append(wrong(f"spec.{member}", value, "must be greater than or equal to 0"))
        if spec["completionMode"] not in ("NonIndexed", "Indexed"):
            found.append(unsupported("spec.completionMode", spec["completionMode"], ["Indexed", "NonIndexed"]))
        elif spec["completionMode"] == "Indexed" and spec.get("completions") is None:
            found.append(required("spec.completions", "when completion mode is Indexed"))
        found += check_pod_spec(spec["template"]["spec"], "spec.template.spec")
        policy = spec["template"]["spec"].get("restartPolicy")
        if policy == "Always":
            at = "spec.template.spec.restartPolicy"
            found.append(required(at, 'valid values: "OnFailure", "Never"'))
        return found

    def validate_update(self, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        found = self.validate(obj)
        for member in ("completions", "selector", "completionMode"):
            if obj["spec"].get(member) != old["spec"].get(member) and not _elastic(member, obj, old):
                found.append(wrong(f"spec.{member}", obj["spec"].get(member), "field is immutable"))
        frozen = not (old["spec"].get("suspend") and not old.get("status", {}).get("startTime"))
        if frozen and obj["spec"]["template"] != old["spec"]["template"]:
            found.append(wrong("spec.template", obj["spec"]["template"], "field is immutable"))
        return found


def _elastic(member: str, obj: JsonObject, old: JsonObject) -> bool:
    """An Indexed job may change its completions together with its parallelism."""
    spec = obj["spec"]
    return (
        member == "completions"
        and spec.get("completionMode") == "Indexed"
        and spec.get("completions") == spec.get("parallelism")
        and old["spec"].get("completions") is not None
    )
