"""A kind's definition: its names, its schema, what `kubectl get` shows of it. As an object, and as a file."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import CRDS
from ullage.kube.crds.rules import RULES
from ullage.kube.crds.schema import object_schema

_HEADER = "# Generated from ullage/kube/objects by `make format`; do not edit.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrinterColumn:
    """One column of `kubectl get`; `wide` ones show with `-o wide` alone."""

    name: str
    path: str
    type: str = "string"
    description: str = ""
    wide: bool = False

    def written(self) -> JsonObject:
        column: JsonObject = {"name": self.name, "type": self.type, "jsonPath": self.path}
        if self.description:
            column["description"] = self.description
        return column | ({"priority": 1} if self.wide else {})


AGE = PrinterColumn(name="Age", path=".metadata.creationTimestamp", type="date")


@dataclass(frozen=True, slots=True, kw_only=True)
class CrdDefinition:
    """A custom kind with a status of its own."""

    resource: Resource[Any]
    short_names: Sequence[str]
    columns: Sequence[PrinterColumn]
    selectable: Sequence[str] = ()
    """Fields that `--field-selector` understands."""

    def written(self) -> JsonObject:
        """The CustomResourceDefinition."""
        resource = self.resource
        return {
            "apiVersion": CRDS.api_version,
            "kind": CRDS.kind,
            "metadata": {"name": resource.id, "labels": {"app.kubernetes.io/part-of": "ullage"}},
            "spec": {
                "group": resource.group,
                "scope": "Namespaced" if resource.namespaced else "Cluster",
                "names": self._names(),
                "versions": [self._version()],
            },
        }

    def _names(self) -> JsonObject:
        kind = self.resource.kind
        return {
            "kind": kind,
            "listKind": f"{kind}List",
            "plural": self.resource.plural,
            "singular": kind.lower(),
            "shortNames": list(self.short_names),
            "categories": ["ullage"],
        }

    def _version(self) -> JsonObject:
        version: JsonObject = {
            "name": self.resource.version,
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": _schema_of(self.resource)},
            "additionalPrinterColumns": [column.written() for column in (*self.columns, AGE)],
        }
        if self.selectable:
            version["selectableFields"] = [{"jsonPath": path} for path in self.selectable]
        return version

    @property
    def file_name(self) -> str:
        return f"{self.resource.id}.yaml"

    def text(self) -> str:
        """The file: the same to the byte for the same structs."""
        return _HEADER + yaml.safe_dump(self.written(), sort_keys=True, width=120, allow_unicode=True)


@cache
def _schema_of(resource: Resource[Any]) -> JsonObject:
    """Schema of a kind, for reading only: it is derived once."""
    return object_schema(resource.reads_as, RULES)
