"""Preemption of the simulated kube-scheduler: victims of lower priority, and room kept for nominated pods. Pure."""

from collections.abc import Iterable, Iterator

from ullage.decide.placement.filters.codes import FITS
from ullage.decide.placement.filters.table import FilterTable
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.state.snapshot import ClusterSnapshot


def fitting_nodes(fit: FilterTable, snapshot: ClusterSnapshot, pod: Pod) -> list[str]:
    """Nodes that fit the pod beside the pods nominated to them whose priority is not lower, by name."""
    nominated = [one for one in _nominated(snapshot) if one.key != pod.key and one.priority >= pod.priority]
    with snapshot.what_if():
        for one in nominated:
            snapshot.assume(one, one.nominated)
        return list(_fitting(fit, snapshot, pod))


def victims_on(fit: FilterTable, snapshot: ClusterSnapshot, pod: Pod, node: str) -> list[Pod]:
    """Pods of lower priority without which the pod fits on the node, lowest first; empty where none would help."""
    lower = sorted(
        (one for one in snapshot.pods_on(node).values() if one.priority < pod.priority),
        key=lambda one: (one.priority, one.key),
    )
    found: list[Pod] = []
    with snapshot.what_if():
        for one in lower:
            snapshot.forget(one.key)
            found.append(one)
            if node in _fitting(fit, snapshot, pod):
                return found
    return []


def choose_victims(fit: FilterTable, snapshot: ClusterSnapshot, pod: Pod) -> tuple[str, list[Pod]] | None:
    """Node with the fewest victims, by name among equals; None if no preemption helps."""
    if not pod.preempts:
        return None
    found = [(name, victims_on(fit, snapshot, pod, name)) for name in sorted(snapshot.columns.rows)]
    return min(
        ((name, all_of) for name, all_of in found if all_of), key=lambda one: (len(one[1]), one[0]), default=None
    )


def _fitting(fit: FilterTable, snapshot: ClusterSnapshot, pod: Pod) -> Iterator[str]:
    codes, columns = fit.codes(pod), snapshot.columns
    yield from sorted(columns.names[row] for row in range(columns.size) if columns.names[row] and codes[row] == FITS)


def _nominated(snapshot: ClusterSnapshot) -> Iterable[Pod]:
    placed: set[ObjectKey] = set(snapshot.pods)
    return [
        one for one in snapshot.state.pods.values() if one.nominated in snapshot.columns.rows and one.key not in placed
    ]
