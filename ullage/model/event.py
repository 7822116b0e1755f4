"""What can be heard of the world: things appear, change and vanish. Frozen; `F` is the fact a thing is read as."""

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

F = TypeVar("F")


class ObjectKey(NamedTuple):
    """Where an object of one kind is found; cluster-wide ones have no namespace. Orders by namespace, then name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Appeared(Generic[F]):
    """There was nothing under this key, and now there is."""

    key: ObjectKey
    new: F


@dataclass(frozen=True, slots=True)
class Changed(Generic[F]):
    """The same thing as before (it has the same uid), with another fact."""

    key: ObjectKey
    old: F
    new: F


@dataclass(frozen=True, slots=True)
class Vanished(Generic[F]):
    """It is gone. If something else has its name now, that appears next."""

    key: ObjectKey
    old: F


@dataclass(frozen=True, slots=True)
class Synced:
    """Everything `source` (a resource id) held at one moment has been told."""

    source: str


Event = Appeared[F] | Changed[F] | Vanished[F] | Synced
