"""Inputs, settings, memory and result of one planner run. Records and node filters; no decisions."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ullage.config.settings import DrainingSettings
from ullage.config.vms import VmSettings
from ullage.decide.vms.rest import MigrationStarts
from ullage.model.draining import RecentEviction, RemovableNode, UnremovableNode, WorkloadReplicas
from ullage.model.fact_event import ObjectKey
from ullage.model.node import Node
from ullage.model.resources import GIB, GPU, MILLI
from ullage.model.units import Instant, Milli, Seconds


class NodeListFilter(Protocol):
    """Filter of nodes. Both methods are called for every plan."""

    def pod_destination_candidates(self, nodes: Sequence[Node]) -> Sequence[Node]:
        """Nodes that pods of removed nodes may be moved to."""
        ...

    def scale_down_candidates(self, nodes: Sequence[Node]) -> Sequence[Node]:
        """Nodes that may be removed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledNodes:
    """Filter by labels: nodes that have all of them; all nodes if none are given."""

    destinations: Mapping[str, str] = field(default_factory=dict)
    candidates: Mapping[str, str] = field(default_factory=dict)

    def pod_destination_candidates(self, nodes: Sequence[Node]) -> Sequence[Node]:
        return [node for node in nodes if self.destinations.items() <= node.labels.items()]

    def scale_down_candidates(self, nodes: Sequence[Node]) -> Sequence[Node]:
        return [node for node in nodes if self.candidates.items() <= node.labels.items()]


def pod_destinations(filters: Sequence[NodeListFilter], nodes: Mapping[str, Node]) -> frozenset[str] | None:
    """Names of nodes pods may be moved to; None for all."""
    if not filters:
        return None
    left: Sequence[Node] = [nodes[name] for name in sorted(nodes)]
    for one in filters:
        left = one.pod_destination_candidates(left)
    return frozenset(node.name for node in left)


def scale_down_candidates(
    filters: Sequence[NodeListFilter], nodes: Mapping[str, Node], among: Collection[str]
) -> frozenset[str]:
    """Names of the nodes in `among` that may be removed."""
    left: Sequence[Node] = [nodes[name] for name in sorted(among) if name in nodes]
    for one in filters:
        left = one.scale_down_candidates(left)
    return frozenset(node.name for node in left)


