"""What a simulated world is made of, and what arrives in it. Plain frozen data: it can be written and read back."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ullage.control.draining.settings import DrainingSettings
from ullage.control.provisioning.start import ControllerSettings
from ullage.control.scheduling.start import SchedulerSettings
from ullage.kube.resource import JsonObject
from ullage.model.provisioner import NodeTemplate
from ullage.sim.actors.start import ActorSettings
from ullage.sim.apiserver.weather import Latency
from ullage.sim.time import EPOCH

SCHEDULER, PROVISIONING, DRAINING = "scheduler", "provisioning", "draining"
EVERY_LOOP = (SCHEDULER, PROVISIONING, DRAINING)
"""Loops by name. The scheduler brings the keeper of claims and the sweeper of leases with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetNode:
    """A node that is there from the beginning."""

    name: str
    template: NodeTemplate
    pool: str = ""
    """The NodeProvisioner it belongs to: the cloud then has a machine for it, which can be given back."""
    labels: Mapping[str, str] = field(default_factory=dict)
    zone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudSpec:
    """How the cloud is. What a NodeProvisioner's parameters say counts first. Times in seconds."""

    boot_seconds: float = 120.0
    """From a purchase to a Ready node."""
    gpu_seconds: float = 10.0
    """From there to its GPUs."""
    latency: float = 0.5
    """Of every call."""
    list_lag: float = 0.0
    """By which lists are old."""
    quota: int | None = None
    """Machines there may be in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSpec:
    """A cluster and those who work in it."""

    seed: int = 0
    nodes: tuple[FleetNode, ...] = ()
    objects: tuple[JsonObject, ...] = ()
    """Manifests that are there from the beginning, made in this order, with their status."""
    restored: tuple[JsonObject, ...] = ()
    """Objects of a cluster that was, as they were: with their identity, their times and their status."""
    epoch: float = EPOCH
    """When it begins, in Unix seconds."""
    loops: tuple[str, ...] = EVERY_LOOP
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    controller: ControllerSettings = field(default_factory=ControllerSettings)
    draining: DrainingSettings = field(default_factory=DrainingSettings)
    cloud: CloudSpec = field(default_factory=CloudSpec)
    actors: ActorSettings = field(default_factory=ActorSettings)
    latency: Latency = field(default_factory=lambda: Latency(default=0.004, spread=0.5, watch=0.01))
    """Between each loop and the API server."""
    faults: bool = False
    """Networks and machines may fail: watches end and resync, agents and kubelets say that they live."""
    invariants: bool = True
    keep_events_seconds: float = 3600.0
    """Kubernetes Events are forgotten after that time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Objects that somebody creates at a moment, and perhaps deletes at a later one."""

    at: float
    """Seconds since the beginning."""
    objects: tuple[JsonObject, ...]
    """Manifests, created in this order."""
    leaves_at: float | None = None
    """When they are deleted, the last one first, whatever has become of them."""
    tidy: bool = True
    """They are deleted when all their pods have finished."""
    again: bool = False
    """Pods of it that are evicted are made again when they are gone, as a Job would, and begin their work anew."""
