"""Settings of draining. Settings of one pool are in its NodeProvisioner."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ullage.act.node_removal import DrainPace
from ullage.decide.draining.inputs import DrainPolicy, NodeListFilter, PlannerSettings, RemovalPacing
from ullage.model.lease import LEASE_NAMESPACE


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainingSettings:
    """Settings of draining for all pools. Times are in seconds."""

    unmanaged: bool = False
    """Drain nodes of no NodeProvisioner, too."""
    unneeded: float = 600.0
    """Time nodes of no NodeProvisioner must be candidates before removal. Pools have their own."""
    unready: float = 1200.0
    most_at_once: int = 100
    """Nodes removed at once, of all pools together."""
    most_drains: int = 50
    """Nodes with pods to evict among them. If equal to `most_at_once`, drains can block removals of empty nodes."""
    least_nodes: int = 0
    """Minimum number of nodes of the cluster."""
    least_resources: Mapping[str, int] = field(default_factory=dict)
    """Minimum allocatable of all nodes together, in thousandths by resource."""
    node_filters: tuple[NodeListFilter, ...] = ()
    """Filters of destinations and candidates, applied in order."""
    lease_namespace: str = LEASE_NAMESPACE
    """Namespace of GPU Leases. Holders that are not bound yet are incoming pods."""
    policy: DrainPolicy = field(default_factory=DrainPolicy)
    pace: DrainPace = field(default_factory=DrainPace)
    after_failure: float = 180.0
    """Time before a node whose removal failed is tried again."""
    pause: float = 5.0
    """Minimum time between two plans: events come in bursts."""
    plan_seconds: float = 10.0
    """Time one plan may search for candidates."""
    least_tried: int = 10
    """Nodes every plan tries, even when its time is over."""
    most_marks: int = 50
    """Soft taints written or removed in one loop."""
    at_once: int = 16
    """Concurrent writes to Nodes."""

    def __post_init__(self) -> None:
        if not 0 <= self.most_drains <= self.most_at_once:
            raise ValueError(f"drains cannot be more than all removals: {self.most_drains}, {self.most_at_once}")

    @property
    def planner(self) -> PlannerSettings:
        """Settings of DrainCore."""
        return PlannerSettings(
            policy=self.policy,
            pacing=RemovalPacing(
                unneeded=self.unneeded,
                unready=self.unready,
                most_at_once=self.most_at_once,
                most_drains=self.most_drains,
            ),
            least_nodes=self.least_nodes,
            least_resources=self.least_resources,
            node_filters=self.node_filters,
            after_failure=self.after_failure,
            max_soft_taints=self.most_marks,
        )
