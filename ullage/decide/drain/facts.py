"""What a loop of the planner is told, what it remembers of the one before, and what it says. Frozen; no decisions."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ullage.model.drain import RecentEviction, Removable, Unremovable, Workload
from ullage.model.event import ObjectKey


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSwitches:
    """Which pods keep their node, where that is a matter of taste."""

    system_pods_stay: bool = True
    """Pods of kube-system without a disruption budget."""
    local_storage_stays: bool = True
    """Pods with data on their node."""
    custom_controllers_stay: bool = True
    """Pods of controllers that are none of Kubernetes' own; and whether a pod's own must be there at all."""
    min_replicas: int = 0
    """ReplicaSets with fewer keep their pods where they are."""
    system_pod_grace: float = 3600.0
    """Seconds after which a pod of kube-system may move after all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainPolicy:
    """When a node may go. Shares are in thousandths, times in seconds."""

    used_milli: int = 500
    """CPU or memory in use, up to which a node is a candidate."""
    gpu_used_milli: int = 500
    """The same of nodes with GPUs, of GPUs alone."""
    pools_used_milli: Mapping[str, int] = field(default_factory=dict)
    """The same of nodes of pools that have a threshold of their own, by the pool's name."""
    count_daemons: bool = True
    """Whether what DaemonSets use counts as use."""
    count_mirrors: bool = True
    unready_go: bool = True
    in_turn: bool = False
    """A node may have more pods under a disruption budget than may go at once, if no other node needs that budget."""
    recheck: float = 300.0
    """How long a node is left alone whose pods had no place."""
    evictions_kept: float = 120.0
    """How long an evicted pod that is not back yet is looked after."""
    rules: RuleSwitches = field(default_factory=RuleSwitches)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFloor:
    """How small a pool may become."""

    nodes: int
    """It has, those that are being removed left out."""
    least: int = 0
    least_empty: int = 0
    """Empty nodes it keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainFacts:
    """What is known beside the picture."""

    candidates: Collection[str] | None = None
    """Nodes that may be removed; None for all but those of the control plane."""
    removing: Collection[str] = ()
    """Nodes whose removal has begun."""
    resumable: Collection[str] = ()
    """Nodes whose taint says that they are being removed, and nobody does: judged as if they had none."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Nodes that could not be removed a moment ago, and why."""
    pools: Mapping[str, PoolFloor] = field(default_factory=dict)
    """By name."""
    least_nodes: int = 0
    """The cluster keeps."""
    workloads: Mapping[str, Workload] = field(default_factory=dict)
    """By uid."""
    workload_kinds: Collection[str] = frozenset()
    """Kinds of which `workloads` has all there are: one that is not in it is gone."""
    evictions: Sequence[RecentEviction] = ()
    prices: Mapping[str, int] = field(default_factory=dict)
    """Of nodes, in millionths per hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainMemory:
    """What one loop leaves to the next. A process that starts has none, and loses no timer by it: see `timers`."""

    hints: Mapping[ObjectKey, str] = field(default_factory=dict)
    """Where pods would have gone in the last loop."""
    older_hints: Mapping[ObjectKey, str] = field(default_factory=dict)
    refused: Mapping[str, tuple[float, Unremovable]] = field(default_factory=dict)
    """Nodes whose pods had no place, and when that was."""
    since: Mapping[str, float] | None = None
    """Since when nodes are candidates, those among them that were not reached this time; None before the first loop."""


FRESH = DrainMemory()


def always() -> bool:
    """There is always time."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a loop may look."""

    still_time: Callable[[], bool] = always
    least_tried: int = 10
    """Nodes that are tried whatever the time."""
    most_candidates: int | None = None


UNLIMITED = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainPlan:
    """An answer for every node."""

    removable: tuple[Removable, ...]
    """In the order they were found. All of them can go together."""
    unremovable: tuple[Unremovable, ...]
    """By name."""
    budgets_left: Mapping[ObjectKey, int]
    """Evictions each disruption budget has left when all of them go."""
    memory: DrainMemory
