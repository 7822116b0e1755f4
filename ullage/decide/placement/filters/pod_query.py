"""PodQuery: one pod, filtered on one node after another. Counts that all nodes share are made once."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from ullage.decide.placement.filters.node_terms import tolerates_all, wants
from ullage.decide.placement.filters.volume_requirements import VolumeRequirements, mounts_of
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.shape_terms import PodTerm, SpreadConstraint
from ullage.state.snapshot import ClusterSnapshot

Places = dict[tuple[str, str], int]
"""Pods by topology key and value."""


@dataclass(frozen=True, slots=True)
class TopologyDomains:
    """Pods by value of a node label, as one spread constraint counts them."""

    constraint: SpreadConstraint
    pods: dict[str, int]
    """By value; a domain without pods has 0."""

    @property
    def least(self) -> int:
        enough = self.pods and len(self.pods) >= self.constraint.min_domains
        return min(self.pods.values()) if enough else 0


class PodQuery:
    """Filter input for one pod. The pod must not hold room: remove a placed pod in a what-if first."""

    def __init__(self, pod: Pod, snapshot: ClusterSnapshot) -> None:
        self.pod = pod
        self.shape = pod.shape
        self.snapshot = snapshot

    def pods_on(self, node: Node) -> Collection[Pod]:
        return self.snapshot.pods_on(node.name).values()

    @cached_property
    def mounts(self) -> VolumeRequirements:
        return mounts_of(self.shape, self.snapshot.storage)

    @cached_property
    def spread(self) -> tuple[TopologyDomains, ...]:
        """Domains of each hard spread constraint."""
        hard = [constraint for constraint in self.shape.spread if constraint.hard]
        keys = {constraint.topology_key for constraint in hard}
        nodes = [node for node in self.snapshot.state.nodes.values() if keys <= node.labels.keys()]
        return tuple(self._domains(constraint, nodes) for constraint in hard)

    def _domains(self, constraint: SpreadConstraint, nodes: list[Node]) -> TopologyDomains:
        pods: dict[str, int] = {}
        counted = constraint.counted(self.shape.namespace)
        for node in nodes:
            if constraint.honors_affinity and not wants(self.shape, node):
                continue
            if constraint.honors_taints and not tolerates_all(self.shape, node):
                continue
            value = node.labels[constraint.topology_key]
            matching = sum(
                1
                for pod in self.pods_on(node)
                if not pod.deleting and counted.matches(pod.key.namespace, pod.labels, {})
            )
            pods[value] = pods.get(value, 0) + matching
        return TopologyDomains(constraint, pods)

    @cached_property
    def near(self) -> Places:
        """Places of pods that match all terms of the pod's required affinity."""
        terms = self.shape.near
        return self._places(lambda pod: terms if all(self.meant(term, pod) for term in terms) else ())

    @cached_property
    def away(self) -> Places:
        """Places of pods that match a term of the pod's required anti-affinity."""
        return self._places(lambda pod: [term for term in self.shape.away if self.meant(term, pod)])

    @cached_property
    def refused(self) -> Places:
        """Places of pods whose own required anti-affinity matches this pod."""
        return self._places(lambda pod: [term for term in pod.shape.away if self.meant(term, self.pod)])

    def _places(self, terms_of: Callable[[Pod], Iterable[PodTerm]]) -> Places:
        found: Places = {}
        for node in self.snapshot.state.nodes.values():
            for pod in self.pods_on(node):
                for term in terms_of(pod):
                    value = node.labels.get(term.topology_key)
                    if value is not None:
                        found[term.topology_key, value] = found.get((term.topology_key, value), 0) + 1
        return found

    def meant(self, term: PodTerm, pod: Pod) -> bool:
        labels = self.snapshot.state.namespace_labels(pod.key.namespace)
        return term.pods.matches(pod.key.namespace, pod.labels, labels)
