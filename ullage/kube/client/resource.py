"""Resources: the API path of a kind of object, and the type it is decoded to. Paths are built here only."""

from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

JsonObject = dict[str, Any]
"""A Kubernetes object as plain JSON: every field, also those we do not model."""


@dataclass(frozen=True)  # no slots: a frozen generic with slots cannot be called as Resource[X](...)
class Resource(Generic[T_co]):
    """One served kind. `reads_as` is what its objects are decoded to: a struct of ours, or `dict` for all fields."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    reads_as: type[T_co]

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def id(self) -> str:
        """`pods`, `leases.coordination.k8s.io`: as kubectl and RBAC name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def whole(self) -> "Resource[JsonObject]":
        """The same resource with nothing left out: for reading an object that is going to be written back."""
        return replace(self, reads_as=dict)  # type: ignore[arg-type,return-value]  # dataclasses.replace keeps T_co

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The request path. Without a namespace: all of them."""
        prefix = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        where = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        rest = "".join(f"/{part}" for part in (name, subresource) if part)
        return f"{prefix}{where}/{self.plural}{rest}"
