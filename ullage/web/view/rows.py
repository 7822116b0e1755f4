"""What a browser gets: rows by section and key. Frozen and comparable, so that only what differs is sent.

Field names are the page's; what is at its default is left out. Times are seconds since the epoch.
"""

from enum import StrEnum

import msgspec


class GpuState(StrEnum):
    """One letter a GPU: a node's GPUs are a string."""

    FREE = "f"
    LEASED = "l"
    SHARED = "s"
    RESERVED = "r"
    """Its Lease is held, and no pod on the node accounts for it: a bind under way, or a GPU that is being cleared."""
    UNHEALTHY = "u"
    COMING = "c"
    """Its node is not usable yet."""


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The base of all rows."""


class Holder(Row, frozen=True, kw_only=True):
    """Who has GPUs of a node."""

    pod: str
    """`namespace/name`; empty where no pod is known for it."""
    what: str = ""
    """In words, where there is no pod: the Lease or ResourceClaim that holds it."""
    gpus: tuple[int, ...] = ()
    """Empty where nobody can say which."""
    count: int = 0
    """How many whole ones, where nobody can say which."""
    milli: int = 1000
    leaving: bool = False


class NodeRow(Row, frozen=True, kw_only=True):
    """One node of the map."""

    name: str
    pool: str = ""
    model: str = ""
    zone: str = ""
    states: str = ""
    """`GpuState` letters, by id."""
    ids: tuple[int, ...] = ()
    """Of these GPUs; left out where they are 0, 1, 2 and so on."""
    islands: tuple[int, ...] = ()
    """The island of each GPU; left out where nothing is known of islands."""
    taken: tuple[int, ...] = ()
    """Thousandths of each GPU that are held; left out where none is held in part."""
    holders: tuple[Holder, ...] = ()
    pods: int = 0
    """Pods that have to leave before it can go."""
    counted: bool = False
    """A device plugin chooses its GPUs."""
    ready: bool = True
    cordoned: bool = False
    stale: bool = False
    """Its agent has not been heard of for too long: it takes no GPU pods."""
    protected: bool = False
    deletion_time: float | None = None
    draining_since: float | None = None
    candidate_since: float | None = None
    created: float = 0.0


class PendingRow(Row, frozen=True, kw_only=True):
    """A pod that waits."""

    pod: str
    asks: str
    """In words: `4 x H100`."""
    gpus: int = 0
    since: float
    priority: int = 0
    scheduler: str = ""
    gang: str = ""
    reason: str = ""
    """A word of `model.verdict`; empty while nobody has asked yet."""
    message: str = ""
    nominated: str = ""


class PoolRow(Row, frozen=True, kw_only=True):
    """A NodeProvisioner."""

    name: str
    model: str = ""
    gpus: int = 0
    """Of one node."""
    islands: int = 1
    price: float = 0.0
    """Of one node and hour; 0 where it has none."""
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
    """Why nothing is bought at this moment."""
    blocked_until: float | None = None
    decision: str = ""
    decided_at: float | None = None
    why: str = ""


class DecisionRow(Row, frozen=True, kw_only=True):
    """Something that was decided, and why."""

    at: float
    reason: str
    kind: str
    about: str
    note: str
    warning: bool = False
    by: str = ""
    """The program: scheduler, controller, agent."""
    count: int = 1


class Totals(Row, frozen=True, kw_only=True):
    """The cluster in numbers. GPUs in units, money per node price."""

    nodes: int = 0
    gpus: int = 0
    allocated: float = 0.0
    idle: float = 0.0
    broken: int = 0
    pending: int = 0
    pending_gpus: int = 0
    price: float = 0.0
    """Per hour, of all nodes that have one."""
    waste: float = 0.0
    """Of it, for idle and broken GPUs."""
    gpu_hours: float = 0.0
    """From here on: since counting began."""
    idle_gpu_hours: float = 0.0
    cost: float = 0.0
    wasted: float = 0.0
    unpriced: int = 0
    """Nodes with GPUs and without a price."""
    since: float = 0.0


class Sample(Row, frozen=True, kw_only=True):
    """Means over one span of time."""

    at: float
    """Where it begins."""
    width: float
    gpus: float = 0.0
    allocated: float = 0.0
    broken: float = 0.0
    pending: float = 0.0
    price: float = 0.0
    waste: float = 0.0


class About(Row, frozen=True, kw_only=True):
    """The page itself."""

    title: str = ""
    caption: str = ""
    speed: float = 1.0
    currency: str = "$"
    heard: bool = False
    """Whether the whole cluster has been read once."""
    trouble: str = ""
    """Why what is shown may be old."""


AnyRow = NodeRow | PendingRow | PoolRow | DecisionRow | Totals | Sample | About
