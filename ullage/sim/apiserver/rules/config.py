"""The rules of ConfigMaps and Secrets."""

import base64
from collections.abc import Mapping

from ullage.sim.apiserver.kinds.kind import FieldReader, KindRules
from ullage.sim.apiserver.merge.type_merging import merge_schema_of
from ullage.sim.apiserver.request import names
from ullage.sim.apiserver.request.field_errors import FieldError, forbidden_field, too_long, wrong
from ullage.sim.apiserver.storage.json_bytes import JsonObject
from ullage.sim.apiserver.types.object_schemas import object_schema

_LIMIT = 1024 * 1024
_SECRET_FIELDS: Mapping[str, FieldReader] = {"type": lambda obj: obj.get("type") or ""}


class ConfigRules(KindRules):
    """ConfigMaps, which may be immutable."""

    shape = object_schema("core.v1.ConfigMap")
    schema = merge_schema_of("core.v1.ConfigMap")
    size_at = "[]"

    def validate(self, obj: JsonObject) -> list[FieldError]:
        found: list[FieldError] = []
        texts, blobs = obj.get("data") or {}, obj.get("binaryData") or {}
        for member, values in (("data", texts), ("binaryData", blobs)):
            for key in values:
                found += [wrong(f"{member}[{key}]", key, why) for why in names.config_key(key)]
        found += [wrong(f"data[{key}]", key, "duplicate of key present in binaryData") for key in texts if key in blobs]
        if sum(self.size(value) for value in texts.values()) + sum(map(_decoded_size, blobs.values())) > _LIMIT:
            found.append(too_long(self.size_at, _LIMIT))
        return found

    def size(self, value: str) -> int:
        return len(value.encode())

    def validate_update(self, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        if not old.get("immutable"):
            return self.validate(obj)
        found: list[FieldError] = []
        if not obj.get("immutable"):
            found.append(forbidden_field("immutable", "field is immutable when `immutable` is set"))
        changed = [member for member in ("data", "binaryData") if obj.get(member) != old.get(member)]
        return found + [forbidden_field(member, "field is immutable when `immutable` is set") for member in changed]


class SecretRules(ConfigRules):
    shape = object_schema("core.v1.Secret")
    fields = _SECRET_FIELDS
    size_at = "data"

    def default(self, obj: JsonObject) -> None:
        obj.setdefault("type", "Opaque")
        plain = obj.pop("stringData", None)
        if plain:
            encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
            obj["data"] = {**(obj.get("data") or {}), **encoded}

    def size(self, value: str) -> int:
        return _decoded_size(value)

    def validate_update(self, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        found = super().validate_update(obj, old)
        if obj["type"] != old["type"]:
            found.append(wrong("type", obj["type"], "field is immutable"))
        return found


def _decoded_size(value: str) -> int:
    return len(value) * 3 // 4 - value[-2:].count("=")