_USUAL, _VMS = DrainingSettings(), VmSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSwitches:
    """Switches of the drain rules an operator may change: pods that keep their node."""

    system_pods_stay: bool = _USUAL.skip_nodes_with_system_pods
    """Pods of kube-system without a disruption budget stay."""
    local_storage_stays: bool = _USUAL.skip_nodes_with_local_storage
    """Pods with local volumes stay."""
    custom_controllers_stay: bool = _USUAL.skip_nodes_with_custom_controller_pods
    """Pods of controllers other than Kubernetes' own stay. Also, a pod's controller must exist and be large enough."""
    min_replicas: int = _USUAL.min_replica_count
    """Pods of ReplicaSets and ReplicationControllers with fewer replicas stay."""
    system_pod_timeout: Seconds = _USUAL.system_pod_timeout
    """Age in seconds after which a pod of kube-system may move all the same."""
    evict_vms: bool = _USUAL.evict_vms
    """Pods of VMs that may not be migrated are evicted."""
    vm_rest: Seconds = _VMS.migration_cooldown
    """Time from the start of a VM's migration until it may be migrated again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainPolicy:
    """Conditions for removing a node. Shares are in thousandths, times in seconds."""

    used_milli: Milli = Milli(round(_USUAL.utilization_threshold * 1000))
    """Highest used share of CPU or memory at which a node is a candidate."""
    gpu_used_milli: Milli = Milli(round(_USUAL.gpu_utilization_threshold * 1000))
    """Highest used share of GPUs, for nodes with GPUs; their CPU and memory do not count."""
    pools_used_milli: Mapping[str, Milli] = field(default_factory=dict)
    """Highest used share by pool name, for pools with a threshold of their own."""
    count_daemons: bool = not _USUAL.ignore_daemonsets_utilization
    """Requests of DaemonSet pods count as used."""
    count_mirrors: bool = not _USUAL.ignore_mirror_pods_utilization
    unready_go: bool = _USUAL.scale_down_unready
    in_turn: bool = _USUAL.allow_serial_eviction
    """Allow a node with more pods under one disruption budget than it allows at once, if no other removal needs it."""
    recheck: Seconds = _USUAL.unremovable_recheck_timeout
    """Time before a node whose pods had no place is tried again."""
    evictions_kept: Seconds = _USUAL.recent_eviction_window
    """Time an evicted pod without a replacement keeps its place reserved in drain plans."""
    rules: RuleSwitches = field(default_factory=RuleSwitches)

    @classmethod
    def of(cls, settings: DrainingSettings, vms: VmSettings = _VMS) -> "DrainPolicy":
        """Policy of these settings."""
        return cls(
            used_milli=Milli(round(settings.utilization_threshold * 1000)),
            gpu_used_milli=Milli(round(settings.gpu_utilization_threshold * 1000)),
            count_daemons=not settings.ignore_daemonsets_utilization,
            count_mirrors=not settings.ignore_mirror_pods_utilization,
            unready_go=settings.scale_down_unready,
            in_turn=settings.allow_serial_eviction,
            recheck=settings.unremovable_recheck_timeout,
            evictions_kept=settings.recent_eviction_window,
            rules=RuleSwitches(
                system_pods_stay=settings.skip_nodes_with_system_pods,
                local_storage_stays=settings.skip_nodes_with_local_storage,
                custom_controllers_stay=settings.skip_nodes_with_custom_controller_pods,
                min_replicas=settings.min_replica_count,
                system_pod_timeout=settings.system_pod_timeout,
                evict_vms=settings.evict_vms,
                vm_rest=vms.migration_cooldown,
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalPacing:
    """Time nodes must be candidates before removal, in seconds, and the number removed at once."""

    unneeded: Seconds = _USUAL.scale_down_unneeded_time
    unready: Seconds = _USUAL.scale_down_unready_time
    most_at_once: int = 10
    """Nodes being removed at once."""
    most_drains: int = 1
    """Nodes with pods to evict among them. If below `most_at_once`, drains never block removals of empty nodes."""

    @classmethod
    def of(cls, settings: DrainingSettings) -> "RemovalPacing":
        """Pacing of nodes of no pool. Its limits hold for all pools together."""
        return cls(
            unneeded=settings.scale_down_unneeded_time,
            unready=settings.scale_down_unready_time,
            most_at_once=settings.max_scale_down_parallelism,
            most_drains=settings.drains_at_once,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolMinimum:
    """Minimum size of one pool."""

    nodes: int
    """Nodes of the pool, without those that are being removed."""
    least: int = 0
    least_empty: int = 0
    """Empty nodes the pool keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainInputs:
    """Inputs of a plan beside the snapshot."""

    candidates: Collection[str] | None = None
    """Nodes that may be removed; None for all but control plane nodes."""
    destinations: Collection[str] | None = None
    """Nodes pods may be moved to; None for all."""
    removing: Collection[str] = ()
    """Nodes whose removal has begun."""
    resumable: Collection[str] = ()
    """Nodes with the draining taint and no removal under way: judged as if they had no taint."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Nodes whose removal failed lately, and why."""
    pools: Mapping[str, PoolMinimum] = field(default_factory=dict)
    """By name."""
    least_nodes: int = 0
    """Minimum number of nodes of the cluster."""
    least_resources: Mapping[str, int] = field(default_factory=dict)
    """Minimum allocatable of all nodes together, in thousandths by resource."""
    workloads: Mapping[str, WorkloadReplicas] = field(default_factory=dict)
    """By uid."""
    workload_kinds: Collection[str] = frozenset()
    """Kinds that `workloads` has completely: a workload of such a kind that is not in it is gone."""
    evictions: Sequence[RecentEviction] = ()
    prices: Mapping[str, int] = field(default_factory=dict)
    """Price by node, in millionths per hour."""
    vm_starts: MigrationStarts = field(default_factory=MigrationStarts)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerMemory:
    """Memory from one loop to the next. Empty at a start; timers are then read from soft taints, see `unneeded`."""

    hints: Mapping[ObjectKey, str] = field(default_factory=dict)
    """Destination node of each pod in the last plan."""
    older_hints: Mapping[ObjectKey, str] = field(default_factory=dict)
    refused: Mapping[str, tuple[Instant, UnremovableNode]] = field(default_factory=dict)
    """Nodes whose pods had no place, each with the time of that answer."""
    since: Mapping[str, Instant] | None = None
    """Time each candidate became one, also candidates not reached this time; None before the first loop."""


FRESH = PlannerMemory()


def node_filters(settings: DrainingSettings) -> tuple[NodeListFilter, ...]:
    """Filters of these settings, applied in order."""
    if not settings.candidate_labels and not settings.destination_labels:
        return ()
    return (LabelledNodes(candidates=settings.candidate_labels, destinations=settings.destination_labels),)


def least_resources(settings: DrainingSettings) -> dict[str, int]:
    """Minimum allocatable of all nodes together, in thousandths by resource. Zeros are left out."""
    least = {
        "cpu": settings.min_cores_total * MILLI,
        "memory": settings.min_memory_total * GIB * MILLI,
        GPU: settings.min_gpus_total * MILLI,
    }
    return {name: amount for name, amount in least.items() if amount}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one search for candidates."""

    least_tried: int = 10
    """Nodes that are tried even when the time is over."""
    most_candidates: int | None = None


UNLIMITED = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainPlan:
    """Answer for every node."""

    removable: tuple[RemovableNode, ...]
    """In the order found. All of them can be removed together."""
    unremovable: tuple[UnremovableNode, ...]
    """By name."""
    budgets_left: Mapping[ObjectKey, int]
    """Evictions each disruption budget still allows after all removable nodes are gone."""
    memory: PlannerMemory
