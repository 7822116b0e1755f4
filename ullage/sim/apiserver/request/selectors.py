"""Label and field selectors of a list or watch request."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from ullage.model.selector import Selector, parse_selector
from ullage.sim.apiserver.kinds.kind import FieldReader, ServedKind
from ullage.sim.apiserver.request.status_errors import bad_request
from ullage.sim.apiserver.storage.json_bytes import JsonObject


def _name(obj: JsonObject) -> str:
    return str(obj["metadata"].get("name", ""))


def _namespace(obj: JsonObject) -> str:
    return str(obj["metadata"].get("namespace", ""))


_ALWAYS: dict[str, FieldReader] = {"metadata.name": _name, "metadata.namespace": _namespace}
_TERM = re.compile(r"((?:\\.|[^\\=!,])*)(!=|==|=)((?:\\.|[^\\,=])*)", re.DOTALL)
_SPLIT = re.compile(r"(?:\\.|[^\\,])+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FieldTerm:
    read: FieldReader
    value: str
    equal: bool


@dataclass(frozen=True, slots=True)
class ObjectFilter:
    """Label and field conditions of a request. Without conditions everything matches."""

    labels: Selector
    terms: tuple[FieldTerm, ...]
    name: str | None = None
    """Single name that can match, if a condition fixes it: the list then needs no search."""

    @property
    def everything(self) -> bool:
        return not self.labels.requirements and not self.terms

    def matches(self, obj: JsonObject) -> bool:
        for term in self.terms:
            if (term.read(obj) == term.value) is not term.equal:
                return False
        return not self.labels.requirements or self.labels.matches(obj["metadata"].get("labels") or {})


ALL = ObjectFilter(Selector(), ())


def choose(kind: ServedKind, labels: str, fields: str) -> ObjectFilter:
    """Read both selectors. Raises StatusError with the server's words."""
    if not labels and not fields:
        return ALL
    try:
        selector = parse_selector(labels)
    except ValueError as error:
        raise bad_request(f"unable to parse requirement: {error}") from error
    terms = tuple(_term(kind, text) for text in _SPLIT.findall(fields))
    names = [term.value for term in terms if term.read is _name and term.equal]
    return ObjectFilter(selector, terms, names[0] if names else None)


def _term(kind: ServedKind, text: str) -> FieldTerm:
    match = _TERM.fullmatch(text)
    if match is None:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
    label, operator, value = match.groups()
    read: Callable[[JsonObject], str] | None = _ALWAYS.get(label) or kind.rules.fields.get(label)
    if read is None:
        raise bad_request(_unsupported(kind, label))
    return FieldTerm(read, re.sub(r"\\(.)", r"\1", value), operator != "!=")


def _unsupported(kind: ServedKind, label: str) -> str:
    if kind.kind == "Job":
        return f'field label "{label}" not supported for Job'
    if kind.custom or kind.rules.fields:
        return f"field label not supported: {label}"
    return f'"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"'
