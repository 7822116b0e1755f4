"""The rules of services, volumes and storage classes: what pods use and we only pass on."""

from collections.abc import Mapping

from ullage.sim.apiserver.kinds.kind import AdmissionContext, FieldReader, KindRules
from ullage.sim.apiserver.merge.type_merging import merge_schema_of
from ullage.sim.apiserver.request import names
from ullage.sim.apiserver.request.field_errors import FieldError, required
from ullage.sim.apiserver.storage.json_bytes import JsonObject
from ullage.sim.apiserver.types.object_schemas import OPEN, object_schema


class ServiceAccountRules(KindRules):
    shape = OPEN
    returns_deleted = True
    schema = merge_schema_of("core.v1.ServiceAccount")


class VolumeRules(KindRules):
    shape = object_schema("core.v1.PersistentVolume")
    returns_deleted = True
    schema = merge_schema_of("core.v1.PersistentVolume")

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("volumeMode", "Filesystem")
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")

    def prepare_create(self, obj: JsonObject, _around: AdmissionContext) -> None:
        obj["status"] = {"phase": "Pending"}

    def validate(self, obj: JsonObject) -> list[FieldError]:
        return [required(f"spec.{member}") for member in ("accessModes", "capacity") if not obj["spec"].get(member)]


class ClaimRules(KindRules):
    shape = object_schema("core.v1.PersistentVolumeClaim")
    returns_deleted = True
    schema = merge_schema_of("core.v1.PersistentVolumeClaim")

    def default(self, obj: JsonObject) -> None:
        obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")

    def prepare_create(self, obj: JsonObject, _around: AdmissionContext) -> None:
        obj["status"] = {"phase": "Pending"}

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec = obj["spec"]
        found = [] if spec.get("accessModes") else [required("spec.accessModes", "at least 1 access mode is required")]
        if not ((spec.get("resources") or {}).get("requests") or {}).get("storage"):
            found.append(required("spec.resources[storage]"))
        return found


_SERVICE_FIELDS: Mapping[str, FieldReader] = {
    "spec.clusterIP": lambda obj: obj.get("spec", {}).get("clusterIP") or "",
    "spec.type": lambda obj: obj.get("spec", {}).get("type") or "",
}


class ServiceRules(KindRules):
    shape = object_schema("core.v1.Service")
    returns_deleted = True
    create_on_update = True
    schema = merge_schema_of("core.v1.Service")
    fields = _SERVICE_FIELDS

    def check_name(self, name: str) -> tuple[str, ...]:
        return names.dns_label(name)

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        spec.setdefault("internalTrafficPolicy", "Cluster")
        for port in spec.get("ports") or []:
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port.get("port"))

    def prepare_create(self, obj: JsonObject, _around: AdmissionContext) -> None:
        obj["status"] = {"loadBalancer": {}}

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec = obj["spec"]
        if not spec.get("ports") and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
            return [required("spec.ports")]
        return []


class StorageClassRules(KindRules):
    shape = object_schema("storage.v1.StorageClass")
    returns_deleted = True
    schema = merge_schema_of("storage.v1.StorageClass")

    def default(self, obj: JsonObject) -> None:
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def validate(self, obj: JsonObject) -> list[FieldError]:
        return [] if obj.get("provisioner") else [required("provisioner")]
