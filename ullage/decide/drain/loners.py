"""Which pods take up room on their node and mean nothing else to anybody: those can be moved by the dozen.

Whoever is counted by a rule about other pods, has a port, a volume or a GPU is moved one at a time, by all the rules.
"""

from collections.abc import Callable, Iterable, Mapping

from ullage.decide.seat.deciding import device_ask
from ullage.model.pod import Pod
from ullage.model.shape import Shape
from ullage.model.terms import PodFilter
from ullage.state.tally import SelectorIndex


class Loners:
    """Knows them by the rules of all pods there are."""

    def __init__(self, pods: Iterable[Pod], namespace_labels: Callable[[str], Mapping[str, str]]) -> None:
        self._namespace_labels = namespace_labels
        self._shapes: dict[Shape, bool] = {}
        self._filters: SelectorIndex[PodFilter] = SelectorIndex()
        self._anybody_counts = False
        self.spreads = False
        """Whether any pod has a hard spread constraint."""
        for shape in dict.fromkeys(pod.shape for pod in pods):
            hard = [constraint for constraint in shape.spread if constraint.hard]
            self.spreads = self.spreads or bool(hard)
            counted = [constraint.counted(shape.namespace) for constraint in hard]
            for pods_meant in (*(term.pods for term in (*shape.near, *shape.away)), *counted):
                self._filters.add(pods_meant.selector, pods_meant)
                self._anybody_counts = True

    def __contains__(self, pod: Pod) -> bool:
        plain = self._shapes.get(pod.shape)
        if plain is None:
            plain = self._shapes[pod.shape] = _plain(pod)
        if not plain or pod.gpu_ids or pod.device_claims:
            return False
        return not self._anybody_counts or not self._counted(pod)

    def _counted(self, pod: Pod) -> bool:
        namespace = pod.key.namespace
        places = self._namespace_labels(namespace)
        meant = self._filters.candidates(pod.labels)
        return any(each.matches(namespace, pod.labels, places) for each in meant)


def _plain(pod: Pod) -> bool:
    shape = pod.shape
    if shape.host_ports or shape.near or shape.away or shape.claims or device_ask(pod) is not None:
        return False
    return not any(constraint.hard for constraint in shape.spread)
