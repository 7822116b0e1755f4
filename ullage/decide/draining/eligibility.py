"""Eligibility of nodes for a removal trial: utilisation and named checks in order. The first answer is the reason."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from math import isfinite

import numpy as np
import numpy.typing as npt

from ullage.decide.draining.inputs import DrainInputs, DrainPolicy
from ullage.decide.draining.rules import is_overdue
from ullage.model.device import MOST_DEVICES
from ullage.model.draining import DRAINING_TAINT, UnremovableNode, UnremovableReason
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.provisioner import DELETION_TAINT, PROVISIONER_LABEL
from ullage.model.resources import GPU, MILLI
from ullage.model.units import Instant
from ullage.state.device_columns import NodeKindCode
from ullage.state.node_columns import NodeColumns
from ullage.state.snapshot import ClusterSnapshot

CPU, MEMORY = "cpu", "memory"

Shares = npt.NDArray[np.float64]
Amounts = npt.NDArray[np.int64]


def used_shares(
    snapshot: ClusterSnapshot, policy: DrainPolicy, *, now: Instant
) -> tuple[Shares, npt.NDArray[np.bool_]]:
    """Used share of each row, 0 to 1 or more; and a mask of rows above the threshold of the policy.

    A share equal to the threshold is low enough. A row with nothing allocatable and something in use is infinite.
    """
    columns = snapshot.columns
    left_out = _left_out(snapshot, policy, now)
    gpus = gpu_rows(columns)
    cpu, memory = (_share(columns, name, left_out) for name in (CPU, MEMORY))
    shares = np.where(gpus, _gpu_share(columns, left_out), np.maximum(cpu, memory))
    threshold = np.where(gpus, policy.gpu_used_milli, policy.used_milli)
    if policy.pools_used_milli:
        for name, row in columns.rows.items():
            pool = snapshot.state.nodes[name].labels.get(PROVISIONER_LABEL, "")
            threshold[row] = policy.pools_used_milli.get(pool, threshold[row])
    return shares, shares > threshold / MILLI


def gpu_rows(columns: NodeColumns) -> npt.NDArray[np.bool_]:
    """Mask of nodes that have GPUs, or should: a node whose GPUs are not reported any more is no CPU node."""
    size = columns.size
    offered = columns.allocatable[columns.resource(GPU), :size] > 0
    found: npt.NDArray[np.bool_] = (
        offered | (columns.gpus.exists[:size] > 0) | (columns.gpus.kind[:size] != NodeKindCode.NONE)
    )
    return found


def gpus_used(columns: NodeColumns) -> Amounts:
    """GPUs requested or held on each row, whichever is more, in thousandths. Shares are held and not requested."""
    return np.maximum(columns.used[columns.resource(GPU), : columns.size], _gpus_held(columns))


def _gpus_held(columns: NodeColumns) -> Amounts:
    size = columns.size
    there = (columns.gpus.exists[:size, None] >> np.arange(MOST_DEVICES)) & 1
    held: Amounts = (columns.gpus.held[:size] * there).sum(axis=1, dtype=np.int64)
    return held


def _gpu_share(columns: NodeColumns, left_out: "_LeftOut") -> Shares:
    used, offered = left_out.of(columns, GPU)
    held = _gpus_held(columns)
    for row, milli in left_out.held.items():
        held[row] -= milli
    return _divided(np.maximum(used, held), offered)


def _share(columns: NodeColumns, name: str, left_out: "_LeftOut") -> Shares:
    return _divided(*left_out.of(columns, name))


def _divided(used: Amounts, offered: Amounts) -> Shares:
    nothing = np.where(used > 0, np.inf, 0.0)
    return np.divide(used, offered, out=nothing, where=offered > 0)


@dataclass(slots=True)
class _LeftOut:
    """Amounts, by row, of pods that do not count."""

    used: dict[int, dict[str, int]] = field(default_factory=dict)
    held: dict[int, int] = field(default_factory=dict)
    """Thousandths of exact GPUs."""
    offered: dict[int, dict[str, int]] = field(default_factory=dict)
    """Amounts to be subtracted from allocatable, too."""

    def of(self, columns: NodeColumns, name: str) -> tuple[Amounts, Amounts]:
        """Used and allocatable amounts of a resource on each row, without those of pods that do not count."""
        index, size = columns.resource(name), columns.size
        used, offered = columns.used[index, :size].copy(), columns.allocatable[index, :size].copy()
        for row, amounts in self.used.items():
            used[row] -= amounts.get(name, 0)
        for row, amounts in self.offered.items():
            offered[row] -= amounts.get(name, 0)
        return used, offered


def _left_out(snapshot: ClusterSnapshot, policy: DrainPolicy, now: Instant) -> _LeftOut:
    """Amounts of pods that do not count: overdue pods, and DaemonSet and mirror pods if the policy says so.

    Amounts of DaemonSet and mirror pods are subtracted from allocatable, too. Those of overdue pods are not: other
    pods may use that room later.
    """
    found, rows = _LeftOut(), snapshot.columns.rows
    everybody_counts = policy.count_daemons and policy.count_mirrors
    for pod in snapshot.pods.values():
        if everybody_counts and not pod.deleting:
            continue
        row = rows.get(pod.node)
        stays = not _counts(pod, policy)
        if row is None or not (stays or is_overdue(pod, now=now)):
            continue
        found.held[row] = found.held.get(row, 0) + len(pod.gpu_ids) * pod.gpu_share
        for amounts in (found.used, found.offered) if stays else (found.used,):
            of_row = amounts.setdefault(row, {})
            for name, amount in pod.shape.requests:
                of_row[name] = of_row.get(name, 0) + amount
    return found


def _counts(pod: Pod, policy: DrainPolicy) -> bool:
    kind = "" if pod.owner is None else pod.owner.kind
    if not policy.count_daemons and (pod.marks.daemon or kind == "DaemonSet"):
        return False
    return policy.count_mirrors or not (pod.marks.mirror or kind == "Node")


@dataclass(frozen=True, slots=True)
class EligibilityContext:
    """Inputs of the checks beside the node."""

    facts: DrainInputs
    policy: DrainPolicy
    removing: Collection[str]
    used: Shares
    too_much: Sequence[bool]
    rows: dict[str, int]


Check = Callable[[Node, EligibilityContext], UnremovableNode | None]


CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
"""Labels of control plane nodes. They are never candidates, unless `DrainInputs.candidates` names them."""


def is_draining(node: Node) -> bool:
    """True if the node has the draining taint."""
    return any(taint.key == DRAINING_TAINT for taint in node.taints)


def under_removal(node: Node) -> bool:
    """True if the node is being drained, or is marked for deletion."""
    return any(taint.key in (DRAINING_TAINT, DELETION_TAINT) for taint in node.taints)


def being_removed(node: Node, context: EligibilityContext) -> UnremovableNode | None:
    gone = node.name in context.removing or (under_removal(node) and node.name not in context.facts.resumable)
    return _stays(node, UnremovableReason.BEING_REMOVED) if gone else None


def not_a_candidate(node: Node, context: EligibilityContext) -> UnremovableNode | None:
    ours = context.facts.candidates
    if ours is None:
        taboo = any(label in node.labels for label in CONTROL_PLANE)
        return _stays(node, UnremovableReason.NOT_A_CANDIDATE, "it is the control plane's") if taboo else None
    return None if node.name in ours else _stays(node, UnremovableReason.NOT_A_CANDIDATE)


def scale_down_disabled(node: Node, _: EligibilityContext) -> UnremovableNode | None:
    return _stays(node, UnremovableReason.SCALE_DOWN_DISABLED) if node.kept else None


def unready_stays(node: Node, context: EligibilityContext) -> UnremovableNode | None:
    return None if node.ready or context.policy.unready_go else _stays(node, UnremovableReason.UNREADY_STAYS)


def too_much_used(node: Node, context: EligibilityContext) -> UnremovableNode | None:
    row = context.rows[node.name]
    if not context.too_much[row]:
        return None
    share = context.used.item(row)
    detail = f"{share:.1%} in use" if isfinite(share) else "in use, and it offers nothing any more"
    return _stays(node, UnremovableReason.TOO_MUCH_USED, detail)


def failed_lately(node: Node, context: EligibilityContext) -> UnremovableNode | None:
    why = context.facts.failed.get(node.name)
    return None if why is None else _stays(node, UnremovableReason.FAILED_LATELY, why)


CHECKS: Sequence[Check] = (
    being_removed,
    not_a_candidate,
    scale_down_disabled,
    failed_lately,
    unready_stays,
    too_much_used,
)


def ineligible(node: Node, context: EligibilityContext) -> UnremovableNode | None:
    """Reason why a node is not tried; None if it is eligible."""
    for check in CHECKS:
        answer = check(node, context)
        if answer is not None:
            return answer
    return None


def _stays(node: Node, why: UnremovableReason, detail: str = "") -> UnremovableNode:
    return UnremovableNode(node=node.name, reason=why, detail=detail)
