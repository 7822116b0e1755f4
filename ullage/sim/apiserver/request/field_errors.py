"""Errors of single fields, in the words of Kubernetes' field errors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ullage.sim.apiserver.storage.json_bytes import JsonObject, encode


@dataclass(frozen=True, slots=True)
class FieldError:
    """One cause in the details of an Invalid."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message

    def cause(self) -> JsonObject:
        return {"reason": self.reason, "message": self.message, "field": self.field}


def aggregate(errors: Sequence[FieldError]) -> str:
    """All errors in one line, without repetitions."""
    lines = list(dict.fromkeys(str(error) for error in errors))
    return lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"


def shown(value: Any) -> str:
    """A value as the complaint quotes it: Go's quoting for strings, JSON for the rest."""
    if value is None:
        return "null"
    return encode(value).decode()


def required(field: str, detail: str = "") -> FieldError:
    return FieldError(field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value")


def wrong(field: str, value: Any, detail: str) -> FieldError:
    return FieldError(field, "FieldValueInvalid", f"Invalid value: {shown(value)}: {detail}")


def wrong_type(field: str, value: Any, detail: str) -> FieldError:
    return FieldError(field, "FieldValueTypeInvalid", f"Invalid value: {shown(value)}: {detail}")


def unsupported(field: str, value: Any, supported: Sequence[Any]) -> FieldError:
    listed = ", ".join(shown(item) for item in supported)
    return FieldError(field, "FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {listed}")


def forbidden_field(field: str, detail: str) -> FieldError:
    return FieldError(field, "FieldValueForbidden", f"Forbidden: {detail}")


def duplicate(field: str, value: Any) -> FieldError:
    return FieldError(field, "FieldValueDuplicate", f"Duplicate value: {shown(value)}")


def too_long(field: str, maximum: int) -> FieldError:
    return FieldError(field, "FieldValueTooLong", f"Too long: may not be more than {maximum} bytes")


def too_many_items(field: str, count: int, maximum: int) -> FieldError:
    items = "item" if maximum == 1 else "items"
    return FieldError(field, "FieldValueTooMany", f"Too many: {count}: must have at most {maximum} {items}")
