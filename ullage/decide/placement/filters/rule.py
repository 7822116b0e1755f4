"""Rule records: everything there is to know about one reason for which a pod does not go on a node.

A FilterRule holds its scalar test (with words for people), its vector test, its cure, its advice and its line in
docs/generated/reasons.md. Rules live in the file of their family; no rule is written here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from ullage.decide.placement.filters.codes import Codes
from ullage.model.node import Node
from ullage.model.pod import Pod
from ullage.model.shape import Shape
from ullage.model.verdict import ClusterEvent, Cure, CuredBy, Reason
from ullage.state.snapshot import ClusterSnapshot

if TYPE_CHECKING:
    from ullage.decide.placement.filters.pod_query import PodQuery

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]

Lifted = Callable[[Shape], Shape]
"""A shape without one of its requirements."""


@dataclass(frozen=True, slots=True)
class NodeRejections:
    """One reason, with the number of nodes it holds for and the first of them by name."""

    reason: Reason
    nodes: int
    example: str = ""
    """Empty where the reason is about the pod and not about nodes."""
    detail: str = ""


class RejectionAdviser(Protocol):
    """Questions that advice may ask of the snapshot. Answered in `decide.explain.advice`."""

    def lifting(self, pod: Pod, rejection: NodeRejections, text: str, lifted: Lifted) -> str: ...

    def elsewhere(self, pod: Pod) -> list[str]: ...

    def shortage(self, pod: Pod) -> str: ...

    def larger_node(self, pod: Pod) -> str: ...

    def gpu_node(self, pod: Pod) -> str: ...

    def more_gpus(self, pod: Pod) -> str: ...

    def larger_island(self, pod: Pod) -> str: ...


Advice = Callable[[RejectionAdviser, Pod, NodeRejections], str]
"""Next step for a pod; empty where nothing helps."""


class Reads(Enum):
    """Facts a filter reads, and with that when it is evaluated again."""

    NODE = auto()
    """The Node: again when the row is renewed."""
    ROW = auto()
    """The Node and what is used on its row: again when the row changes."""


class BoundFilter:
    """A rule compiled for one shape on one snapshot."""

    expires = False
    """True if `current` has to be asked: the filter can become outdated by more than changed rows."""

    def rejects(self, rows: Rows) -> Mask:
        """Vector test: the rows that are rejected. Rows without a node may get any answer."""
        raise NotImplementedError

    def rejects_among(self, rows: Rows) -> Mask | None:
        """As `rejects`; None where the filter has nothing to say at present, which spares a mask of all False."""
        return self.rejects(rows)

    def mark(self, codes: Codes, code: int) -> None:
        """Write a code over all rows that are rejected."""
        codes[self.rejects(np.arange(len(codes)))] = code

    def rejects_row(self, row: int, /) -> bool:
        """Vector test of one changed row, which has a node. Plain Python on columns: no NumPy call."""
        raise NotImplementedError

    def current(self) -> bool:
        """False once the rule has to be bound again."""
        return True


class ClusterFilter(Protocol):
    """A rule that looks beyond the row, compiled for one shape on one snapshot."""

    def over(self, codes: Codes | None, pod: Pod) -> Codes | None:
        """Codes, with rejections of this filter where `codes` fit; None stands for codes that all fit."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonInfo:
    """One reason: what could cure it, what to advise, and its words in docs/generated/reasons.md."""

    reason: Reason
    cure: Cure
    words: str
    advice: Advice
    headline: str = ""
    """Sentence on a pod that the nearest nodes refuse for this reason. Without numbers: it stays the same."""
    lasting_headline: str = ""
    """The same where an empty node would refuse it, too, if that differs."""
    nearness: CuredBy | None = None
    """Change that ends the refusal; by default that pods leave if that can help, else that the pod asks otherwise."""

    @property
    def cured_by(self) -> CuredBy:
        if self.nearness is not None:
            return self.nearness
        return CuredBy.ROOM if self.cure.fewer_pods else CuredBy.REQUEST


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterRule(ReasonInfo):
    """Filter that looks at the row alone."""

    reads: Reads
    explain: "Callable[[PodQuery, Node], str | None]"
    """Scalar test: the detail of a rejection, or None if the node passes."""
    bind: Callable[[Shape, ClusterSnapshot], BoundFilter | None]
    """Vector test for a shape; None if the shape does not use the rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRule(ReasonInfo):
    """Filter that looks beyond the row. Two rules may share one vector test, which then gives both reasons."""

    explain: "Callable[[PodQuery, Node], str | None]"
    bind: Callable[[Shape, ClusterSnapshot], ClusterFilter | None]
    shared: bool = False
    """The vector test does not depend on the shape: bound once for all of them."""


def cure(*wakes: ClusterEvent, fewer_pods: bool = False, another_node: bool = False) -> Cure:
    """Cure of a reason about nodes: a new node may always help to find another."""
    return Cure(fewer_pods, another_node, frozenset({ClusterEvent.NODE_APPEARED, *wakes}))


NODE_CHANGES = cure(ClusterEvent.NODE_CHANGED)
ROOM = cure(ClusterEvent.NODE_CHANGED, ClusterEvent.POD_LEFT, fewer_pods=True, another_node=True)
OTHER_PODS = cure(
    ClusterEvent.NODE_CHANGED, ClusterEvent.POD_LEFT, ClusterEvent.POD_ARRIVED, fewer_pods=True, another_node=True
)


def says(text: str) -> Advice:
    """Advice in one sentence, with `{node}`, `{detail}`, `{pod}` and `{claim}` filled in."""

    def advice(_: RejectionAdviser, pod: Pod, rejection: NodeRejections) -> str:
        return text.format(node=rejection.example, detail=rejection.detail, pod=pod.key, claim=claim_named_by(pod))

    return advice


def lifts(text: str, lifted: Lifted) -> Advice:
    """Advice that names the first node which would fit if a requirement were lifted; none where no node would."""
    return lambda adviser, pod, rejection: adviser.lifting(pod, rejection, text, lifted)


def claim_named_by(pod: Pod) -> str:
    """GpuClaim, or template, that a pod names, with its namespace."""
    return f"{pod.key.namespace}/{pod.claim or pod.claim_template}"
