"""Intents of draining."""

from dataclasses import dataclass

from ullage.model.draining import PodMove, ScaleDownReason
from ullage.model.units import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkDeletionCandidate:
    """Put the soft taint on a node, so that pods go elsewhere if they can."""

    node: str
    since: Instant
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanDeletionCandidate:
    """Take the soft taint off a node."""

    node: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveNode:
    """Taint the node, check it again, evict the listed pods and no others, then delete it."""

    node: str
    reason: ScaleDownReason
    evict: tuple[PodMove, ...]
    why: str


DrainIntent = MarkDeletionCandidate | CleanDeletionCandidate | RemoveNode
