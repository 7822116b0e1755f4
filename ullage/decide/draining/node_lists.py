"""Node filters of draining: each narrows the destinations of moved pods and the candidates for removal.

The scheduler alone decides where replacements go. A node that is no destination only counts for no removal trial.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ullage.model.node import Node


class NodeListFilter(Protocol):
    """Filter of nodes. Both methods are called for every plan."""

    def pod_destination_candidates(self, nodes: Sequence[Node]) -> Sequence[Node]:
        """Nodes that pods of removed nodes may be moved to."""
        ...

    def scale_down_candidates(self, nodes: Sequence[Node]) -> Sequence[Node]:
        """Nodes that may be removed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledNodes:
    """Filter by labels: nodes that have all of them; all nodes if none are given."""

    destinations: Mapping[str, str] = field(default_factory=dict)
    candidates: Mapping[str, str] = field(default_factory=dict)

    def pod_destination_candidates(self, nodes: Sequence[Node]) -> Sequence[Node]:
        return [node for node in nodes if self.destinations.items() <= node.labels.items()]

    def scale_down_candidates(self, nodes: Sequence[Node]) -> Sequence[Node]:
        return [node for node in nodes if self.candidates.items() <= node.labels.items()]


def pod_destinations(filters: Sequence[NodeListFilter], nodes: Mapping[str, Node]) -> frozenset[str] | None:
    """Names of nodes pods may be moved to; None for all."""
    if not filters:
        return None
    left: Sequence[Node] = [nodes[name] for name in sorted(nodes)]
    for one in filters:
        left = one.pod_destination_candidates(left)
    return frozenset(node.name for node in left)


def scale_down_candidates(
    filters: Sequence[NodeListFilter], nodes: Mapping[str, Node], among: Collection[str]
) -> frozenset[str]:
    """Names of the nodes in `among` that may be removed."""
    left: Sequence[Node] = [nodes[name] for name in sorted(among) if name in nodes]
    for one in filters:
        left = one.scale_down_candidates(left)
    return frozenset(node.name for node in left)
