"""An exact solver for small packings: every pattern is listed, and an integer program chooses among them."""

from collections.abc import Iterator, Sequence

import highspy
import numpy as np

from ullage.decide.provisioning.patterns import NodeType, Pattern


def bounds(demands: Sequence[int], node: NodeType) -> tuple[float, int]:
    """Nodes of one type that the demands take at least: by the configuration LP, and as an integer program."""
    solver = highspy.Highs()  # type: ignore[no-untyped-call] # its constructor has no types
    solver.setOptionValue("output_flag", False)
    for count in demands:
        solver.addRow(float(count), highspy.kHighsInf, 0, np.zeros(0, np.int32), np.zeros(0))
    for pattern in _maximal(demands, node):
        rows = np.array([shape for shape, count in enumerate(pattern) if count], np.int32)
        counts = np.array([float(count) for count in pattern if count])
        solver.addCol(1.0, 0.0, highspy.kHighsInf, len(rows), rows, counts)
    solver.run()
    bound = solver.getInfo().objective_function_value
    columns = solver.getNumCol()
    whole = np.array([highspy.HighsVarType.kInteger] * columns)
    solver.changeColsIntegrality(columns, np.arange(columns, dtype=np.int32), whole)
    solver.run()
    return bound, round(solver.getInfo().objective_function_value)


def _maximal(demands: Sequence[int], node: NodeType) -> Iterator[Pattern]:
    """Patterns to which no pod can be added; more than a demand may be on a node."""

    def extended(shape: int, taken: Pattern) -> Iterator[Pattern]:
        room = node.left((*taken, *[0] * (len(demands) - shape)))
        most = min(demands[shape], node.copies(shape, room)) if shape < len(demands) else 0
        if shape == len(demands) - 1:
            yield (*taken, most)
            return
        for count in range(most, -1, -1):
            yield from extended(shape + 1, (*taken, count))

    return (pattern for pattern in extended(0, ()) if any(pattern))
