"""The rules of Deployments, ReplicaSets, StatefulSets and DaemonSets."""

from ullage.model.selector import Operator, Requirement, Selector
from ullage.sim.apiserver.kinds.kind import AdmissionContext, KindRules
from ullage.sim.apiserver.merge.type_merging import merge_schema_of
from ullage.sim.apiserver.request.field_errors import FieldError, required, wrong
from ullage.sim.apiserver.rules.pod_defaults import default_pod_spec
from ullage.sim.apiserver.rules.pod_validation import check_pod_spec
from ullage.sim.apiserver.storage.json_bytes import JsonObject
from ullage.sim.apiserver.types.object_schemas import object_schema

_QUARTERS = {"maxUnavailable": "25%", "maxSurge": "25%"}


def selector_of(selector: JsonObject | None) -> Selector:
    """A LabelSelector as our own; the empty one matches everything."""
    if not selector:
        return Selector()
    parts = [Requirement(k, Operator.IN, (v,)) for k, v in sorted((selector.get("matchLabels") or {}).items())]
    for expression in selector.get("matchExpressions") or []:
        values = tuple(sorted(expression.get("values") or []))
        parts.append(Requirement(expression.get("key", ""), Operator(expression.get("operator")), values))
    return Selector(tuple(parts))


_NOTHING: JsonObject = {}


class WorkloadRules(KindRules):
    """Rules that Deployments, ReplicaSets, StatefulSets and DaemonSets share."""

    counts_generations = True
    scales = True
    needs_selector = True
    empty_status: JsonObject = _NOTHING

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        template = spec.setdefault("template", {})
        default_pod_spec(template.setdefault("spec", {}))
        template.setdefault("metadata", {})
        if self.scales and spec.get("replicas") is None:
            spec["replicas"] = 1
        self.default_more(spec)

    def default_more(self, spec: JsonObject) -> None:
        """Fill in the defaults that only this kind has."""

    def prepare_create(self, obj: JsonObject, _around: AdmissionContext) -> None:
        obj["status"] = dict(self.empty_status)

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec, found = obj["spec"], list[FieldError]()
        if self.scales and spec["replicas"] < 0:
            found.append(wrong("spec.replicas", spec["replicas"], "must be greater than or equal to 0"))
        found += self._check_selector(spec)
        found += check_pod_spec(spec["template"]["spec"], "spec.template.spec")
        policy = spec["template"]["spec"].get("restartPolicy")
        if policy in ("OnFailure", "Never"):
            message = f'Unsupported value: "{policy}": supported values: "Always"'
            found.append(FieldError("spec.template.spec.restartPolicy", "FieldValueNotSupported", message))
        return found

    def _check_selector(self, spec: JsonObject) -> list[FieldError]:
        selector = spec.get("selector")
        found: list[FieldError] = []
        if selector is None:
            found += [required("spec.selector")] if self.needs_selector else []
        elif not selector.get("matchLabels") and not selector.get("matchExpressions"):
            why = f"empty selector is invalid for {self.word}"
            return [wrong("spec.selector", selector, why)]
        labels = spec["template"]["metadata"].get("labels")
        if not selector or not selector_of(selector).matches(labels or {}):
            at = "spec.template.metadata.labels"
            found.append(wrong(at, labels, "`selector` does not match template `labels`"))
        return found

    word = "workload"

    def validate_update(self, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        found = self.validate(obj)
        if obj["spec"].get("selector") != old["spec"].get("selector"):
            found.append(wrong("spec.selector", obj["spec"].get("selector"), "field is immutable"))
        return found


class DeploymentRules(WorkloadRules):
    shape = object_schema("apps.v1.Deployment")
    schema = merge_schema_of("apps.v1.Deployment")
    word = "deployment"
    status_resets = ("labels",)

    def desired(self, obj: JsonObject) -> object:
        """Its annotations are copied to its ReplicaSets, so they count."""
        return obj.get("spec"), obj["metadata"].get("annotations")

    def default_more(self, spec: JsonObject) -> None:
        strategy = spec.setdefault("strategy", {})
        strategy.setdefault("type", "RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            strategy["rollingUpdate"] = {**_QUARTERS, **(strategy.get("rollingUpdate") or {})}
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)


_REPLICASET_EMPTY_STATUS: JsonObject = {"replicas": 0}


class ReplicaSetRules(WorkloadRules):
    shape = object_schema("apps.v1.ReplicaSet")
    schema = merge_schema_of("apps.v1.ReplicaSet")
    word = "ReplicaSet"
    empty_status = _REPLICASET_EMPTY_STATUS

    def prepare_status(self, obj: JsonObject, _old: JsonObject) -> None:
        obj.setdefault("status", {}).setdefault("replicas", 0)


_STATEFULSET_EMPTY_STATUS: JsonObject = {"replicas": 0, "availableReplicas": 0}


class StatefulSetRules(WorkloadRules):
    shape = object_schema("apps.v1.StatefulSet")
    schema = merge_schema_of("apps.v1.StatefulSet")
    word = "statefulset"
    empty_status = _STATEFULSET_EMPTY_STATUS
    _fixed = ("selector", "volumeClaimTemplates", "serviceName", "podManagementPolicy")

    def default_more(self, spec: JsonObject) -> None:
        spec.setdefault("serviceName", "")
        spec.setdefault("podManagementPolicy", "OrderedReady")
        strategy = spec.setdefault("updateStrategy", {})
        strategy.setdefault("type", "RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            strategy["rollingUpdate"] = {"partition": 0, "maxUnavailable": 1, **(strategy.get("rollingUpdate") or {})}
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"})

    def validate_update(self, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        new, before = obj["spec"], old["spec"]
        changed = [name for name in self._fixed if new.get(name) != before.get(name)]
        immutable = [wrong(f"spec.{name}", new.get(name), "field is immutable") for name in changed]
        return self.validate(obj) + immutable


_DAEMONSET_EMPTY_STATUS: JsonObject = {
    "currentNumberScheduled": 0,
    "numberMisscheduled": 0,
    "desiredNumberScheduled": 0,
    "numberReady": 0,
}


class DaemonSetRules(WorkloadRules):
    shape = object_schema("apps.v1.DaemonSet")
    schema = merge_schema_of("apps.v1.DaemonSet")
    word = "daemonset"
    scales = False
    needs_selector = False
    empty_status = _DAEMONSET_EMPTY_STATUS

    def default_more(self, spec: JsonObject) -> None:
        strategy = spec.setdefault("updateStrategy", {})
        strategy.setdefault("type", "RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            strategy["rollingUpdate"] = {"maxUnavailable": 1, "maxSurge": 0, **(strategy.get("rollingUpdate") or {})}
        spec.setdefault("revisionHistoryLimit", 10)
