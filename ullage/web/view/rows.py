"""Rows sent to browsers, by section and key. Frozen and comparable, so that only differences are sent.

Field names are the page's; fields at their default are left out. Times are seconds since the epoch.
"""

from enum import StrEnum

import msgspec


class GpuCell(StrEnum):
    """State of a GPU as one letter. The GPUs of a node are a string."""

    FREE = "f"
    LEASED = "l"
    SHARED = "s"
    RESERVED = "r"
    """A Lease is held and no pod on the node accounts for it: a bind under way, or a GPU in quarantine."""
    UNHEALTHY = "u"
    COMING = "c"
    """The node is not usable yet."""


class ViewRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Base of all rows."""


class GpuHolder(ViewRow, frozen=True, kw_only=True):
    """Holder of GPUs of a node."""

    pod: str
    """`namespace/name`; empty if no pod is known."""
    what: str = ""
    """Lease, ResourceClaim or process that holds the GPUs, if there is no pod."""
    gpus: tuple[int, ...] = ()
    """GPU ids; empty if they are not known."""
    count: int = 0
    """Number of whole GPUs, if the ids are not known."""
    milli: int = 1000
    leaving: bool = False
    workload: str = ""
    """Kind and name of the pod's owner or gang: `Deployment/chat`."""


class NodeRow(ViewRow, frozen=True, kw_only=True):
    """One node of the map."""

    name: str
    pool: str = ""
    model: str = ""
    zone: str = ""
    states: str = ""
    """`GpuCell` letters, by id."""
    ids: tuple[int, ...] = ()
    """Ids of these GPUs; left out if they are 0, 1, 2 and so on."""
    islands: tuple[int, ...] = ()
    """Island of each GPU; left out if islands are not known."""
    taken: tuple[int, ...] = ()
    """Thousandths of each GPU that are held; left out if no GPU is held in part."""
    holders: tuple[GpuHolder, ...] = ()
    pods: int = 0
    """Pods that have to leave before the node can be deleted."""
    counted: bool = False
    """True for a counted node: a device plugin chooses its GPUs."""
    ready: bool = True
    cordoned: bool = False
    stale: bool = False
    """The agent's last report is too old: the node takes no GPU pods."""
    protected: bool = False
    deletion_time: float | None = None
    draining_since: float | None = None
    candidate_since: float | None = None
    created: float = 0.0
    idle_since: tuple[int, ...] = ()
    """Instants since which each free GPU has been free, in the order of the GPUs; a single one if all are the same."""


class PendingRow(ViewRow, frozen=True, kw_only=True):
    """A pending pod."""

    pod: str
    asks: str
    """Request in words: `4 x H100`."""
    gpus: int = 0
    since: float
    priority: int = 0
    scheduler: str = ""
    gang: str = ""
    reason: str = ""
    """A Reason of `model.verdict`; empty until the first answer."""
    message: str = ""
    nominated: str = ""
    workload: str = ""


class WaitingGroupRow(ViewRow, frozen=True, kw_only=True):
    """Pods of one workload that wait for the same reason, with one suggested action."""

    namespace: str
    workload: str
    """Kind and name: `Deployment/chat`."""
    reason: str = ""
    sentence: str = ""
    count: int
    pods: tuple[str, ...]
    """First of them, the oldest first."""
    gpus: int = 0
    since: float
    action: str = ""
    commands: tuple[str, ...] = ()


class BannerRow(ViewRow, frozen=True, kw_only=True):
    """Something that on-call should know, with the next step."""

    kind: str
    """A `BannerKind`."""
    about: str = ""
    """Pool or nodes concerned."""
    sentence: str
    action: str = ""
    bad: bool = False
    """True if GPUs or pods are lost to it now; False for a warning."""


class PoolRow(ViewRow, frozen=True, kw_only=True):
    """A NodeProvisioner."""

    name: str
    model: str = ""
    gpus: int = 0
    """GPUs of one node."""
    islands: int = 1
    price: float = 0.0
    """Price of one node per hour; 0 if it has none."""
    capacity_type: str = ""
    provider: str = ""
    current: int | None = None
    target: int | None = None
    coming: int | None = None
    least: int = 0
    most: int = 0
    utilization: int | None = None
    paused: bool = False
    recommend_only: bool = False
    blocked: str = ""
    """Reason why nothing is bought now."""
    blocked_until: float | None = None
    decision: str = ""
    decided_at: float | None = None
    why: str = ""


class LimitBar(ViewRow, frozen=True, kw_only=True):
    """One limit of a quota: GPUs, GPUs of a model, or thousandths of shared GPUs."""

    what: str
    used: int
    most: int


class QuotaRow(ViewRow, frozen=True, kw_only=True):
    """A GpuQuota: what is held of each limit, and how many pods wait for it."""

    quota: str
    """`namespace/name`."""
    namespace: str
    limits: tuple[LimitBar, ...] = ()
    waiting: int = 0
    """Pods of the namespace whose obstacle is the quota."""


