"""Free resources of a node for one more pod. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ullage.model.quantity import milli
from ullage.model.resources import MILLI, Amounts, total

_NATIVE = ("cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class KubeletShortage:
    """The first resource a pod does not get. All in thousandths."""

    resource: str
    requested: int
    used: int
    capacity: int


def shortage(request: Amounts, admitted: Iterable[Amounts], allocatable: Mapping[str, str]) -> KubeletShortage | None:
    """First resource short beside the pods admitted already. Extended resources the node does not list are skipped;
    a node that says nothing of cpu or memory has none."""
    held = list(admitted)
    used = total(held) | {"pods": MILLI * len(held)}
    asked = {**request, "pods": MILLI}
    for name in sorted(asked):
        if name not in allocatable and name not in _NATIVE:
            continue
        capacity = milli(allocatable.get(name, "0"))
        if used.get(name, 0) + asked[name] > capacity:
            return KubeletShortage(name, asked[name], used.get(name, 0), capacity)
    return None
