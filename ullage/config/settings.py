"""All settings, each declared once: name, type, default, bounds, help, flag, and if a running process takes it over.

One file for the live programs and for the simulator, so that what was simulated is what runs. Reading files is in
`loading`, environment variables in `environment`. Pure: cores and loops take these records directly.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ullage.config.compound_values import MapOf, Nullable, SubsetOf, Texts
from ullage.config.dashboard import DashboardSettings
from ullage.config.declaration import setting
from ullage.config.karpenter import KarpenterSettings
from ullage.config.values import Boolean, Duration, Fraction, IntRange, OneOf, PositiveFloat, Price, Text, ValueType
from ullage.config.vm_agent import VmAgentSettings
from ullage.config.vms import VmSettings
from ullage.model.lease import LEASE_NAMESPACE
from ullage.model.provisioner import FleetBudget
from ullage.model.scoring import DEFAULT_POLICY, DEFAULT_SCHEDULER, LIVE_POLICIES, ScoringPolicy
from ullage.model.units import Micros, Seconds

LOOPS = ("scheduler", "provisioning", "draining")
"""Loops that run in a simulation, by name. `scheduler` includes the claim controller and the Lease garbage
collector."""

_POLICIES = OneOf(tuple(policy.value for policy in ScoringPolicy))
_LIVE = ", ".join(LIVE_POLICIES)
_NOTHING: Mapping[str, str] = {}
_NO_PRICES: Mapping[str, float] = {}
_NO_PROFILES: Mapping[str, str | None] = {}
_NO_PROVIDERS: Mapping[str, Mapping[str, str]] = {}
MOST_NODES = 5000


@dataclass(frozen=True, slots=True)
class Profiles(ValueType[Mapping[str, str | None]]):
    """Scoring policies by scheduler name. A flag gives all of them, so that a default profile it does not name ends."""

    metavar = "NAME[=POLICY]"
    repeated = True
    _in_files = MapOf(Nullable(_POLICIES, "a scheduler that is not served"), "SCHEDULER")

    @property
    def allowed(self) -> str:
        return self._in_files.allowed

    def read(self, raw: Any) -> Mapping[str, str | None]:
        return self._in_files.read(raw)

    def parse(self, text: str) -> Mapping[str, str | None]:
        if text.lstrip().startswith("{"):
            return self._in_files.parse(text)
        name, _, policy = text.partition("=")
        if not name:
            raise ValueError(f"{text!r} names no scheduler; expected {self.metavar}")
        try:
            return {name: _POLICIES.read(policy or DEFAULT_POLICY.value)}
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error

    def parse_all(self, texts: Sequence[str]) -> Mapping[str, str | None]:
        found: dict[str, str | None] = {}
        for text in texts:
            for name, policy in self.parse(text).items():
                if name in found:
                    raise ValueError(f"{name} is given twice")
                found[name] = policy
        return found if DEFAULT_SCHEDULER in found else {DEFAULT_SCHEDULER: None, **found}

    def takes_live(self, before: Mapping[str, str | None], after: Mapping[str, str | None]) -> bool:
        """Another policy is taken over; a scheduler that is served from now on, or no longer, needs a restart."""
        return _served(before) == _served(after)

    def write(self, value: Mapping[str, str | None]) -> Any:
        return self._in_files.write(value)


def _served(profiles: Mapping[str, str | None]) -> frozenset[str]:
    """Scheduler names that profiles add to the default one or take away."""
    found = {DEFAULT_SCHEDULER: "", **profiles}
    return frozenset(name for name, policy in found.items() if policy is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingSettings:
    """Placement of pods: `ullage scheduler`."""

    policy: str = setting(
        DEFAULT_POLICY.value,
        _POLICIES,
        f"Packing of GPUs for pods that name {DEFAULT_SCHEDULER}: {_LIVE}. random is for simulations only.",
        live=True,
    )
    profiles: Mapping[str, str | None] = setting(
        _NO_PROFILES,
        Profiles(),
        f"Scheduler names pods may use, each with its policy; {DEFAULT_SCHEDULER} is served unless it is null here.",
        flag="profile",
        live=True,
    )
    lease_namespace: str = setting(
        LEASE_NAMESPACE, Text(), "Namespace of the Leases of GPUs and of the leader.", flag="namespace"
    )
    release_leases: bool = setting(True, Boolean(), "Release the Leases of pods that are gone.")
    max_bind_parallelism: int = setting(64, IntRange(1, 1024), "Pods being bound at the same time.", live=True)
    max_condition_parallelism: int = setting(
        8, IntRange(1, 256), "Conditions of unschedulable pods being written at the same time.", live=True
    )
    initial_backoff: Seconds = setting(
        Seconds(1.0), Duration(), "Back-off of a pod after its first unschedulable attempt; doubles.", live=True
    )
    max_backoff: Seconds = setting(Seconds(10.0), Duration(), "Longest back-off of an unschedulable pod.", live=True)
    max_unschedulable_duration: Seconds = setting(
        Seconds(300.0),
        Duration(1.0),
        "Longest time an unschedulable pod waits for a change before it is tried again.",
        live=True,
    )
    trace_endpoint: str | None = setting(
        None,
        Nullable(Text(), "no traces"),
        "Collector that gets traces of placements by OTLP over HTTP, such as http://collector.monitoring:4318.",
    )
    trace_fraction: float = setting(1.0, Fraction(), "Part of all placements that is traced, with a traceEndpoint.")

    def policies(self) -> dict[str, str]:
        """Policies by scheduler name, the default one first."""
        found = {DEFAULT_SCHEDULER: self.policy, **self.profiles}
        return {name: policy for name, policy in found.items() if policy is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningSettings:
    """Size of node pools: `ullage controller`."""

    max_gpus: int | None = setting(None, Nullable(IntRange()), "GPUs all pools together may have.", live=True)
    max_price_per_hour: int | None = setting(
        None, Nullable(Price()), "Cost of the nodes of all pools together, by their pricePerHour.", live=True
    )
    scheduler_names: tuple[str, ...] = setting(
        (),
        Texts(),
        "Schedulers whose pending pods get nodes at once; pods of others once those found them unschedulable. None: "
        "those of scheduling.profiles.",
        flag="scheduler-name",
    )
    plan_interval: Seconds = setting(
        Seconds(1.0), Duration(), "Minimum time between two plans of pools: changes come in bursts.", live=True
    )
    max_taint_parallelism: int = setting(
        16, IntRange(1, 256), "Nodes of one pool tainted or untainted at the same time.", live=True
    )
    protected_recheck_timeout: Seconds = setting(
        Seconds(300.0), Duration(1.0), "Time until a node that was found protected is considered again.", live=True
    )
    providers: Mapping[str, Mapping[str, str]] = setting(
        _NO_PROVIDERS,
        MapOf(MapOf(Text(), "KEY"), "PROVIDER"),
        "Parameters of cloud providers, such as aws: {cluster: prod}.",
        flag="provider-setting",
    )

    @property
    def budget(self) -> FleetBudget:
        """Limits of all pools together."""
        price = self.max_price_per_hour
        return FleetBudget(gpus=self.max_gpus, price=None if price is None else Micros(price))


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainingSettings:
    """Draining and removal of nodes, for all pools together: `ullage controller`. Settings of one pool are in the
    consolidation of its NodeProvisioner."""

    drain_unmanaged: bool = setting(
        False,
        Boolean(),
        "Drain nodes of no NodeProvisioner, too. They are left empty and cordoned to their owner.",
        live=True,
    )
    scale_down_unneeded_time: Seconds = setting(
        Seconds(600.0),
        Duration(),
        "Time a node of no NodeProvisioner must have been unneeded before it is removed.",
        crd="spec.consolidation.unneededTime",
        live=True,
    )
    scale_down_unready_time: Seconds = setting(
        Seconds(1200.0),
        Duration(),
        "Time a node of no NodeProvisioner that is not ready must have been unneeded before it is removed.",
        crd="spec.consolidation.unreadyTime",
        live=True,
    )
    utilization_threshold: float = setting(
        0.5, Fraction(), "Nodes of no NodeProvisioner with more of their CPU or memory requested stay.", live=True
    )
    gpu_utilization_threshold: float = setting(
        0.5,
        Fraction(),
        "Nodes of no NodeProvisioner with more of their GPUs requested stay; their CPU and memory do not count.",
        crd="spec.consolidation.utilizationThresholdPercent",
        live=True,
    )
    max_scale_down_parallelism: int = setting(
        100,
        IntRange(1, MOST_NODES),
        "Nodes being removed at once, of all pools together.",
        old_flags=("max-empty-bulk-delete",),
        live=True,
    )
    max_drain_parallelism: int | None = setting(
        None,
        Nullable(IntRange(0, MOST_NODES), "50, or maxScaleDownParallelism if that is less"),
        "Of them, nodes with pods to evict; 1 drains one after another.",
        live=True,
    )
    candidate_labels: Mapping[str, str] = setting(
        _NOTHING,
        MapOf(Text(), "LABEL"),
        "Only nodes with all of these labels are drained.",
        flag="drain-candidate-label",
        live=True,
    )
    destination_labels: Mapping[str, str] = setting(
        _NOTHING,
        MapOf(Text(), "LABEL"),
        "Pods are planned to move only to nodes with all of these labels.",
        flag="drain-destination-label",
        live=True,
    )
    min_nodes_total: int = setting(0, IntRange(), "Nodes the cluster keeps.", live=True)
    min_cores_total: int = setting(0, IntRange(), "Cores the nodes of the cluster keep offering in all.", live=True)
    min_memory_total: int = setting(0, IntRange(), "GiB of memory they keep offering in all.", live=True)
    min_gpus_total: int = setting(0, IntRange(), "GPUs they keep offering in all.", live=True)
    node_delete_delay_after_taint: Seconds = setting(
        Seconds(5.0), Duration(), "Time from tainting a node to reading again which pods are on it.", live=True
    )
    scale_down_delay_after_failure: Seconds = setting(
        Seconds(180.0), Duration(), "Time before a node whose removal failed is tried again.", live=True
    )
    max_pod_eviction_time: Seconds = setting(
        Seconds(120.0), Duration(), "Time for which a refused eviction is retried.", live=True
    )
    max_graceful_termination: Seconds = setting(
        Seconds(600.0), Duration(), "Longest grace period an evicted pod gets.", live=True
    )
    max_vm_migration_time: Seconds = setting(
        Seconds(900.0),
        Duration(),
        "Time for which a VM's live migration away from a drained node is waited for; then it is cancelled.",
        live=True,
    )
    evict_vms: bool = setting(
        False, Boolean(), "Evict pods of VMs that may not be migrated: they end and start elsewhere.", live=True
    )
    max_delete_time: Seconds = setting(
        Seconds(60.0), Duration(), "Time for which the deletion of an instance is retried.", live=True
    )
    scan_interval: Seconds = setting(Seconds(5.0), Duration(), "Minimum time between two drain plans.", live=True)
    simulation_timeout: Seconds = setting(
        Seconds(10.0),
        Duration(),
        "Time one plan may look for nodes to remove.",
        old_flags=("scale-down-simulation-timeout",),
        live=True,
    )
    min_nodes_evaluated: int = setting(10, IntRange(), "Nodes every plan looks at, however long that takes.", live=True)
    max_soft_taints_per_loop: int = setting(50, IntRange(), "Soft taints written or removed in one loop.", live=True)
    max_node_write_parallelism: int = setting(
        16, IntRange(1, 256), "Nodes being tainted or untainted by draining at the same time.", live=True
    )
    ignore_daemonsets_utilization: bool = setting(
        False, Boolean(), "Requests of DaemonSets do not count as used.", live=True
    )
    ignore_mirror_pods_utilization: bool = setting(
        False, Boolean(), "Requests of mirror pods do not count as used.", live=True
    )
    scale_down_unready: bool = setting(
        True, Boolean(), "Nodes that are not ready may be removed, too.", old_flags=("unready",), live=True
    )
    allow_serial_eviction: bool = setting(
        False,
        Boolean(),
        "Allow draining a node with more pods under one PodDisruptionBudget than it allows at once; they are evicted "
        "one after another.",
        old_flags=("in-turn",),
        live=True,
    )
    skip_nodes_with_system_pods: bool = setting(
        True, Boolean(), "Pods of kube-system without a PodDisruptionBudget keep their node.", live=True
    )
    skip_nodes_with_local_storage: bool = setting(True, Boolean(), "Pods with data on their node keep it.", live=True)
    skip_nodes_with_custom_controller_pods: bool = setting(
        True, Boolean(), "Pods of controllers that are not Kubernetes' own keep their node.", live=True
    )
    min_replica_count: int = setting(
        0, IntRange(), "Pods of ReplicaSets with fewer replicas keep their node.", live=True
    )
    system_pod_timeout: Seconds = setting(
        Seconds(3600.0), Duration(), "Age at which a pod of kube-system may be evicted after all.", live=True
    )
    unremovable_recheck_timeout: Seconds = setting(
        Seconds(300.0), Duration(), "Time before a node whose pods had no place elsewhere is tried again.", live=True
    )
    recent_eviction_window: Seconds = setting(
        Seconds(120.0),
        Duration(),
        "Time an evicted pod without a replacement keeps its place reserved in drain plans.",
        live=True,
    )

    @property
    def drains_at_once(self) -> int:
        """Nodes with pods to evict that are removed at once."""
        wanted = self.max_drain_parallelism
        return min(DRAINS_AT_ONCE, self.max_scale_down_parallelism) if wanted is None else wanted


DRAINS_AT_ONCE = 50
"""Of `max_drain_parallelism` where nothing is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSettings:
    """Simulated cluster: `ullage simulate` and `ullage replay`. Live programs ignore this section."""

    loops: tuple[str, ...] = setting(LOOPS, SubsetOf(LOOPS), "Loops that run.")
    ends: str = setting(
        "running",
        OneOf(("running", "clock")),
        "End of a pod of a workload: when it has run as long as its duration says (running), or so long after its "
        "arrival, placed or not (clock: the times of the trace are kept).",
    )
    evicted: str = setting(
        "again",
        OneOf(("again", "lost")),
        "Pods of a workload that are evicted or preempted: they come again and begin anew, as those of a Job do "
        "(again), or not at all (lost). Pods that do not come again keep their nodes from being drained.",
    )
    load: float = setting(1.0, PositiveFloat(), "Arrivals, as a multiple of the workload's.")
    api_latency: Seconds = setting(Seconds(0.004), Duration(), "Latency of a call of the Kubernetes API.")
    boot_time: Seconds = setting(
        Seconds(120.0), Duration(), "Time from buying a node to its being one, where the fleet does not say."
    )
    currency: str = setting("USD", Text(), "Currency of all prices.")
    gpu_prices: Mapping[str, float] = setting(
        _NO_PRICES,
        MapOf(PositiveFloat(), "MODEL"),
        "Price of a GPU per hour by model, for nodes that state none. Models that are not here are priced by a small "
        "table of cloud prices in USD (docs/simulate.md), if the currency is USD.",
    )
    faults: bool = setting(
        False, Boolean(), "Watches end, and agents and kubelets send heartbeats: slower, and closer to life."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings. Each program reads its own sections."""

    scheduling: SchedulingSettings = field(default_factory=SchedulingSettings)
    provisioning: ProvisioningSettings = field(default_factory=ProvisioningSettings)
    draining: DrainingSettings = field(default_factory=DrainingSettings)
    karpenter: KarpenterSettings = field(default_factory=KarpenterSettings)
    vmagent: VmAgentSettings = field(default_factory=VmAgentSettings)
    vms: VmSettings = field(default_factory=VmSettings)
    dashboard: DashboardSettings = field(default_factory=DashboardSettings)
    simulation: SimulationSettings = field(default_factory=SimulationSettings)

    @property
    def scheduler_names(self) -> tuple[str, ...]:
        """Schedulers whose pending pods get nodes at once."""
        return self.provisioning.scheduler_names or tuple(self.scheduling.policies())
