"""All settings: one file for the live programs and for the simulator, so that what was simulated is what runs.

Frozen records with the defaults. Reading files is in `loading`; `control.configured` hands each setting to its
component.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ullage.config.declaration import setting
from ullage.config.karpenter import Karpenter
from ullage.config.values import (
    Boolean,
    Duration,
    Fraction,
    IntRange,
    MapOf,
    Nullable,
    OneOf,
    PositiveFloat,
    Price,
    SubsetOf,
    Text,
)
from ullage.config.vm_agent import VmAgentSettings
from ullage.decide.placement.score.policies import CHANCE, DEFAULT_POLICY

LIVE_POLICIES = ("fragmentation", "best-fit", "packing", "spread")
POLICIES = (*LIVE_POLICIES, CHANCE)
"""With a baseline to compare with: no live scheduler places by chance."""
LOOPS = ("scheduler", "provisioning", "draining")
"""Loops that run in a simulation, by name. `scheduler` includes the claim controller and the Lease garbage
collector."""
DEFAULT_SCHEDULER = "gpu-scheduler"

_NOTHING: Mapping[str, str] = {}
_NO_PROVIDERS: Mapping[str, Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingSettings:
    """Placement of pods: `ullage scheduler`."""

    policy: str = setting(
        DEFAULT_POLICY,
        OneOf(POLICIES),
        f"How GPUs are packed for pods that name {DEFAULT_SCHEDULER}. {CHANCE} is for simulations only.",
    )
    profiles: Mapping[str, str] = setting(
        _NOTHING,
        MapOf(OneOf(POLICIES), "SCHEDULER"),
        f"Further scheduler names pods may use, each with its policy. {DEFAULT_SCHEDULER} here overrides policy.",
    )
    lease_namespace: str = setting("ullage-system", Text(), "Where the Leases of GPUs are kept.")
    sweep_leases: bool = setting(True, Boolean(), "Free the Leases of pods that are gone.")
    parallel_placements: int = setting(64, IntRange(1, 1024), "Pods being bound at the same time.")
    parallel_refusals: int = setting(8, IntRange(1, 256), "Refusals being written at the same time.")
    first_backoff: float = setting(1.0, Duration(), "How long a pod waits after its first refusal; doubles.")
    longest_backoff: float = setting(10.0, Duration(), "The longest it waits after news that may help it.")
    longest_sleep: float = setting(300.0, Duration(1.0), "The longest it waits without news.")

    def policies(self) -> dict[str, str]:
        """Policies by scheduler name, the default one first."""
        return {DEFAULT_SCHEDULER: self.policy, **dict(sorted(self.profiles.items()))}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningSettings:
    """Size of node pools: `ullage controller`."""

    max_gpus: int | None = setting(None, Nullable(IntRange()), "GPUs all pools together may have.")
    max_price_per_hour: int | None = setting(
        None, Nullable(Price()), "What the nodes of all pools together may cost, by their pricePerHour."
    )
    pause: float = setting(1.0, Duration(), "Time between two plans at least: news come in crowds.")
    parallel_actions: int = setting(16, IntRange(1, 256), "Actions under way at the same time.")
    protected_for: float = setting(300.0, Duration(1.0), "Time until a node that was protected is asked about again.")
    providers: Mapping[str, Mapping[str, str]] = setting(
        _NO_PROVIDERS,
        MapOf(MapOf(Text(), "KEY"), "PROVIDER"),
        "What cloud providers need to know, such as aws: {cluster: prod}.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainingSettings:
    """Draining and removal of nodes, for all pools together: `ullage controller`. Settings of one pool are in the
    consolidation of its NodeProvisioner."""

    drain_unmanaged: bool = setting(
        False, Boolean(), "Drain nodes of no NodeProvisioner, too, and leave them cordoned to their owner."
    )
    unneeded_time: float = setting(600.0, Duration(), "How long an unmanaged node is a candidate before it goes.")
    unready_time: float = setting(1200.0, Duration(), "The same for one that is not ready.")
    utilization_threshold: float = setting(
        0.5, Fraction(), "Unmanaged nodes with more of their CPU or memory requested stay."
    )
    gpu_utilization_threshold: float = setting(0.5, Fraction(), "The same of nodes with GPUs, by their GPUs alone.")
    max_scale_down_parallelism: int = setting(100, IntRange(1, 5000), "Nodes being removed at once, whoever owns them.")
    max_drain_parallelism: int = setting(
        50,
        IntRange(0, 5000),
        "Of them, nodes with pods to evict, at most maxScaleDownParallelism. 1: one node after another.",
    )
    candidate_labels: Mapping[str, str] = setting(
        _NOTHING, MapOf(Text(), "LABEL"), "Only nodes with all of these labels may be drained."
    )
    destination_labels: Mapping[str, str] = setting(
        _NOTHING, MapOf(Text(), "LABEL"), "Pods are planned to move only to nodes with all of these labels."
    )
    min_nodes_total: int = setting(0, IntRange(), "Nodes the cluster keeps, whatever could be drained.")
    min_cores_total: int = setting(0, IntRange(), "Cores its nodes keep offering in all.")
    min_memory_total: int = setting(0, IntRange(), "The same of memory, in GiB.")
    min_gpus_total: int = setting(0, IntRange(), "The same of GPUs.")
    delay_after_taint: float = setting(5.0, Duration(), "From tainting a node to looking at it again.")
    delay_after_failure: float = setting(180.0, Duration(), "How long a node is left alone whose removal failed.")
    max_eviction_time: float = setting(120.0, Duration(), "How long a pod's disruption budget is asked again.")
    max_graceful_termination: float = setting(600.0, Duration(), "The longest grace a pod gets.")
    scan_interval: float = setting(5.0, Duration(), "Time between two plans at least.")
    plan_time: float = setting(10.0, Duration(), "How long one plan may look for nodes to remove.")
    min_nodes_evaluated: int = setting(10, IntRange(), "Nodes every plan looks at, however long that takes.")
    count_daemon_sets: bool = setting(True, Boolean(), "Whether what DaemonSets request counts as use.")
    count_mirror_pods: bool = setting(True, Boolean(), "Whether what mirror pods request counts as use.")
    unready_nodes_go: bool = setting(True, Boolean(), "Nodes that are not ready may go, too.")
    in_turn: bool = setting(
        False, Boolean(), "Let a node go whose pods its disruption budget lets go only one after another."
    )
    system_pods_stay: bool = setting(
        True, Boolean(), "Pods of kube-system without a disruption budget keep their node."
    )
    local_storage_stays: bool = setting(True, Boolean(), "Pods with data on their node keep it.")
    custom_controllers_stay: bool = setting(
        True, Boolean(), "Pods of controllers that are not Kubernetes' own keep their node."
    )
    min_replicas: int = setting(0, IntRange(), "Pods of ReplicaSets with fewer replicas keep their node.")
    system_pod_timeout: float = setting(3600.0, Duration(), "Age at which a pod of kube-system may move after all.")
    recheck: float = setting(300.0, Duration(), "How long a node is left alone whose pods had no place elsewhere.")
    evictions_kept: float = setting(120.0, Duration(), "How long an evicted pod that is not back yet is looked after.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSettings:
    """Simulated cluster: `ullage simulate` and `ullage replay`. Live programs ignore this section."""

    loops: tuple[str, ...] = setting(LOOPS, SubsetOf(LOOPS), "Which loops run.")
    ends: str = setting(
        "running",
        OneOf(("running", "clock")),
        "When a pod of a workload ends: when it has run as long as its duration says (running), or so long after its "
        "arrival, whether it got a place or not (clock: the times of the trace are kept).",
    )
    evicted: str = setting(
        "again",
        OneOf(("again", "lost")),
        "What becomes of a workload's pods that are evicted or preempted: they come again and begin anew, as those of "
        "a Job do (again), or not at all (lost). Pods that do not come again keep their nodes from being drained.",
    )
    load: float = setting(1.0, PositiveFloat(), "How many times as fast pods arrive as the workload says.")
    api_latency: float = setting(0.004, Duration(), "How long a call of the Kubernetes API takes.")
    boot_time: float = setting(120.0, Duration(), "From buying a node to its being one, where the fleet does not say.")
    faults: bool = setting(
        False, Boolean(), "Watches end, and agents and kubelets have to say that they live: slower, and closer to life."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings. Each program reads its own sections."""

    scheduling: SchedulingSettings = field(default_factory=SchedulingSettings)
    provisioning: ProvisioningSettings = field(default_factory=ProvisioningSettings)
    draining: DrainingSettings = field(default_factory=DrainingSettings)
    karpenter: Karpenter = field(default_factory=Karpenter)
    vmagent: VmAgentSettings = field(default_factory=VmAgentSettings)
    simulation: SimulationSettings = field(default_factory=SimulationSettings)
