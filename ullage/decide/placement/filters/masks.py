"""Masks of rows that have what a shape asks of a node: vector form of `filters.node`."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ullage.decide.placement.filters.node_terms import untolerated
from ullage.model.selector import Operator, Requirement
from ullage.model.shape import Shape
from ullage.model.shape_terms import NODE_NAME_FIELD, NodeTerm
from ullage.state.label_columns import LabelColumn
from ullage.state.node_columns import NodeCondition
from ullage.state.snapshot import ClusterSnapshot

Mask = npt.NDArray[np.bool_]


def all_rows(snapshot: ClusterSnapshot) -> Mask:
    return np.ones(snapshot.columns.size, np.bool_)


def wanted(shape: Shape, snapshot: ClusterSnapshot) -> Mask:
    """Rows whose labels and name suit the shape's node selector and required affinity."""
    mask = all_rows(snapshot)
    for key, value in shape.node_selector:
        mask &= has_label(snapshot, Requirement(key, Operator.IN, (value,)))
    if shape.node_affinity is not None:
        mask &= any_term(shape.node_affinity, snapshot)
    return mask


def any_term(terms: tuple[NodeTerm, ...], snapshot: ClusterSnapshot, *, names: bool = True) -> Mask:
    """Rows for which some term holds. Without `names`, requirements on the node's name are skipped."""
    found = ~all_rows(snapshot)
    for term in terms:
        if not term.labels and not term.fields:
            continue
        mask = all_rows(snapshot)
        for requirement in term.labels:
            mask &= has_label(snapshot, requirement)
        for requirement in term.fields if names else ():
            mask &= _has_name(snapshot, requirement)
        found |= mask
    return found


def has_label(snapshot: ClusterSnapshot, requirement: Requirement) -> Mask:
    """Rows whose label meets the requirement."""
    column = snapshot.labels.column(requirement.key)
    codes = column.codes[: snapshot.columns.size]
    match requirement.operator:
        case Operator.IN:
            return _is_one_of(column, codes, requirement.values)
        case Operator.NOT_IN:
            return ~_is_one_of(column, codes, requirement.values)
        case Operator.EXISTS:
            return codes >= 0
        case Operator.DOES_NOT_EXIST:
            return codes < 0
        case Operator.GREATER | Operator.LESS:
            holds: Mask = np.zeros(len(column.values) + 1, np.bool_)  # the last place is for rows without the label
            for value, code in column.values.items():
                holds[code] = requirement.matches({requirement.key: value})
            found: Mask = holds[codes]
            return found


def _is_one_of(column: LabelColumn, codes: npt.NDArray[np.int32], values: tuple[str, ...]) -> Mask:
    known = [code for code in map(column.values.get, values) if code is not None]
    if not known:
        return np.zeros(len(codes), np.bool_)
    found: Mask = codes == known[0] if len(known) == 1 else np.isin(codes, known)
    return found


def _has_name(snapshot: ClusterSnapshot, requirement: Requirement) -> Mask:
    """Rows whose name meets the requirement. Any field but the name reads as empty on every node."""
    rows = snapshot.columns.rows
    mask = ~all_rows(snapshot)
    if requirement.key != NODE_NAME_FIELD:
        mask[:] = "" in requirement.values
    else:
        mask[[rows[name] for name in requirement.values if name in rows]] = True
    return mask if requirement.operator is Operator.IN else ~mask


def tolerable(shape: Shape, snapshot: ClusterSnapshot) -> Mask:
    """Rows without a NoSchedule or NoExecute taint that the shape does not tolerate."""
    return by_condition(snapshot, lambda condition: untolerated(shape, condition.taints) is None)


def by_condition(snapshot: ClusterSnapshot, holds: Callable[[NodeCondition], bool]) -> Mask:
    """Rows whose nodes are in a condition that holds, which is asked once for each condition."""
    columns = snapshot.columns
    found = np.zeros(max(len(columns.known_conditions), 1), np.bool_)
    for condition, code in columns.known_conditions.items():
        found[code] = holds(condition)
    mask: Mask = found.take(columns.conditions[: columns.size])
    return mask
