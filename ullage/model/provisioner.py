"""Pools of GPU nodes as decisions see them: what a new node would be, how many there may be, and those there are.

GPUs are counted in thousandths, prices in millionths of the currency per hour: exact sums, no rounding drift.
"""

from enum import StrEnum

import msgspec

from ullage.model.device import KIND_LABEL, MILLI_GPU, Device, GpuNodeKind, Inventory
from ullage.model.node import Node, Taint
from ullage.model.resources import GPU

PROVISIONER_LABEL = "gpu.scheduling/provisioner"
"""Which pool a node is of."""
DELETION_TAINT = "gpu.scheduling/deletion-time"
"""Keeps pods off a node that is to go; its value is the Unix second after which it may."""
KEEP_ANNOTATION = "gpu.scheduling/scale-down-disabled"
ZONE_LABEL = "topology.kubernetes.io/zone"
HOST_LABEL = "kubernetes.io/hostname"
CAPACITY_LABEL = "gpu.scheduling/capacity-type"

STAY_BEHIND = ("DaemonSet", "Node")
"""Owners of pods that go with their node: it may be deleted with them on it."""

MICROS = 1_000_000


class CapacityType(StrEnum):
    ON_DEMAND = "OnDemand"
    SPOT = "Spot"


class TaintEffect(StrEnum):
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Failure(StrEnum):
    """What can be wrong with a cloud. The closed list: it labels the metric and the condition."""

    CAPACITY = "NoCapacity"
    QUOTA = "QuotaReached"
    THROTTLED = "Throttled"
    REFUSED = "Refused"
    NEVER_JOINED = "NeverJoined"
    """An instance was made, and no usable node came of it."""
    UNKNOWN = "OutcomeUnknown"
    """The answer to a purchase was lost: it is asked for again."""


class GpuTemplate(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The GPUs of a new node, all alike."""

    model: str
    count: int
    memory: int = 0
    """Bytes of each."""
    islands: int = 1
    """Equal NVLink groups; as many as GPUs means that each stands alone."""
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
    """What a new node of a pool will be like."""

    gpus: GpuTemplate
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    resources: dict[str, int] = {}
    """Allocatable in thousandths, GPUs left out: `gpus` says how many."""
    capacity_type: CapacityType = CapacityType.ON_DEMAND
    price: int = 0
    """Millionths per hour and node."""
    zones: tuple[str, ...] = ()
    """Where nodes may come up; anywhere if none is named."""


class ConsolidationPolicy(StrEnum):
    """Who takes nodes away from a pool."""

    EMPTY_ONLY = "EmptyOnly"
    """The provisioner, when they are empty."""
    DRAIN = "Drain"
    """The drain loop, also those whose pods have a place elsewhere."""


class Consolidation(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """How nodes go. Times in seconds."""

    policy: ConsolidationPolicy = ConsolidationPolicy.EMPTY_ONLY
    unneeded: float = 600.0
    unready: float = 1200.0
    used_milli: int = 500
    """GPUs in use, in thousandths of those of a node, up to which it may go."""
    most_at_once: int = 10
    most_drains: int = 5
    deprecated: tuple[str, ...] = ()
    """Fields that were given by an old name."""

    @property
    def drains(self) -> bool:
        return self.policy is ConsolidationPolicy.DRAIN


class Thresholds(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """How large a pool may be, and when it shrinks. Times in seconds."""

    min_size: int = 0
    max_size: int
    min_utilization_percent: int = 0
    """GPUs in use below which nodes go; 0 never shrinks."""
    min_unutilized_nodes: int = 0
    """Empty nodes that stay whatever utilisation says. They are kept, never bought."""
    scale_down_delay: float = 600.0
    scale_up_batch: float = 0.0
    boot_deadline: float = 900.0
    paused: bool = False
    recommend_only: bool = False


class BackOff(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Why a provisioner may not buy, and until when."""

    failure: Failure
    failures: int
    """In a row."""
    until: float
    message: str = ""


class Purchase(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Nodes asked for whose outcome is not known yet."""

    serial: int
    count: int
    since: float
    zone: str = ""
    least: int = 0
    """Fewer than this are of no use."""


class Awaited(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An instance the provider said it made, which may not be listed yet."""

    instance: str
    since: float


class Provisioner(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts of one NodeProvisioner."""

    name: str
    uid: str
    generation: int
    template: NodeTemplate
    thresholds: Thresholds
    provider: str
    parameters: dict[str, str] = {}
    consolidation: Consolidation = Consolidation()
    purchase: Purchase | None = None
    """The open one, if any."""
    purchases: int = 0
    """How many were begun: the next one's serial."""
    awaited: tuple[Awaited, ...] = ()
    back_off: BackOff | None = None


class PoolNode(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One node or instance of a pool. Capacity and use in thousandths of GPUs."""

    name: str
    """Of the Node, or of the instance where there is none yet."""
    instance: str = ""
    """As the provider knows it; empty where it does not."""
    since: float = 0.0
    capacity: int
    """As it will be, where its GPUs have not appeared yet."""
    used: int = 0
    """Requested by pods on it."""
    assumed: int = 0
    """Wanted by waiting pods that would fit on it."""
    empty: bool = True
    """No pod on it that matters, and none assumed."""
    registered: bool = True
    """There is a Node to taint."""
    coming: bool = False
    lost: bool = False
    protected: bool = False
    delete_after: float | None = None
    """The time in its taint."""
    draining: bool = False
    """Its pods are being moved away, and then it goes: that is not ours to undo."""

    @property
    def doomed(self) -> bool:
        return self.delete_after is not None


class FleetBudget(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What all pools together may have. What is None is not limited."""

    gpus: int | None = None
    price: int | None = None
    """Millionths per hour."""


def token_of(provisioner: Provisioner, serial: int) -> str:
    """What a purchase is called, so that asking again buys nothing more. Fits the shortest limit there is (64)."""
    return f"ullage-{provisioner.uid[:36]}-{serial}"


def labels_of(provisioner: Provisioner, zone: str = "") -> dict[str, str]:
    """Labels every node of a pool has."""
    template = provisioner.template
    own = {PROVISIONER_LABEL: provisioner.name, CAPACITY_LABEL: template.capacity_type.value}
    return template.labels | own | ({ZONE_LABEL: zone} if zone else {})


def template_node(provisioner: Provisioner, name: str, *, zone: str = "", now: float) -> tuple[Node, Inventory]:
    """A node as it will be when it has come up, and what its agent will say."""
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
