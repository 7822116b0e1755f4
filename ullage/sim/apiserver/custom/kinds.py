"""Kinds that a CustomResourceDefinition makes the server serve."""

from typing import Any

from ullage.sim.apiserver.custom.cel_rules import broken, plan_of
from ullage.sim.apiserver.custom.merging import merge_schema
from ullage.sim.apiserver.custom.pruning import fill_defaults, prune, unknown_fields
from ullage.sim.apiserver.custom.validate import check
from ullage.sim.apiserver.kinds.kind import FieldReader, KindRules, ScalePaths, ServedKind
from ullage.sim.apiserver.request.field_errors import FieldError
from ullage.sim.apiserver.storage.json_bytes import JsonObject
from ullage.sim.apiserver.types.object_schemas import OPEN


class CustomRules(KindRules):
    """The rules of one version of a custom kind."""

    shape = OPEN
    counts_generations = True
    unconditional_update = False
    status_resets = ("labels", "annotations", "finalizers", "ownerReferences", "generateName")

    def __init__(self, schema: JsonObject, *, has_status: bool, fields: dict[str, FieldReader]) -> None:
        self._schema = schema
        self._plan = plan_of(schema)
        self._ignored = ("metadata", "status") if has_status else ("metadata",)
        self.schema = merge_schema(schema, root=True)
        self.fields = fields

    @property
    def published(self) -> JsonObject:
        """The schema as it was defined; for reading only."""
        return self._schema

    def default(self, obj: JsonObject) -> None:
        prune(obj, self._schema, root=True)
        fill_defaults(obj, self._schema)

    def unknown_fields(self, obj: JsonObject) -> list[str]:
        return unknown_fields(obj, self._schema, root=True)

    def desired(self, obj: JsonObject) -> object:
        return {key: value for key, value in obj.items() if key not in self._ignored}

    def validate(self, obj: JsonObject) -> list[FieldError]:
        return self._violations(obj, None)

    def validate_update(self, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        return self._violations(obj, old)

    def validate_status(self, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        return self._violations(obj, old)

    def _violations(self, obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
        found = check(obj, self._schema, "")
        return found + broken(self._plan, obj, old, found)


def kinds_of(definition: JsonObject) -> list[ServedKind]:
    """One for each served version."""
    spec = definition["spec"]
    stored = next(v["name"] for v in spec["versions"] if v.get("storage"))
    return [_kind(spec, version, stored) for version in spec["versions"] if version.get("served")]


def _kind(spec: JsonObject, version: JsonObject, stored: str) -> ServedKind:
    names, parts = spec["names"], version.get("subresources") or {}
    scale = parts.get("scale")
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {"x-kubernetes-preserve-unknown-fields": True}
    fields = {path: _reader(path) for path in _selectable(version)}
    return ServedKind(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        namespaced=spec.get("scope") == "Namespaced",
        rules=CustomRules(schema, has_status="status" in parts, fields=fields),
        subresources=tuple(name for name in ("status", "scale") if name in parts),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        singular=names.get("singular") or names["kind"].lower(),
        scale=_scale_paths(scale) if scale else None,
        stored_version=f"{spec['group']}/{stored}",
        custom=True,
        columns=tuple(version.get("additionalPrinterColumns") or ()),
    )


def _scale_paths(scale: JsonObject) -> ScalePaths:
    replicas, status = scale["specReplicasPath"], scale["statusReplicasPath"]
    return ScalePaths(replicas, status, scale.get("labelSelectorPath") or "status.no-selector-path")


def _selectable(version: JsonObject) -> list[str]:
    return [field["jsonPath"].lstrip(".") for field in version.get("selectableFields") or []]


def _reader(path: str) -> FieldReader:
    parts = path.split(".")

    def read(obj: JsonObject) -> str:
        value: Any = obj
        for part in parts:
            value = value.get(part) if isinstance(value, dict) else None
        if value is None:
            return ""
        return str(value).lower() if isinstance(value, bool) else str(value)

    return read
