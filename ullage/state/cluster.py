"""One picture of the cluster. `apply(event)` is its only mutator; everything else is read from it.

Sums (what is used on a node) are kept beside the facts they come from and changed with them; `invariants.broken` adds
them up from nothing and compares.
"""

from collections.abc import Mapping
from types import MappingProxyType

from ullage.model.budget import Budget
from ullage.model.event import Appeared, Changed, Event, ObjectKey, Synced, Vanished
from ullage.model.node import Node
from ullage.model.pod import Pod

Fact = Node | Pod | Budget


def holds_resources(pod: Pod) -> bool:
    """A pod counts on its node until it is over; one that is being deleted still does."""
    return bool(pod.node) and not pod.phase.over


class ClusterState:
    """Nodes, pods and budgets as last heard, and who is on which node."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._pods: dict[ObjectKey, Pod] = {}
        self._budgets: dict[ObjectKey, Budget] = {}
        self._on_node: dict[str, dict[ObjectKey, Pod]] = {}
        self._used: dict[str, dict[str, int]] = {}
        self._synced: set[str] = set()

    @property
    def nodes(self) -> Mapping[str, Node]:
        return MappingProxyType(self._nodes)

    @property
    def pods(self) -> Mapping[ObjectKey, Pod]:
        return MappingProxyType(self._pods)

    @property
    def budgets(self) -> Mapping[ObjectKey, Budget]:
        return MappingProxyType(self._budgets)

    @property
    def synced(self) -> frozenset[str]:
        """The sources (resource ids) of which everything has been heard at least once."""
        return frozenset(self._synced)

    def pods_on(self, node: str) -> Mapping[ObjectKey, Pod]:
        """Pods that hold something on this node, whether or not the node itself has been heard of."""
        return MappingProxyType(self._on_node.get(node, {}))

    def used_on(self, node: str) -> Mapping[str, int]:
        """What they hold together, in thousandths. A name without a holder is left out."""
        return MappingProxyType(self._used.get(node, {}))

    def free_on(self, node: str) -> dict[str, int]:
        """What is left of what the node offers; below zero where it was promised twice."""
        used, offered = self._used.get(node, {}), self._nodes[node].allocatable
        left = {name: amount - used.get(name, 0) for name, amount in offered.items()}
        return left | {name: -amount for name, amount in used.items() if name not in offered}

    def apply(self, event: Event[Fact]) -> None:
        """Take in one thing that was heard."""
        match event:
            case Appeared(new=new):
                self._put(new)
            case Changed(old=old, new=new):
                self._take(old)
                self._put(new)
            case Vanished(old=old):
                self._take(old)
            case Synced(source=source):
                self._synced.add(source)

    def _put(self, fact: Fact) -> None:
        match fact:
            case Node():
                self._nodes[fact.name] = fact
            case Budget():
                self._budgets[fact.key] = fact
            case Pod():
                self._pods[fact.key] = fact
                if holds_resources(fact):
                    self._on_node.setdefault(fact.node, {})[fact.key] = fact
                    self._count(fact, +1)

    def _take(self, fact: Fact) -> None:
        match fact:
            case Node():
                self._nodes.pop(fact.name, None)
            case Budget():
                self._budgets.pop(fact.key, None)
            case Pod():
                if self._pods.pop(fact.key, None) is not None and holds_resources(fact):
                    del self._on_node[fact.node][fact.key]
                    self._count(fact, -1)

    def _count(self, pod: Pod, sign: int) -> None:
        used = self._used.setdefault(pod.node, {})
        for name, amount in pod.requests.items():
            used[name] = used.get(name, 0) + sign * amount
            if not used[name]:
                del used[name]
        if not self._on_node[pod.node]:
            del self._on_node[pod.node], self._used[pod.node]
