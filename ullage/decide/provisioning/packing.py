"""Packing: new nodes for many pods of few shapes, as cheaply as can be found.

The *configuration LP* of cutting stock: how often to use each pattern so that all pods are covered at least cost. New
patterns are searched for by their value in the LP (column generation). Its whole part is taken, the rest is decided
pattern by pattern. The cost of the LP is a lower bound, so the distance to the best packing is known. Work grows with
the number of shapes and patterns, not of pods.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import floor

import numpy as np

from ullage.decide.provisioning.patterns import Fill, NodeType, Pattern, best_pattern
from ullage.model.stepper import StepMeter, Stepper, finish
from ullage.model.units import Seconds

MOST_ROUNDS = 300
"""Upper bound on rounds of searching for new patterns. Past it the known patterns are used."""
_UNSERVED = 10.0
"""Cost of a pod without a node, in nodes of the dearest type: never cheaper than a node."""
_NOTHING = 1e-6

FILL_COST, SOLVE_COST = 0.000_5, 0.004
"""Modelled CPU seconds of filling one node, and of one round of the LP with the search for a pattern of one type."""


@dataclass(frozen=True, slots=True)
class FilledNodes:
    """Nodes of one type with the same pods on each."""

    node_type: int
    pods: Pattern
    count: int


@dataclass(frozen=True, slots=True)
class Packing:
    """New nodes, and the number of pods of each shape that get none."""

    filled: tuple[FilledNodes, ...]
    unserved: Pattern


def pack(demands: Sequence[int], types: Sequence[NodeType], budgets: Sequence[float], fill: Fill) -> Packing:
    """New nodes for these numbers of pods of each shape, within the limits of types and budgets, at once."""
    return finish(pack_in_steps(demands, types, budgets, fill, StepMeter()))


def pack_in_steps(
    demands: Sequence[int], types: Sequence[NodeType], budgets: Sequence[float], fill: Fill, meter: StepMeter
) -> Stepper[Packing]:
    """`pack`, in steps."""
    return (yield from _Packer(demands, types, budgets, cache(fill), meter).run())


class _Packer:
    """One packing under way: the demands, limits and budgets that are left."""

    def __init__(
        self,
        demands: Sequence[int],
        types: Sequence[NodeType],
        budgets: Sequence[float],
        fill: Fill,
        meter: StepMeter,
    ) -> None:
        self._meter = meter
        self._left = list(demands)
        self._limits = [node.limit for node in types]
        self._budgets = list(budgets)
        self._types = types
        self._fill = fill
        self._columns: list[tuple[int, Pattern]] = []
        self._lp = _Master(len(demands), types, len(budgets))
        self._filled: dict[tuple[int, Pattern], int] = {}
        self._order = sorted(range(len(demands)), key=lambda shape: (-max(node.share(shape) for node in types), shape))

    def run(self) -> Stepper[Packing]:
        for kind in range(len(self._types)):
            for shape in range(len(self._left)):
                self._add_column(kind, self._filled_up(kind, tuple([0] * len(self._left)), (shape,)))
                if self._meter.spend(Seconds(FILL_COST)):
                    yield self._meter.take()
        while any(self._left) and not self._end_on_one_node():
            used = yield from self._solved()
            whole = [(column, floor(times + _NOTHING)) for column, times in used if times + _NOTHING >= 1]
            if not whole and used:
                whole = [(max(used, key=lambda one: (one[1], -one[0]))[0], 1)]
            if not sum(self._take(*self._columns[column], times) for column, times in whole):
                break
        filled = tuple(FilledNodes(*key, count) for key, count in sorted(self._filled.items()))
        return Packing(filled, tuple(self._left))

    def _end_on_one_node(self) -> bool:
        """Put all pods that are left on one node, the cheapest that holds them. True if there is one.

        The LP would count a part of a node.
        """
        left = tuple(self._left)
        for kind in sorted(range(len(self._types)), key=lambda kind: self._types[kind].cost):
            node = self._types[kind]
            known = all(node.sizes[shape] is not None for shape, count in enumerate(left) if count)
            if known and self._may_open(kind) and min(node.left(left)) >= 0 and self._fill(kind, left) == left:
                self._open(kind, left, 1)
                return True
        return False

    def _solved(self) -> Stepper[list[tuple[int, float]]]:
        """Columns the LP uses for the pods that are left, with multiplicity. Patterns are added until none helps."""
        for _ in range(MOST_ROUNDS):
            times, duals = self._lp.solve(self._left, self._limits, self._budgets)
            added = 0
            for kind in range(len(self._types)):
                if self._meter.spend(Seconds(SOLVE_COST)):
                    yield self._meter.take()
                added += self._may_open(kind) and self._priced(kind, duals)
            if not added:
                break
        return [(column, often) for column, often in enumerate(times) if often > _NOTHING]

    def _priced(self, kind: int, duals: "_Duals") -> bool:
        """Search for a pattern of this type that makes the LP cheaper. True if one was added."""
        node = self._types[kind]
        above = duals.price_of_node(kind, node)
        found = best_pattern(node, duals.shapes, tuple(self._left), above + 1e-7)
        if found is None:
            return False
        really = self._fill(kind, found)
        worth = sum(value * count for value, count in zip(duals.shapes, really, strict=True))
        return worth > above + 1e-7 and self._add_column(kind, really)

    def _add_column(self, kind: int, pattern: Pattern) -> bool:
        if not any(pattern) or (kind, pattern) in self._columns:
            return False
        self._columns.append((kind, pattern))
        self._lp.add(kind, self._types[kind], pattern)
        return True

    def _may_open(self, kind: int) -> bool:
        charges = self._types[kind].charges
        return self._limits[kind] > 0 and all(c <= b for c, b in zip(charges, self._budgets, strict=True))

    def _take(self, kind: int, pattern: Pattern, times: int) -> int:
        """Open this many nodes with this pattern; the last ones with what is left of it, filled up with other pods."""
        taken = 0
        while taken < times and self._may_open(kind):
            here = tuple(min(count, left) for count, left in zip(pattern, self._left, strict=True))
            if not any(here):
                break
            if here == pattern:
                whole = min(left // count for count, left in zip(pattern, self._left, strict=True) if count)
                often = min(whole, times - taken, self._openable(kind))
            else:
                here, often = self._filled_up(kind, here, self._order), 1
            self._open(kind, here, often)
            taken += often
        return taken

    def _openable(self, kind: int) -> int:
        charges = zip(self._types[kind].charges, self._budgets, strict=True)
        return min([self._limits[kind], *(int(budget // charge) for charge, budget in charges if charge)])

    def _open(self, kind: int, pattern: Pattern, often: int) -> None:
        self._filled[kind, pattern] = self._filled.get((kind, pattern), 0) + often
        self._left = [left - often * count for left, count in zip(self._left, pattern, strict=True)]
        self._limits[kind] -= often
        self._budgets = [b - often * c for b, c in zip(self._budgets, self._types[kind].charges, strict=True)]

    def _filled_up(self, kind: int, pattern: Pattern, order: Sequence[int]) -> Pattern:
        """Pattern with as many more pods as are left and fit, in this order."""
        node, more = self._types[kind], list(pattern)
        room = node.left(pattern)
        for shape in order:
            copies = min(self._left[shape] - more[shape], node.copies(shape, room))
            if copies > 0:
                more[shape] += copies
                room = node.left(tuple(more))
        really = self._fill(kind, tuple(more))
        covers = all(have >= asked for have, asked in zip(really, pattern, strict=True))
        return really if covers else pattern


@dataclass(frozen=True, slots=True)
class _Duals:
    """Duals of the LP: the cost of one more pod of a shape, and the surcharge of limits and budgets on a node."""

    shapes: tuple[float, ...]
    limits: tuple[float, ...]
    budgets: tuple[float, ...]

    def price_of_node(self, kind: int, node: NodeType) -> float:
        charged = sum(dual * charge for dual, charge in zip(self.budgets, node.charges, strict=True))
        return node.cost - self.limits[kind] - charged


class _Master:
    """LP over the patterns known so far."""

    def __init__(self, shapes: int, types: Sequence[NodeType], budgets: int) -> None:
        import highspy

        self._shapes, self._kinds, self._budgets = shapes, len(types), budgets
        self._endless = highspy.kHighsInf
        self._solver = highspy.Highs()  # type: ignore[no-untyped-call] # its constructor has no types
        for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 0)):
            self._solver.setOptionValue(option, value)
        for _ in range(shapes + len(types) + budgets):
            self._solver.addRow(-self._endless, self._endless, 0, np.zeros(0, np.int32), np.zeros(0))
        dearest = max(node.cost for node in types)
        for shape in range(shapes):
            self._column(_UNSERVED * dearest, {shape: 1.0})
        self._own = shapes

    def add(self, kind: int, node: NodeType, pattern: Pattern) -> None:
        entries = {shape: float(count) for shape, count in enumerate(pattern) if count}
        entries[self._shapes + kind] = 1.0
        entries |= {self._shapes + self._kinds + place: charge for place, charge in enumerate(node.charges) if charge}
        self._column(node.cost, entries)

    def solve(self, left: Sequence[int], limits: Sequence[int], budgets: Sequence[float]) -> tuple[list[float], _Duals]:
        """Multiplicity of each pattern, and the duals."""
        for row, count in enumerate(left):
            self._solver.changeRowBounds(row, float(count), self._endless)
        for row, most in enumerate((*limits, *budgets), start=self._shapes):
            self._solver.changeRowBounds(row, -self._endless, float(most))
        self._solver.run()
        solution = self._solver.getSolution()
        duals = list(solution.row_dual)
        kinds = self._shapes + self._kinds
        return list(solution.col_value)[self._own :], _Duals(
            tuple(duals[: self._shapes]), tuple(duals[self._shapes : kinds]), tuple(duals[kinds:])
        )

    def _column(self, cost: float, entries: dict[int, float]) -> None:
        rows, values = np.array(list(entries), np.int32), np.array(list(entries.values()))
        self._solver.addCol(cost, 0.0, self._endless, len(rows), rows, values)
