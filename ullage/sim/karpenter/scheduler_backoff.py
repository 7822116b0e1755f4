"""Back-off of the simulated kube-scheduler: a pod that a node refused twice is tried again after a pause."""

from dataclasses import dataclass

from ullage.model.node import Node, Taint
from ullage.model.pod import Pod
from ullage.state.snapshot import ClusterSnapshot

LONGEST = 10.0

Seen = tuple[tuple[str, tuple[Taint, ...]], ...]


@dataclass(frozen=True, slots=True)
class _Refusal:
    seen: Seen
    """Nodes that the pod selects, with their taints, when it was refused."""
    attempts: int
    at: float


class SchedulerBackoff:
    """Pauses by pod. As kube-scheduler's hints, only a change of a node that the pod selects counts as an attempt.

    The first pause is left out: kube-scheduler takes a pod from its back-off queue while it has nothing else to do.
    """

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._refused: dict[str, _Refusal] = {}

    def until(self, pod: Pod) -> float:
        """Instant from which the pod may be tried."""
        known = self._refused.get(pod.uid)
        if known is None or known.attempts < 2:
            return 0.0
        return known.at + min(LONGEST, 2.0 ** (known.attempts - 1))

    def refused(self, pod: Pod, now: float) -> None:
        """Note that no node took the pod."""
        known, seen = self._refused.get(pod.uid), self._seen(pod)
        if known is None or known.seen != seen:
            self._refused[pod.uid] = _Refusal(seen, 1 if known is None else known.attempts + 1, now)

    def _seen(self, pod: Pod) -> Seen:
        selected = (one for _, one in sorted(self._snapshot.state.nodes.items()) if _selects(pod, one))
        return tuple((one.name, one.taints) for one in selected)


def _selects(pod: Pod, node: Node) -> bool:
    return all(node.labels.get(key) == value for key, value in pod.shape.node_selector)
