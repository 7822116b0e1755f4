"""Amounts of resources by name, in exact thousandths: allocatable of nodes, requests of pods.

Plain dicts of integers: `{"cpu": 500, "nvidia.com/gpu": 2000}`. A name that is absent is zero.
"""

from collections.abc import Iterable, Mapping

Amounts = Mapping[str, int]

GPU = "nvidia.com/gpu"
MILLI = 1000
GIB = 1 << 30


def total(parts: Iterable[Amounts]) -> dict[str, int]:
    """Sum, name by name."""
    result: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            result[name] = result.get(name, 0) + amount
    return result


def at_least(one: Amounts, other: Amounts) -> dict[str, int]:
    """Larger of the two, name by name."""
    result = dict(one)
    for name, amount in other.items():
        result[name] = max(result.get(name, 0), amount)
    return result


def whole_gpus(amounts: Amounts) -> int:
    """Number of whole GPUs in these amounts."""
    return amounts.get(GPU, 0) // MILLI
