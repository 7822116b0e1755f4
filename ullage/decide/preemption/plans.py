"""Maximal sets of units that may be evicted together, given what each budget and gang allows."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from ullage.decide.preemption.protection import EvictionUnit, Limit

MOST_PLANS = 64
"""Ways to spend scarce budgets that are tried on one node."""

Allows = Callable[[Limit], int]


def plans(units: Sequence[EvictionUnit], allows: Allows) -> Iterator[list[EvictionUnit]]:
    """Sets to which no unit can be added, those of the least important units first. Usually one: all units."""
    wanted: dict[Limit, int] = {}
    for unit in units:
        for limit, count in unit.costs.items():
            wanted[limit] = wanted.get(limit, 0) + count
    scarce = {limit: allows(limit) for limit, count in wanted.items() if count > allows(limit)}
    rivals = [unit for unit in reversed(units) if scarce.keys() & unit.costs.keys()]
    others = [unit for unit in units if not scarce.keys() & unit.costs.keys()]
    for chosen in islice(_subsets(rivals, scarce), MOST_PLANS):
        if _is_largest(chosen, rivals, scarce):
            yield others + chosen


def _subsets(units: Sequence[EvictionUnit], left: dict[Limit, int]) -> Iterator[list[EvictionUnit]]:
    """Sets within the limits: with the first unit if the limits allow it, then without it."""
    if not units:
        yield []
        return
    first, rest = units[0], units[1:]
    if _within(first, left):
        for chosen in _subsets(rest, _spent(first, left)):
            yield [first, *chosen]
    yield from _subsets(rest, left)


def _is_largest(chosen: list[EvictionUnit], units: Sequence[EvictionUnit], left: dict[Limit, int]) -> bool:
    for unit in chosen:
        left = _spent(unit, left)
    return not any(_within(unit, left) for unit in units if unit not in chosen)


def _within(unit: EvictionUnit, left: dict[Limit, int]) -> bool:
    return all(count <= left[limit] for limit, count in unit.costs.items() if limit in left)


def _spent(unit: EvictionUnit, left: dict[Limit, int]) -> dict[Limit, int]:
    return {limit: amount - unit.costs.get(limit, 0) for limit, amount in left.items()}
