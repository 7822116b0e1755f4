"""Changes of facts: added, updated, deleted. Frozen; `F` is the type of the fact."""

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

F = TypeVar("F")


class ObjectKey(NamedTuple):
    """Key of an object within its kind. Cluster-wide objects have no namespace. Orders by namespace, then name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Added(Generic[F]):
    """An object appeared under a key that had none."""

    key: ObjectKey
    new: F


@dataclass(frozen=True, slots=True)
class Updated(Generic[F]):
    """An object with the same uid has another fact."""

    key: ObjectKey
    old: F
    new: F


@dataclass(frozen=True, slots=True)
class Deleted(Generic[F]):
    """An object is gone. A successor under the same name follows as Added."""

    key: ObjectKey
    old: F


@dataclass(frozen=True, slots=True)
class Synced:
    """Every object that `source` (a resource id) held at one moment has been delivered."""

    source: str


FactEvent = Added[F] | Updated[F] | Deleted[F] | Synced
