"""Chaos stories: nodes, jobs and faults of one run as plain frozen data, written and read as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

import msgspec

from ullage.errors import UserError

T = TypeVar("T")
FORMAT = "ullage-chaos/1"


class JobKind(Enum):
    """Feature that a job uses."""

    WHOLE = "whole"
    """A pod with whole GPUs and no claim."""
    CLAIM = "claim"
    """A pod with a claim for whole GPUs."""
    SHARED = "shared"
    """A pod with a claim for a part of a GPU."""
    MIG = "mig"
    """A pod with a claim for a MIG instance."""
    ISLAND = "island"
    """A pod with a claim whose GPUs must be joined by NVLink."""
    GANG = "gang"
    """Three pods that start together or not at all."""
    TEMPLATE = "template"
    """A Deployment whose pods get a claim each, with a PodDisruptionBudget."""
    QUOTA = "quota"
    """A pod with a claim in a namespace that has a GpuQuota."""
    COUNTED = "counted"
    """A pod whose claim wants a counted node, and whose containers ask for all GPUs themselves."""
    PLAIN = "plain"
    """A pod without GPUs."""
    VOLUME = "volume"
    """A pod with a claim and a volume that only the first node can reach."""
    VM = "vm"
    """A VM that its agent resizes and that may be migrated."""


class FaultKind(Enum):
    """Kind of a fault. Each value is the word a story is printed with."""

    REFUSED = "connections-refused"
    LOST = "answers-lost"
    THROTTLED = "429"
    BROKEN = "500"
    UNAVAILABLE = "503"
    CONFLICT = "409"
    EXPIRED = "410"
    SLOW = "slow-calls"
    PARTITION = "partition"
    STALE_WATCH = "watches-behind"
    CUT_WATCHES = "watches-cut"
    COMPACT = "history-compacted"
    CRASH = "crash"
    CRASH_BEFORE_CALL = "crash-before-a-call"
    CRASH_AFTER_CALL = "crash-after-a-call"
    FREEZE = "process-stopped"
    FREEZE_AFTER_CALL = "process-stopped-after-a-call"
    CLOCK = "clock-wrong"
    CLOUD_NO_CAPACITY = "cloud-has-none-left"
    CLOUD_LOST = "cloud-answers-lost"
    CLOUD_THROTTLED = "cloud-throttles"
    CLOUD_SLOW = "cloud-slow"
    CLOUD_STALE = "cloud-lists-behind"
    CLOUD_NEVER_JOINS = "instances-never-join"
    GPU_DIES = "gpu-dies"
    AGENT_SILENT = "agent-silent"
    AGENT_CLOCK = "agent-clock-wrong"
    """The agent reports by a wrong clock, and then not at all for a while."""
    FOREIGN_POD = "foreign-pod-uses-gpu"
    """A pod that another scheduler has bound uses a GPU that nobody holds."""
    OUTLIVED = "container-outlives-pod"
    """The kubelet of a pod stands still while the pod is deleted by force: its containers run on."""
    MIG_SWITCHED = "mig-switched"
    DEVICE_PLUGIN = "device-plugin-restarts"
    """A node has no GPUs to give by its own word, while its pods run on."""
    MACHINE_DIES = "machine-dies"
    """The cloud takes an instance of a pool back."""
    KUBELET_STOPS = "kubelet-stops"
    CONTROLLERS_STOP = "controllers-stop"
    DELETE_POD = "user-deletes-pod"
    FORCE_DELETE_POD = "user-force-deletes-pod"
    DELETE_CLAIM = "user-deletes-claim"
    EDIT_CLAIM = "user-edits-claim"
    DELETE_LEASE = "user-deletes-lease"
    EDIT_LEASE = "user-edits-lease"
    """The Lease of a GPU names a holder that does not exist."""
    DELETE_RESERVATION = "user-deletes-reservation"
    """By force: its finalizer is removed first."""
    DELETE_NODE = "user-deletes-node"
    UNTAINT_NODE = "user-removes-taints"
    EDIT_ANNOTATIONS = "user-removes-annotations"
    """Of a node."""
    EDIT_BUDGET = "user-tightens-budget"
    """No pod of a Deployment may be disrupted any more, for a time."""
    EDIT_PROVISIONER = "user-edits-provisioner"
    KARPENTER_NO_CAPACITY = "karpenter-has-none-left"
    KARPENTER_STOPS = "karpenter-stops"
    DELETE_SMART_POD = "user-deletes-smart-pod"
    DELETE_NODE_CLAIM = "user-deletes-nodeclaim"
    PERMITS_UNREACHABLE = "permits-unreachable"
    VM_BURST = "vms-busy"
    DELETE_MIGRATION = "user-deletes-migration"


NETWORK_FAULTS = (
    FaultKind.REFUSED,
    FaultKind.LOST,
    FaultKind.THROTTLED,
    FaultKind.BROKEN,
    FaultKind.UNAVAILABLE,
    FaultKind.CONFLICT,
    FaultKind.EXPIRED,
)
"""Faults of single calls. Each strikes a share of the calls of one process for a time."""
_STOPS = (FaultKind.FREEZE, FaultKind.FREEZE_AFTER_CALL, FaultKind.PARTITION)
KARPENTER_FAULTS = (
    FaultKind.KARPENTER_NO_CAPACITY,
    FaultKind.KARPENTER_STOPS,
    FaultKind.DELETE_SMART_POD,
    FaultKind.DELETE_NODE_CLAIM,
)
VM_FAULTS = (FaultKind.PERMITS_UNREACHABLE, FaultKind.VM_BURST, FaultKind.DELETE_MIGRATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosNode:
    """A node that exists from the beginning."""

    gpus: int = 4
    islands: int = 1
    mig: bool = False
    """True if its GPUs are partitioned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosPool:
    """A NodeProvisioner."""

    name: str
    most: int
    least: int = 0
    drain: bool = False
    """True if busy nodes are drained too, not only empty ones removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosJob:
    """Objects that a user creates at one time."""

    name: str
    at: float
    kind: JobKind
    gpus: int = 1
    seconds: float | None = None
    """Seconds its pods run; None for ever."""
    priority: int = 0
    leaves_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosFault:
    """One fault, from `at` for `seconds`."""

    at: float
    kind: FaultKind
    pick: int = 0
    """Target: the candidates at that time are sorted, and this number chooses one of them."""
    seconds: float = 0.0
    amount: float = 0.0
    """Share of calls, number of calls, or seconds, by kind."""
    only: str = ""
    """Calls that a fault strikes; empty for any. Rare calls are struck so.

    `delete` strikes calls of one verb, `scheduler list` those of one process, and `scheduler` only chooses the process.
    `scheduler delete leases` is one call site: the next call there is struck, and no later one.
    """

    @property
    def at_one_site(self) -> bool:
        """True if it strikes one call site, once."""
        return self.only.count(" ") == 2

    def one_of(self, candidates: Sequence[T]) -> T:
        """Target among candidates, of which there is one at least."""
        return candidates[self.pick % len(candidates)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosStory:
    """One run: what is there, what comes, and what goes wrong."""

    seed: int
    nodes: tuple[ChaosNode, ...]
    pools: tuple[ChaosPool, ...] = ()
    jobs: tuple[ChaosJob, ...] = ()
    faults: tuple[ChaosFault, ...] = ()
    replicas: int = 1
    """Schedulers; more than one elect a leader."""
    real_agents: bool = False
    """True if the agents' own code runs on the nodes."""
    karpenter: bool = False
    """True if Karpenter has a NodePool for claims that find no GPU, and a rival waits for its nodes."""
    dra: bool = False
    """True if a DRA driver publishes the GPUs of the nodes, too. Real agents would leave such nodes alone."""
    ends_at: float = field(default=1200.0)
    """Seconds after which no fault begins and all are healed."""

    @property
    def vms(self) -> bool:
        """True if VMs come."""
        return any(job.kind is JobKind.VM for job in self.jobs)

    @property
    def behind_seconds(self) -> float:
        """Seconds by which faults keep a process behind, at most: it decides or writes by what it knew before them."""
        late = [one.amount for one in self.faults if one.kind in (FaultKind.STALE_WATCH, FaultKind.SLOW)]
        cut = [one for one in self.faults if one.kind in NETWORK_FAULTS and not one.at_one_site]
        without = [one.seconds for one in (*cut, *(one for one in self.faults if one.kind in _STOPS))]
        return max(late, default=0.0) + max(without, default=0.0)

    @property
    def healed_at(self) -> float:
        """Seconds after which nothing is wrong any more."""
        return max([self.ends_at, *(fault.at + fault.seconds for fault in self.faults)])


