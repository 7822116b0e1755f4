"""Selectors of labels, nodes and pods, as Kubernetes writes them, to those that are compared."""

import re
from collections.abc import Mapping, Sequence

from ullage.kube.objects.meta import LabelSelector
from ullage.kube.objects.pod import NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm
from ullage.kube.read.field_error import within
from ullage.model.selector import Operator, Requirement, Selector
from ullage.model.shape_terms import NodeTerm, PodMatcher, PodTerm

_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_INTEGER = re.compile(r"[-+]?[0-9]{1,19}")
_OPERATORS = frozenset(operator.value for operator in Operator)
_PER_FIELD = (Operator.IN, Operator.NOT_IN)


def read_selector(selector: LabelSelector | None) -> Selector | None:
    """None selects nothing; an empty selector selects everything."""
    if selector is None:
        return None
    equal = (Requirement(key, Operator.IN, (value,)) for key, value in sorted(selector.match_labels.items()))
    rules = []
    for index, each in enumerate(selector.match_expressions):
        with within(f"matchExpressions[{index}].operator"):
            rules.append(Requirement(each.key, Operator(each.operator), each.values))
    return Selector((*equal, *rules))


def narrowed(
    selector: Selector | None, labels: Mapping[str, str], same: Sequence[str] = (), other: Sequence[str] = ()
) -> Selector | None:
    """Only pods with the same (or with other) values of these labels as the pod that asks; those it lacks are skipped.

    The API server has written this into most selectors by itself: nothing is said twice.
    """
    if selector is None or not (same or other):
        return selector
    wanted = [Requirement(key, Operator.IN, (labels[key],)) for key in same if key in labels]
    wanted += [Requirement(key, Operator.NOT_IN, (labels[key],)) for key in other if key in labels]
    return Selector((*selector.requirements, *(each for each in wanted if each not in selector.requirements)))


def read_pod_term(term: PodAffinityTerm, namespace: str, labels: Mapping[str, str]) -> PodTerm:
    """A rule about other pods, of a pod in this namespace with these labels."""
    with within("namespaceSelector"):
        places = read_selector(term.namespace_selector)
    with within("labelSelector"):
        selector = read_selector(term.label_selector)
    own = (namespace,) if not term.namespaces and places is None else ()
    return PodTerm(
        topology_key=term.topology_key,
        pods=PodMatcher(
            namespaces=tuple(sorted({*term.namespaces, *own})),
            namespace_selector=places,
            selector=narrowed(selector, labels, term.match_label_keys, term.mismatch_label_keys),
        ),
    )


def read_node_terms(terms: Sequence[NodeSelectorTerm]) -> tuple[NodeTerm, ...]:
    """Those that can hold for a node at all. Empty and malformed terms match nothing, and do not spoil the others."""
    return tuple(read for read in map(read_node_term, terms) if read is not None)


def read_node_term(term: NodeSelectorTerm) -> NodeTerm | None:
    labels = [_label_requirement(each) for each in term.match_expressions]
    fields = [_field_requirement(each) for each in term.match_fields]
    known_labels = tuple(each for each in labels if each is not None)
    known_fields = tuple(each for each in fields if each is not None)
    if len(known_labels) < len(labels) or len(known_fields) < len(fields) or not (labels or fields):
        return None
    return NodeTerm(labels=known_labels, fields=known_fields)


def _label_requirement(raw: NodeSelectorRequirement) -> Requirement | None:
    """None for what Kubernetes takes for malformed."""
    if raw.operator not in _OPERATORS or not _is_label_key(raw.key) or not all(map(_is_label_value, raw.values)):
        return None
    operator, count = Operator(raw.operator), len(raw.values)
    match operator:
        case Operator.IN | Operator.NOT_IN:
            sound = count > 0
        case Operator.EXISTS | Operator.DOES_NOT_EXIST:
            sound = count == 0
        case Operator.GREATER | Operator.LESS:
            sound = count == 1 and _INTEGER.fullmatch(raw.values[0]) is not None
    return Requirement(raw.key, operator, raw.values) if sound else None


def _field_requirement(raw: NodeSelectorRequirement) -> Requirement | None:
    if raw.operator not in _PER_FIELD or len(raw.values) != 1:
        return None
    return Requirement(raw.key, Operator(raw.operator), raw.values)


def _is_label_key(key: str) -> bool:
    domain, slash, name = key.rpartition("/")
    if _NAME.fullmatch(name) is None:
        return False
    return not slash or (len(domain) <= 253 and _DOMAIN.fullmatch(domain) is not None)


def _is_label_value(value: str) -> bool:
    return not value or _NAME.fullmatch(value) is not None
