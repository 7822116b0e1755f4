"""Pools of GPU nodes as decisions see them: node template, size bounds, and existing nodes.

GPUs are counted in thousandths, prices in millionths of the currency per hour: exact sums, no rounding drift.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from ullage.model.device import KIND_LABEL, MILLI_GPU, Device, GpuNodeKind, Inventory
from ullage.model.node import Node, Taint
from ullage.model.resources import GPU
from ullage.model.units import Bytes, Instant, Micros, Milli, Seconds

PROVISIONER_LABEL = "gpu.scheduling/provisioner"
"""Label of a node: the pool it belongs to."""
DELETION_TAINT = "gpu.scheduling/deletion-time"
"""Taint that marks a node for deletion and keeps pods off. Its value is the Unix second after which it may be deleted.
"""
KEEP_ANNOTATION = "gpu.scheduling/scale-down-disabled"
KEEP_ANNOTATIONS = (KEEP_ANNOTATION, "cluster-autoscaler.kubernetes.io/scale-down-disabled")
"""Annotations of nodes their owners want kept. Cluster Autoscaler's own counts too, so that its users need no change.
"""
ZONE_LABEL = "topology.kubernetes.io/zone"
HOST_LABEL = "kubernetes.io/hostname"
CAPACITY_LABEL = "gpu.scheduling/capacity-type"

STAY_BEHIND = ("DaemonSet", "Node")
"""Owner kinds of pods that leave with their node: the node may be deleted with them on it."""

MICROS = 1_000_000
MOST_ASKED_FOR = Seconds(600.0)
"""Upper bound on the wait a cloud may ask for; longer ones are cut to it."""


def is_kept(annotations: Mapping[str, str]) -> bool:
    """True if the node's owner forbids its removal."""
    return any(annotations.get(name) == "true" for name in KEEP_ANNOTATIONS)


class CapacityType(StrEnum):
    ON_DEMAND = "OnDemand"
    SPOT = "Spot"


class TaintEffect(StrEnum):
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class CloudFailure(StrEnum):
    """Kind of failure of a cloud. Closed list: it labels the metric and the condition."""

    CAPACITY = "NoCapacity"
    QUOTA = "QuotaReached"
    THROTTLED = "Throttled"
    REFUSED = "Refused"
    NEVER_JOINED = "NeverJoined"
    """An instance was made, and failed to register as a usable node."""
    UNKNOWN = "OutcomeUnknown"
    """The answer to a purchase was lost: the purchase is requested again."""


