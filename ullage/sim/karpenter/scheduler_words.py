"""Words and choice of the simulated kube-scheduler: Events in its words, and the emptiest node. Pure."""

from collections import Counter
from collections.abc import Sequence

from ullage.clock import Instant
from ullage.decide.placement.filters.codes import FITS, NO_NODE, REASONS
from ullage.decide.placement.filters.table import FilterTable
from ullage.kube.client.resource import JsonObject
from ullage.model.pod import Pod
from ullage.model.verdict import Reason
from ullage.sim.karpenter.objects import SimulatedEvent
from ullage.state.snapshot import ClusterSnapshot

_SAID = {
    Reason.INSUFFICIENT_RESOURCES: "Insufficient resources",
    Reason.NODE_UNSCHEDULABLE: "node(s) were unschedulable",
    Reason.NODE_SELECTOR_MISMATCH: "node(s) didn't match Pod's node affinity/selector",
    Reason.TAINT_NOT_TOLERATED: "node(s) had untolerated taint(s)",
    Reason.NODE_NOT_READY: "node(s) had untolerated taint(s)",
}
"""Reasons in kube-scheduler's words, where it has them."""


def emptiest(snapshot: ClusterSnapshot, names: Sequence[str]) -> str:
    """Node with the largest free part of its CPU and memory, as in the score LeastAllocated; by name among equals."""
    columns = snapshot.columns
    counted = [columns.resource("cpu"), columns.resource("memory")]

    def free(name: str) -> float:
        row = columns.rows[name]
        sizes = [(int(columns.allocatable[one][row]), int(columns.used[one][row])) for one in counted]
        return sum((size - used) / size for size, used in sizes if size)

    return min(names, key=lambda name: (-free(name), name))


def no_node_takes_it(fit: FilterTable, snapshot: ClusterSnapshot, pod: Pod) -> str:
    """Sentence of a pod that fits nowhere: `0/4 nodes are available: 3 Insufficient resources, 1 ...`."""
    codes = [int(code) for code in fit.codes(pod)[: snapshot.columns.size] if code not in (FITS, NO_NODE)]
    counted = Counter(_SAID.get(REASONS[code], f"node(s) refused it ({REASONS[code].value})") for code in codes)
    said = ", ".join(f"{times} {what}" for what, times in sorted(counted.items(), key=lambda one: (-one[1], one[0])))
    return f"0/{len(snapshot.columns.rows)} nodes are available{f': {said}' if said else ''}."


def scheduler_event(by: str, pod: Pod, reason: str, note: str, *, number: int, now: Instant) -> JsonObject:
    """Event about a pod, as kube-scheduler writes it."""
    event = SimulatedEvent("Pod", pod.key, pod.uid, reason, note)
    action = {"Scheduled": "Binding", "Preempted": "Preempting"}.get(reason, "Scheduling")
    return event.body(f"{pod.key.name}.{number:x}", now=now) | {
        "type": "Normal" if reason in ("Scheduled", "Preempted") else "Warning",
        "action": action,
        "reportingController": by,
        "reportingInstance": by,
    }
