"""Taints and tolerations as controllers read them, and node selection of daemon pods. Pure."""

from collections.abc import Iterable, Sequence

from ullage.kube.objects.node import KubeNode, KubeTaint
from ullage.kube.objects.pod import KubeToleration, NodeSelectorRequirement, NodeSelectorTerm, PodSpec
from ullage.model.selector import Operator, Requirement


def tolerates(toleration: KubeToleration, taint: KubeTaint) -> bool:
    """True if this toleration covers this taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.operator in ("", "Equal") and toleration.value == taint.value


def untolerated(taints: Iterable[KubeTaint], tolerations: Sequence[KubeToleration]) -> list[KubeTaint]:
    """Taints that no toleration covers."""
    return [taint for taint in taints if not any(tolerates(each, taint) for each in tolerations)]


def is_selected(spec: PodSpec, node: KubeNode) -> bool:
    """True if the pod's node selector and required affinity allow this node."""
    labels = node.metadata.labels
    if not spec.node_selector.items() <= labels.items():
        return False
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required if affinity else None
    return required is None or any(_term_matches(term, node) for term in required.node_selector_terms)


def _term_matches(term: NodeSelectorTerm, node: KubeNode) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": node.metadata.name}
    return all(_matches(each, node.metadata.labels) for each in term.match_expressions) and all(
        _matches(each, fields) for each in term.match_fields
    )


def _matches(each: NodeSelectorRequirement, labels: dict[str, str]) -> bool:
    return Requirement(each.key, Operator(each.operator), each.values).matches(labels)
