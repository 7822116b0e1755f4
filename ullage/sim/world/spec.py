"""Specification of a simulated world and its arrivals. Plain frozen data: it can be written and read back."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ullage.config.settings import Settings
from ullage.kube.client.resource import JsonObject
from ullage.model.provisioner import GpuTemplate, NodeTemplate
from ullage.sim.apiserver.network_faults import Latency
from ullage.sim.controllers.wiring import ControllerManagerSettings
from ullage.sim.fleet.prices import PriceList
from ullage.sim.karpenter.solver import InstanceType
from ullage.sim.karpenter.timings import KarpenterTimings
from ullage.sim.virtual_time import EPOCH
from ullage.sim.world.vms import VmWorldSpec
from ullage.state.dump import RecordedStep

SCHEDULER, PROVISIONING, DRAINING = "scheduler", "provisioning", "draining"
KARPENTER = "karpenter"
EVERY_LOOP = (SCHEDULER, PROVISIONING, DRAINING)
"""Loops by name. The scheduler brings the ClaimController and the LeaseGarbageCollector with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetNode:
    """A node that exists from the beginning."""

    name: str
    template: NodeTemplate
    pool: str = ""
    """NodeProvisioner of the node. The cloud then has an instance for it, which can be terminated."""
    labels: Mapping[str, str] = field(default_factory=dict)
    zone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudSpec:
    """Behaviour of the cloud. Parameters of a NodeProvisioner override it. Times in seconds."""

    boot_seconds: float = 120.0
    """Time from a purchase to a Ready node."""
    gpu_seconds: float = 10.0
    """Time from a Ready node to its GPUs."""
    latency: float = 0.5
    """Latency of every call."""
    list_lag: float = 0.0
    """Age of the data in list responses."""
    quota: int | None = None
    """Instances that may exist in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KarpenterSpec:
    """Simulated Karpenter and kube-scheduler of a world. NodePools are objects; the settings are the world's."""

    types: tuple[InstanceType, ...]
    gpus: GpuTemplate
    """GPUs of every node; their number is the instance type's."""
    timings: KarpenterTimings = field(default_factory=KarpenterTimings)
    report_seconds: float = 10.0
    """Time from a Node to the first report of its agent."""
    boot_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that nodes give themselves, and that no NodePool knows: Karpenter buys for no pod that selects them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSpec:
    """A cluster and the processes that work in it."""

    seed: int = 0
    nodes: tuple[FleetNode, ...] = ()
    objects: tuple[JsonObject, ...] = ()
    """Manifests that exist from the beginning, created in this order, with their status."""
    restored: tuple[JsonObject, ...] = ()
    """Objects of an earlier cluster, with their identity, times and status."""
    epoch: float = EPOCH
    """Time at which the world begins, in Unix seconds."""
    loops: tuple[str, ...] = EVERY_LOOP
    settings: Settings = field(default_factory=Settings)
    """Settings of the processes, as live programs take them."""
    scheduler_replicas: int = 1
    """More than one: they elect a leader, as replicas of a Deployment do."""
    cloud: CloudSpec = field(default_factory=CloudSpec)
    karpenter: KarpenterSpec | None = None
    """Karpenter of the world; its loop runs in the controller."""
    kube_scheduler: bool = False
    """A simulated kube-scheduler with its Events, for the pods of others. With Karpenter there is one in any case."""
    actors: ControllerManagerSettings = field(default_factory=ControllerManagerSettings)
    latency: Latency = field(default_factory=lambda: Latency(default=0.004, spread=0.5, watch=0.01))
    """Latency between each loop and the API server."""
    faults: bool = False
    """Networks and machines may fail: watches end and resync, agents and kubelets send heartbeats."""
    controller_metrics: bool = False
    """Keep the metrics of the controller, too. Those of the scheduler are always kept."""
    invariants: bool = True
    vms: VmWorldSpec | None = None
    """Kinds, controller and agents of VMs; None: there are none."""
    prices: PriceList = field(default_factory=PriceList)
    """Prices of nodes that state none. No decision depends on them."""
    keep_events_seconds: float = 3600.0
    """Lifetime of Kubernetes Events."""
    steps: tuple[RecordedStep, ...] = ()
    """Steps that users and machines take later, as recorded in a cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Objects that a user creates at one time, and may delete at a later one."""

    at: float
    """Seconds since the beginning."""
    objects: tuple[JsonObject, ...]
    """Manifests, created in this order."""
    leaves_at: float | None = None
    """Time at which they are deleted, last one first, finished or not. None: not at a set time."""
    tidy: bool = True
    """True if they are deleted when all their pods have finished."""
    again: bool = False
    """True if evicted pods are created again once they are gone, as a Job would, and start their work anew."""