def write_story(story: ChaosStory, failure: str = "") -> bytes:
    """JSON of a story, with the sentence of its failure."""
    plain = {"format": FORMAT, "failure": failure, "story": msgspec.to_builtins(story)}
    return msgspec.json.format(msgspec.json.encode(plain), indent=1) + b"\n"


def read_story(text: bytes, source: str) -> ChaosStory:
    """Story of a file. Raises UserError that names the file and the field."""
    try:
        plain = msgspec.json.decode(text)
        if not isinstance(plain, dict) or plain.get("format") != FORMAT:
            raise UserError(f"{source}: not a chaos story (format {FORMAT})")
        return msgspec.convert(plain.get("story"), ChaosStory)
    except msgspec.MsgspecError as error:
        raise UserError(f"{source}: {error}") from error


def story_in_lines(story: ChaosStory) -> list[str]:
    """Story in lines for people, in the order of time."""
    nodes = ", ".join(f"{one.gpus} GPUs{' (MIG)' if one.mig else ''}" for one in story.nodes) or "none"
    karpenter = "; with Karpenter" if story.karpenter else ""
    lines = [f"seed {story.seed}; nodes: {nodes}; schedulers: {story.replicas}{karpenter}"]
    lines += [
        f"pool {one.name}: {one.least} to {one.most} nodes, {'drained' if one.drain else 'removed when empty'}"
        for one in story.pools
    ]
    steps = [(job.at, _job_line(job)) for job in story.jobs] + [(one.at, _fault_line(one)) for one in story.faults]
    return lines + [f"{at:8.1f} s  {line}" for at, line in sorted(steps)]


def _job_line(job: ChaosJob) -> str:
    text = f"job {job.name}: {job.kind.value}, {job.gpus} GPUs"
    text += f", priority {job.priority}" if job.priority else ""
    text += f", runs {job.seconds:.0f} s" if job.seconds is not None else ""
    return text + (f", deleted at {job.leaves_at:.0f} s" if job.leaves_at is not None else "")


def _fault_line(fault: ChaosFault) -> str:
    text = f"fault {fault.kind.value}, pick {fault.pick}"
    text += f", for {fault.seconds:.1f} s" if fault.seconds else ""
    text += f", amount {fault.amount:g}" if fault.amount else ""
    return text + (f", only {fault.only}" if fault.only else "")
