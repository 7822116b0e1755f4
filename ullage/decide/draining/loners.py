"""Batchable pods: no GPU, volume, host port or affinity, and counted by no other pod's rule.

They are moved as a number per row. All other pods are moved one by one, with all filters.
"""

from collections.abc import Callable, Iterable, Mapping

from ullage.decide.placement.engine import device_ask
from ullage.model.pod import Pod
from ullage.model.shape import Shape
from ullage.model.shape_terms import PodMatcher
from ullage.state.pod_counts import SelectorIndex


class BatchablePods:
    """Test for batchable pods, by the affinity terms and hard spread constraints of all given pods."""

    def __init__(self, pods: Iterable[Pod], namespace_labels: Callable[[str], Mapping[str, str]]) -> None:
        self._namespace_labels = namespace_labels
        self._shapes: dict[Shape, bool] = {}
        self._filters: SelectorIndex[PodMatcher] = SelectorIndex()
        self._anybody_counts = False
        self.spreads = False
        """True if any pod has a hard spread constraint."""
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
