"""How much of each node is in use, as draining counts it: GPUs alone where there are any, else CPU or memory."""

import numpy as np
import numpy.typing as npt

from ullage.decide.drain.facts import DrainPolicy
from ullage.model.device import MOST_DEVICES
from ullage.model.pod import Pod
from ullage.model.provisioner import PROVISIONER_LABEL
from ullage.model.resources import GPU, MILLI
from ullage.state.columns import Columns
from ullage.state.gpus import Kind
from ullage.state.placements import Placements

CPU, MEMORY = "cpu", "memory"

Shares = npt.NDArray[np.float64]


def used_shares(placements: Placements, policy: DrainPolicy) -> tuple[Shares, npt.NDArray[np.bool_]]:
    """The used part of each row, from 0 to 1 or more; and which rows have more in use than the policy lets go.

    Equal to the threshold is low enough.
    """
    columns = placements.columns
    left_out = _left_out(placements, policy)
    gpus = gpu_rows(columns)
    cpu, memory = (_share(columns, name, left_out) for name in (CPU, MEMORY))
    shares = np.where(gpus, _gpu_share(columns, left_out), np.maximum(cpu, memory))
    threshold = np.where(gpus, policy.gpu_used_milli, policy.used_milli)
    if policy.pools_used_milli:
        for name, row in columns.rows.items():
            pool = placements.state.nodes[name].labels.get(PROVISIONER_LABEL, "")
            threshold[row] = policy.pools_used_milli.get(pool, threshold[row])
    return shares, shares > threshold / MILLI


def gpu_rows(columns: Columns) -> npt.NDArray[np.bool_]:
    """Rows of nodes that have GPUs, or ought to: one whose GPUs are not reported any more is no CPU node by that."""
    size = columns.size
    offered = columns.allocatable[columns.resource(GPU), :size] > 0
    found: npt.NDArray[np.bool_] = offered | (columns.gpus.exists[:size] > 0) | (columns.gpus.kind[:size] != Kind.NONE)
    return found


def gpus_used(columns: Columns) -> npt.NDArray[np.int64]:
    """Thousandths of GPUs requested or held on each row: whichever is more. Shares are held and not requested."""
    size = columns.size
    there = (columns.gpus.exists[:size, None] >> np.arange(MOST_DEVICES)) & 1
    held = (columns.gpus.held[:size] * there).sum(axis=1)
    used: npt.NDArray[np.int64] = np.maximum(columns.used[columns.resource(GPU), :size], held)
    return used


def _gpu_share(columns: Columns, left_out: dict[int, dict[str, int]]) -> Shares:
    used = gpus_used(columns).astype(np.float64)
    offered = columns.allocatable[columns.resource(GPU), : columns.size].astype(np.float64)
    return _divided(used, offered, left_out, GPU)


def _share(columns: Columns, name: str, left_out: dict[int, dict[str, int]]) -> Shares:
    index = columns.resource(name)
    used = columns.used[index, : columns.size].astype(np.float64)
    return _divided(used, columns.allocatable[index, : columns.size].astype(np.float64), left_out, name)


def _divided(used: Shares, offered: Shares, left_out: dict[int, dict[str, int]], name: str) -> Shares:
    for row, amounts in left_out.items():
        used[row] -= amounts.get(name, 0)
        offered[row] -= amounts.get(name, 0)
    return np.divide(used, offered, out=np.zeros(len(used)), where=offered > 0)


def _left_out(placements: Placements, policy: DrainPolicy) -> dict[int, dict[str, int]]:
    """By row, what pods hold that do not count: neither as used nor as there to be used."""
    if policy.count_daemons and policy.count_mirrors:
        return {}
    found: dict[int, dict[str, int]] = {}
    rows = placements.columns.rows
    for pod in placements.pods.values():
        row = rows.get(pod.node)
        if row is not None and not _counts(pod, policy):
            amounts = found.setdefault(row, {})
            for name, amount in pod.shape.requests:
                amounts[name] = amounts.get(name, 0) + amount
    return found


def _counts(pod: Pod, policy: DrainPolicy) -> bool:
    kind = "" if pod.owner is None else pod.owner.kind
    if not policy.count_daemons and (pod.marks.daemon or kind == "DaemonSet"):
        return False
    return policy.count_mirrors or not (pod.marks.mirror or kind == "Node")
