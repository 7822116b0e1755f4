"""Removal plan of a node with its assumptions, and the violations found before it is carried out."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ullage.model.fact_event import ObjectKey
from ullage.model.intents import RemoveNode
from ullage.model.outcomes import RemovalFailure
from ullage.model.pod import Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalPlan:
    """Removal of a node, with the assumptions it was planned on."""

    intent: RemoveNode
    uid: str
    """Uid of the node."""
    pods: Mapping[ObjectKey, str] = field(default_factory=dict)
    """Uids of the pods that may be evicted or, of VMs, migrated. No others may."""
    gangs: Mapping[ObjectKey, tuple[ObjectKey, ...]] = field(default_factory=dict)
    """Gangs among them, whose members are evicted together or not at all."""
    has_vms: bool = False
    """True if some of them run VMs."""
    owned: bool = True
    """True if the node is of a pool: its instance is deleted. Otherwise the empty node is left to its owner."""

    @property
    def node(self) -> str:
        return self.intent.node

    def knows(self, pod: Pod) -> bool:
        return self.pods.get(pod.key) == pod.uid


@dataclass(frozen=True, slots=True)
class PlanViolation:
    """Assumption of a removal plan that no longer holds."""

    failure: RemovalFailure
    detail: str
    pod: ObjectKey | None = None

    @property
    def waits_for_budget(self) -> bool:
        """True if no pod was evicted and the node only waits for a disruption budget: it stays a candidate."""
        return self.failure is RemovalFailure.BUDGET_SPENT
