"""Parts of a pod's shape: tolerations, node terms, host ports, pod affinity, spread constraints, volume claims.

Each part compares itself with one thing it speaks of, exactly as kube-scheduler compares. Nothing here knows a cluster.
"""

from collections.abc import Iterable, Mapping

import msgspec

from ullage.model.fact_event import ObjectKey
from ullage.model.node import Taint
from ullage.model.selector import Requirement, Selector

ANY_ADDRESS = "0.0.0.0"  # a host port on all addresses, as Kubernetes writes it
NODE_NAME_FIELD = "metadata.name"

Pairs = tuple[tuple[str, str], ...]
"""Mapping that can be part of a shape: sorted by key."""


class ShapePart(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Base of all parts: hashable, and compact when serialized."""


class Toleration(ShapePart, frozen=True, gc=False, kw_only=True):
    """Taints that do not keep the pod off. An empty key or effect stands for all of them."""

    key: str = ""
    value: str = ""
    effect: str = ""
    exists: bool = False
    """Any value is tolerated."""

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.exists or self.value == taint.value


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(toleration.tolerates(taint) for toleration in tolerations)


class NodeTerm(ShapePart, frozen=True, gc=False, kw_only=True):
    """Conditions on one node, all of which must hold. A term without conditions holds for no node."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    """Conditions on `metadata.name`, the only field there is; any other reads as empty."""

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """True if all conditions hold. With an empty `name` only labels count, as for the affinity of volumes."""
        if not self.labels and not self.fields:
            return False
        if not all(requirement.matches(labels) for requirement in self.labels):
            return False
        return not name or all(_field_matches(requirement, name) for requirement in self.fields)


def _field_matches(requirement: Requirement, name: str) -> bool:
    value = name if requirement.key == NODE_NAME_FIELD else ""
    return requirement.matches({requirement.key: value})


def any_matches(terms: Iterable[NodeTerm], labels: Mapping[str, str], name: str = "") -> bool:
    """True if any term matches: terms are alternatives. Without terms, False."""
    return any(term.matches(labels, name) for term in terms)


class WeightedNodeTerm(ShapePart, frozen=True, gc=False, kw_only=True):
    weight: int
    term: NodeTerm


class HostPort(ShapePart, frozen=True, gc=False, kw_only=True):
    """Port of the node itself."""

    port: int
    protocol: str = "TCP"
    address: str = ANY_ADDRESS

    def conflicts(self, other: "HostPort") -> bool:
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return self.address == other.address or ANY_ADDRESS in (self.address, other.address)

    def __str__(self) -> str:
        return f"{self.protocol} {self.address}:{self.port}"


class PodMatcher(ShapePart, frozen=True, gc=False, kw_only=True):
    """Selection of other pods: in these namespaces, or in namespaces with these labels, and with these labels."""

    namespaces: tuple[str, ...] = ()
    namespace_selector: Selector | None = None
    """None selects no namespace beyond those named."""
    selector: Selector | None = None
    """None selects no pod."""
    leaving_too: bool = True
    """True if pods that are being deleted count."""

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        if self.selector is None or not self.selector.matches(labels):
            return False
        if namespace in self.namespaces:
            return True
        return self.namespace_selector is not None and self.namespace_selector.matches(namespace_labels)


class PodTerm(ShapePart, frozen=True, gc=False, kw_only=True):
    """Affinity to certain pods. `topology_key` is the node label whose values are the domains."""

    topology_key: str
    pods: PodMatcher


class WeightedPodTerm(ShapePart, frozen=True, gc=False, kw_only=True):
    """Preferred pod affinity. A weight below zero is a preferred anti-affinity."""

    weight: int
    term: PodTerm


class SpreadConstraint(ShapePart, frozen=True, gc=False, kw_only=True):
    """Bound on how unevenly pods like this one are spread over the values of a label."""

    topology_key: str
    max_skew: int = 1
    hard: bool = True
    """A violation refuses the node; otherwise it only lowers the node's score."""
    selector: Selector | None = None
    """None selects no pod; an empty one counts no pod that is there, and yet selects the pod itself."""
    min_domains: int = 1
    honors_affinity: bool = True
    """Nodes the pod's node selector refuses are no domains."""
    honors_taints: bool = False
    """Nodes with taints the pod does not tolerate are no domains."""

    def counted(self, namespace: str) -> PodMatcher:
        """Pods that are counted. Those being deleted are not."""
        selector = self.selector if self.selector is not None and self.selector.requirements else None
        return PodMatcher(namespaces=(namespace,), selector=selector, leaving_too=False)

    def counts_itself(self, labels: Mapping[str, str]) -> bool:
        return self.selector is not None and self.selector.matches(labels)


class ClaimUse(ShapePart, frozen=True, gc=False, kw_only=True):
    """PersistentVolumeClaim the pod mounts. `owner` is the pod's uid where the claim must be its own (ephemeral)."""

    claim: ObjectKey
    owner: str = ""