class GangRow(ViewRow, frozen=True, kw_only=True):
    """A gang: members that exist, are on nodes and wait."""

    gang: str
    """`namespace/name`."""
    namespace: str
    needs: int = 0
    """Members it needs at least; 0 if nobody says."""
    members: int = 0
    bound: int = 0
    waiting: int = 0
    nodes: int = 0
    priority: int = 0
    since: float | None = None
    """Creation of the oldest member that waits."""
    reason: str = ""
    message: str = ""
    first: str = ""
    """First member that waits, or else the first one."""


class PreemptionRow(ViewRow, frozen=True, kw_only=True):
    """A pod for which room is being made: the node, and the pods that leave it."""

    pod: str
    node: str
    priority: int = 0
    gpus: int = 0
    since: float
    """First sight of it."""
    leaving: tuple[str, ...] = ()
    more: int = 0


class DrainRow(ViewRow, frozen=True, kw_only=True):
    """A node that is being drained, with the pods that are still on it."""

    node: str
    pool: str = ""
    since: float = 0.0
    left: int = 0
    pods: tuple[str, ...] = ()
    """First of them."""
    leaving: int = 0
    """Pods among them that are ending."""
    stuck: bool = False


class NodeClaimStep(ViewRow, frozen=True, kw_only=True):
    """A condition of a NodeClaim that holds."""

    name: str
    after: float = 0.0
    """Seconds since the NodeClaim was created."""


class CapacityRow(ViewRow, frozen=True, kw_only=True):
    """A request that Karpenter serves, or a NodeClaim whose request is served or over."""

    request: str
    smart_pod: str = ""
    """`namespace/name`; empty if the smart pod is gone."""
    pods: tuple[str, ...] = ()
    """Waiting pods of the request; empty for a NodeClaim alone."""
    state: str
    """State of the request, or the last step of the NodeClaim."""
    status: str = ""
    since: float
    attempts: int = 0
    node_pool: str = ""
    unprotected: bool = False
    """The NodePool's nodes are open to rivals before their hand-over."""
    node_claim: str = ""
    claimed_at: float | None = None
    steps: tuple[NodeClaimStep, ...] = ()
    node: str = ""
    expected: float | None = None
    """Instant at which the node is expected: half of the earlier NodeClaims that took as long were Ready by then."""
    latest: float | None = None
    """The same for nine of ten."""


class DecisionRow(ViewRow, frozen=True, kw_only=True):
    """A decision and its reason."""

    at: float
    reason: str
    kind: str
    about: str
    note: str
    warning: bool = False
    by: str = ""
    """Program that decided: scheduler, controller, agent."""
    count: int = 1
    """Times it was announced, from `first` to `at`."""
    first: float | None = None
    """First announcement, if there were several and it is known."""


class Totals(ViewRow, frozen=True, kw_only=True):
    """Totals of the cluster. GPUs in units, money in the currency of node prices."""

    nodes: int = 0
    gpus: int = 0
    allocated: float = 0.0
    idle: float = 0.0
    broken: int = 0
    pending: int = 0
    pending_gpus: int = 0
    price: float = 0.0
    """Price per hour of all nodes that have one."""
    waste: float = 0.0
    """Part of the price that is for idle and broken GPUs."""
    gpu_hours: float = 0.0
    """GPU hours. This field and the next three count from `since` on."""
    idle_gpu_hours: float = 0.0
    cost: float = 0.0
    wasted: float = 0.0
    unpriced: int = 0
    """Nodes with GPUs and without a price."""
    since: float = 0.0


class Sample(ViewRow, frozen=True, kw_only=True):
    """Means over one span of time."""

    at: float
    """Start of the span."""
    width: float
    gpus: float = 0.0
    allocated: float = 0.0
    broken: float = 0.0
    pending: float = 0.0
    price: float = 0.0
    waste: float = 0.0


class PageInfo(ViewRow, frozen=True, kw_only=True):
    """State of the page itself."""

    title: str = ""
    caption: str = ""
    speed: float = 1.0
    currency: str = "$"
    synced: bool = False
    """True if the whole cluster has been read once."""
    trouble: str = ""
    """Reason why the page may be out of date."""
    history: str = ""
    """Reason why the history is not kept just now."""
    keeps_history: bool = False
    """True if the past can be asked for."""


class LedgerBar(ViewRow, frozen=True, kw_only=True):
    """One resource of a node in the VM ledger: thousandths of a core, or bytes."""

    total: int
    system: int
    watermark: int
    reserved: int
    buffer: int
    denied: int
    """Capacity pressure: asked for by VMs and not granted."""
    leaving: int
    """Pressure accounted for by VMs that are being migrated away."""


class VmNodeRow(ViewRow, frozen=True, kw_only=True):
    """Ledger of one node that runs VMs."""

    node: str
    vms: int
    moving: int
    """VMs that are being migrated away."""
    cpu: LedgerBar
    memory: LedgerBar


AnyRow = (
    VmNodeRow
    | NodeRow
    | PendingRow
    | WaitingGroupRow
    | BannerRow
    | PoolRow
    | QuotaRow
    | GangRow
    | PreemptionRow
    | DrainRow
    | CapacityRow
    | DecisionRow
    | Totals
    | Sample
    | PageInfo
)