class GpuTemplate(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """GPUs of a new node, all alike."""

    model: str
    count: int
    memory: Bytes = Bytes(0)
    """Bytes of each."""
    islands: int = 1
    """Number of equal NVLink islands; as many as GPUs means that no GPU is joined to another."""
    bandwidth: int = 0
    kind: GpuNodeKind = GpuNodeKind.LEASED

    def devices(self, node: str) -> tuple[Device, ...]:
        size = max(1, self.count // max(1, self.islands))
        return tuple(
            Device(
                id=gpu,
                uuid=f"GPU-{node}-{gpu}",
                model=self.model,
                memory=self.memory,
                island=f"island-{gpu // size}" if size > 1 else "",
                bandwidth=self.bandwidth,
                peers=tuple(p for p in range(gpu // size * size, gpu // size * size + size) if p != gpu),
            )
            for gpu in range(self.count)
        )


class NodeTemplate(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Properties of a new node of a pool."""

    gpus: GpuTemplate
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    resources: dict[str, int] = {}
    """Allocatable in thousandths, without GPUs: `gpus` gives those."""
    capacity_type: CapacityType = CapacityType.ON_DEMAND
    price: Micros = Micros(0)
    """Millionths per hour and node."""
    zones: tuple[str, ...] = ()
    """Zones nodes may come up in; any zone if empty."""


class ConsolidationPolicy(StrEnum):
    """Loop that removes nodes from a pool."""

    EMPTY_ONLY = "EmptyOnly"
    """The provisioner removes nodes that are empty."""
    DRAIN = "Drain"
    """The drain loop removes nodes, also those whose pods fit elsewhere."""


class Consolidation(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Rules for removing nodes of a pool. Times in seconds."""

    policy: ConsolidationPolicy = ConsolidationPolicy.EMPTY_ONLY
    unneeded: Seconds = Seconds(600.0)
    unready: Seconds = Seconds(1200.0)
    used_milli: Milli = Milli(500)
    """Largest use at which a node may be removed: GPUs in use, in thousandths of the node's GPUs."""
    most_at_once: int = 10
    most_drains: int = 5
    deprecated: tuple[str, ...] = ()
    """Fields that were given by a deprecated name."""

    @property
    def drains(self) -> bool:
        return self.policy is ConsolidationPolicy.DRAIN


class PoolThresholds(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Size bounds of a pool, and its scale-down rules. Times in seconds."""

    min_size: int = 0
    max_size: int
    min_utilization_percent: int = 0
    """Share of GPUs in use below which nodes are removed; 0 never shrinks the pool."""
    min_unutilized_nodes: int = 0
    """Empty nodes that are kept whatever the utilization. They are never bought."""
    scale_down_delay: Seconds = Seconds(600.0)
    scale_up_batch: Seconds = Seconds(0.0)
    boot_deadline: Seconds = Seconds(900.0)
    paused: bool = False
    recommend_only: bool = False


class BackOff(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Back-off of a provisioner: the failure, and the instant until which it may not buy."""

    failure: CloudFailure
    failures: int
    """Consecutive failures."""
    until: Instant
    message: str = ""


class Purchase(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Nodes requested from a cloud, with the outcome not known yet."""

    serial: int
    count: int
    since: Instant
    zone: str = ""
    least: int = 0
    """Smallest useful number."""


class AwaitedInstance(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Instance the provider reported as made, which may not be listed yet."""

    instance: str
    since: Instant


class Provisioner(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one NodeProvisioner."""

    name: str
    uid: str
    generation: int
    template: NodeTemplate
    thresholds: PoolThresholds
    provider: str
    parameters: dict[str, str] = {}
    consolidation: Consolidation = Consolidation()
    purchase: Purchase | None = None
    """Open purchase, if any."""
    purchases: int = 0
    """Number of purchases begun. It is the serial of the next one."""
    awaited: tuple[AwaitedInstance, ...] = ()
    back_off: BackOff | None = None
    agent_taint: bool = False
    """Agents were seen to taint nodes of this pool. Recorded, so that it is known while the pool is empty."""


class PoolNode(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One node or instance of a pool. Capacity and use in thousandths of GPUs."""

    name: str
    """Name of the Node, or of the instance where there is no Node yet."""
    instance: str = ""
    """Instance id of the provider; empty where it lists none."""
    since: Instant = Instant(0.0)
    capacity: int
    """GPUs in thousandths; the expected number where they have not appeared yet."""
    used: int = 0
    """Requested by pods on the node."""
    assumed: int = 0
    """Requested by pending pods that would fit on the node."""
    empty: bool = True
    """No pod on it that matters, and no pending pod assumed to it."""
    registered: bool = True
    """True if there is a Node to taint."""
    upcoming: bool = False
    failed_to_register: bool = False
    protected: bool = False
    delete_after: Instant | None = None
    """Deletion time in its taint."""
    due_at: Instant | None = None
    """Instant at which it is due by counted seconds, where a wrong clock says otherwise."""
    given_up_at: Instant | None = None
    """Instant at which it is given up, where its deadline has passed and it has not been observed for long, or where it
    is unlisted."""
    unlisted: bool = False
    """Marked for deletion, not ready, and the cloud lists no instance of it: it is room for nobody."""
    departed: bool = False
    """Instance whose Node was deleted, as far as is known."""
    silent_for: Seconds = Seconds(0.0)
    """Seconds for which its agent has been silent; 0 while it is not."""
    silence_excused: bool = False
    """Its agent is silent, and its GPUs count as if it were not: no replacement is bought."""
    draining: bool = False
    """Its pods are being moved away, and then it is removed. The drain loop owns that; provisioning does not undo it.
    """
    agent_taint: bool = False
    """Its agent keeps pods off that do not tolerate leased nodes."""

    @property
    def usable(self) -> bool:
        """True if it is a Node with its GPUs."""
        return self.registered and not self.upcoming and not self.failed_to_register

    @property
    def marked_for_deletion(self) -> bool:
        return self.delete_after is not None

    @property
    def goes_at(self) -> Instant:
        """Instant after which it may be deleted; infinite where it is not marked for deletion."""
        at = self.delete_after if self.due_at is None else self.due_at
        return Instant(float("inf")) if self.delete_after is None or at is None else at


class FleetBudget(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Upper bounds on all pools together. None is no bound."""

    gpus: int | None = None
    price: Micros | None = None
    """Millionths per hour."""


def token_of(provisioner: Provisioner, serial: int) -> str:
    """Token of a purchase, so that a repeated request buys nothing more. Fits the shortest limit of all clouds (64)."""
    return f"ullage-{provisioner.uid[:36]}-{serial}"


def labels_of(provisioner: Provisioner, zone: str = "") -> dict[str, str]:
    """Labels every node of a pool has."""
    template = provisioner.template
    own = {PROVISIONER_LABEL: provisioner.name, CAPACITY_LABEL: template.capacity_type.value}
    return template.labels | own | ({ZONE_LABEL: zone} if zone else {})


def template_node(provisioner: Provisioner, name: str, *, zone: str = "", now: Instant) -> tuple[Node, Inventory]:
    """Node as it will be when it has come up, and the inventory its agent will report."""
    gpus = provisioner.template.gpus
    offered = {"pods": 110_000} | provisioner.template.resources | {GPU: gpus.count * MILLI_GPU}
    node = Node(
        name=name,
        uid=f"template-{name}",
        created=now,
        ready=True,
        unschedulable=False,
        labels={HOST_LABEL: name, KIND_LABEL: gpus.kind.value.lower()} | labels_of(provisioner, zone),
        taints=provisioner.template.taints,
        allocatable=offered,
    )
    return node, Inventory(node=name, reported_at=now, devices=gpus.devices(name), kind=gpus.kind)
