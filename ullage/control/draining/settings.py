"""What an operator chooses for draining. What belongs to one pool is in its NodeProvisioner."""

from dataclasses import dataclass, field

from ullage.act.drain import DrainPace
from ullage.decide.drain.facts import DrainPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainingSettings:
    """Times in seconds."""

    unmanaged: bool = False
    """Whether nodes of no NodeProvisioner are drained, too."""
    unneeded: float = 600.0
    """How long those must have been candidates; pools say it themselves."""
    unready: float = 1200.0
    most_at_once: int = 100
    """Nodes being removed at once, of all pools together."""
    most_drains: int = 50
    """Of them, nodes with pods to evict. Fewer than `most_at_once`."""
    least_nodes: int = 0
    """Nodes the cluster keeps in all."""
    lease_namespace: str = "ullage-system"
    """Where the Leases of GPUs are: who holds one is about to come."""
    policy: DrainPolicy = field(default_factory=DrainPolicy)
    pace: DrainPace = field(default_factory=DrainPace)
    after_failure: float = 180.0
    """How long a node is left alone that could not be removed."""
    pause: float = 5.0
    """Between two plans at least: news come in crowds."""
    plan_seconds: float = 10.0
    """How long one plan may look for candidates."""
    least_tried: int = 10
    """Nodes every plan looks at, whatever the time."""
    most_marks: int = 50
    """Soft taints put on or taken off in one loop."""
    at_once: int = 16
    """Writes on nodes under way at the same time."""

    def __post_init__(self) -> None:
        if not 0 <= self.most_drains < self.most_at_once:
            raise ValueError(f"drains must be fewer than all removals: {self.most_drains}, {self.most_at_once}")
