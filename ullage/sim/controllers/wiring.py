"""ControllerManager: puts simulated kubelets and controllers together and runs them once informers have synced."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ullage.clock import Clock
from ullage.errors import ApiError
from ullage.kube.client import resources as known
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resource import Resource
from ullage.kube.objects.meta import HasMeta, PartialObject
from ullage.sim.controllers import object_cache as indexed
from ullage.sim.controllers import objects
from ullage.sim.controllers.controller_loop import ControllerLoop
from ullage.sim.controllers.disruption_loop import DisruptionController, ScaleTargets
from ullage.sim.controllers.garbage_loop import GarbageCollector
from ullage.sim.controllers.namespace import NamespaceLoop
from ullage.sim.controllers.node_health import SILENCE_SECONDS
from ullage.sim.controllers.node_lifecycle_loop import NodeHealthLoop, TaintEvictionLoop
from ullage.sim.controllers.object_cache import ObjectCache
from ullage.sim.controllers.objects import ActorNode, ActorPod, AnyResource
from ullage.sim.controllers.pod_garbage_loop import PodGarbageLoop
from ullage.sim.controllers.workloads import (
    tend_daemon_sets,
    tend_deployments,
    tend_jobs,
    tend_replica_sets,
    tend_stateful_sets,
)
from ullage.sim.kubelet.fleet import KubeletFleet
from ullage.sim.kubelet.heartbeats import RENEWAL_SECONDS, Heartbeats
from ullage.sim.kubelet.timings import KubeletTimings
from ullage.watch.informer import Informer, InformerSpec, run_all, wait_all_synced

T = TypeVar("T", bound=HasMeta)

_ALSO_COLLECTED: tuple[AnyResource, ...] = (
    known.CONFIG_MAPS,
    known.SECRETS,
    known.SERVICES,
    known.SERVICE_ACCOUNTS,
    known.VOLUME_CLAIMS,
    known.PERSISTENT_VOLUMES,
)


@dataclass(frozen=True, slots=True)
class ControllerManagerSettings:
    """Settings that differ between simulations."""

    behaviour: KubeletTimings = field(default_factory=KubeletTimings)
    """Durations of what happens on nodes."""
    heartbeats: bool = False
    """Renew node leases and judge nodes by them. Without it all nodes live."""
    renewal_seconds: float = RENEWAL_SECONDS
    """With heartbeats: seconds between the writes of a node's lease."""
    node_silence_seconds: float = SILENCE_SECONDS
    """With heartbeats: seconds a node may be silent before it counts as unreachable."""
    ended_pods_kept: int = 12_500
    """Ended pods beyond this number are collected."""
    custom: tuple[AnyResource, ...] = ()
    """Further kinds that may own, be owned, scale, or be in a namespace being deleted."""
    seed: int = 0
    """Seed of the informers' jitter."""


class ControllerManager:
    """Kubelets and controllers over one API."""

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        settings: ControllerManagerSettings = ControllerManagerSettings(),  # noqa: B008 - frozen
        owns: Callable[[ActorNode], bool] = lambda _: True,
    ) -> None:
        self._api = api
        self._clock = clock
        self._rng = random.Random(settings.seed)
        self._informers: list[Informer[Any, Any]] = []
        self._awaited: list[Informer[Any, Any]] = []
        """Informers to wait for. Custom kinds are left out: they may be defined later, or never."""
        self._actors: list[ControllerLoop[Any]] = []
        self._controllers: list[ControllerLoop[Any]] = []
        """Loops of kube-controller-manager among them."""
        self._started = asyncio.Event()
        self.kubelets = self._assemble(settings, owns)

    async def run(self) -> None:
        """Run until cancelled. A bug in one loop ends all."""
        async with asyncio.TaskGroup() as group:
            group.create_task(run_all(*self._informers), name="informers")
            await wait_all_synced(*self._awaited)
            for actor in self._actors:
                group.create_task(actor.run(), name=actor.name)
            self._started.set()

    async def wait_started(self) -> None:
        """Wait until the informers have synced and all loops run."""
        await self._started.wait()

    def stop_controllers(self) -> None:
        """Pause kube-controller-manager: kubelets go on, and no controller creates or counts pods."""
        for actor in self._controllers:
            actor.stop()

    def let_controllers_go_on(self) -> None:
        for actor in self._controllers:
            actor.go_on()

    def refusals(self) -> dict[str, ApiError]:
        """API errors of keys being retried, by actor and key."""
        return {f"{actor.name} {key}": error for actor in self._actors for key, error in actor.refusals.items()}

    def is_idle(self) -> bool:
        """True if no loop works or has work waiting (deadlines aside)."""
        return all(actor.queue.idle() for actor in self._actors)

    def _assemble(self, settings: ControllerManagerSettings, owns: Callable[[ActorNode], bool]) -> KubeletFleet:
        api, clock = self._api, self._clock
        pods = self._cache(objects.PODS, node=_by_node, **_as_children())
        nodes = self._cache(objects.NODES)
        leases = self._cache(known.LEASES)
        replica_sets = self._cache(known.REPLICA_SETS, **_as_children())
        deployments = self._cache(objects.DEPLOYMENTS)
        stateful_sets = self._cache(objects.STATEFUL_SETS)
        daemon_sets = self._cache(objects.DAEMON_SETS)
        revisions = self._cache(objects.REVISIONS, **_as_children())
        jobs = self._cache(objects.JOBS)
        budgets = self._cache(known.BUDGETS)
        namespaces = self._cache(objects.NAMESPACES)
        others = {each.id: self._cache(_partly(each)) for each in _ALSO_COLLECTED}
        self._awaited = list(self._informers)
        others |= {each.id: self._cache(_partly(each)) for each in settings.custom}
        workloads: list[ObjectCache[Any]] = [replica_sets, deployments, stateful_sets, daemon_sets, revisions, jobs]
        everything: list[ObjectCache[Any]] = [pods, nodes, leases, budgets, namespaces, *workloads, *others.values()]
        contents = [cache for cache in everything if cache.resource.namespaced]

        fleet = KubeletFleet(api, clock, pods, nodes, settings.behaviour, owns)
        scales = ScaleTargets(api, replica_sets, deployments, stateful_sets, settings.custom)
        claims = others[known.VOLUME_CLAIMS.id]
        self._controllers = [
            tend_replica_sets(api, clock, replica_sets, pods).actor,
            tend_deployments(api, clock, deployments, replica_sets, pods).actor,
            tend_stateful_sets(api, clock, stateful_sets, pods, revisions, claims).actor,
            tend_daemon_sets(api, clock, daemon_sets, pods, nodes).actor,
            tend_jobs(api, clock, jobs, pods).actor,
            DisruptionController(api, clock, budgets, pods, scales).actor,
            GarbageCollector(api, clock, everything).actor,
            PodGarbageLoop(api, clock, pods, nodes, kept=settings.ended_pods_kept).actor,
            NamespaceLoop(api, clock, namespaces, contents).actor,
            TaintEvictionLoop(api, clock, nodes, pods).actor,
        ]
        if settings.heartbeats:
            health = NodeHealthLoop(api, clock, nodes, pods, patience=settings.node_silence_seconds)
            leases.listen(health.lease_changed)
            self._actors.append(Heartbeats(api, clock, fleet, nodes, settings.renewal_seconds).actor)
            self._controllers.append(health.actor)
        self._actors += [fleet.pod_actor, fleet.node_actor, *self._controllers]
        return fleet

    def _cache(self, resource: Resource[T], **further: indexed.Index[T]) -> ObjectCache[T]:
        """A cache fed by an informer of its own, indexed by namespace and owners, and further."""
        cache = ObjectCache(resource, {"namespace": indexed.by_namespace, "owners": indexed.by_owners, **further})
        interest = InformerSpec(resource, read=_as_it_is)
        self._informers.append(Informer(self._api, interest, cache.take_in, rng=self._rng, clock=self._clock))
        return cache


def _as_children() -> dict[str, Callable[[HasMeta], tuple[str, ...]]]:
    """Indexes of what controllers own."""
    return {
        "controller": indexed.by_controller,
        "orphan": indexed.by_orphan_labels,
        "uid": indexed.by_uid,
    }


def _by_node(pod: ActorPod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def _as_it_is(thing: T) -> T:
    return thing


def _partly(resource: AnyResource) -> Resource[PartialObject]:
    return Resource(
        resource.group, resource.version, resource.plural, resource.kind, resource.namespaced, PartialObject
    )


@asynccontextmanager
async def start_actors(
    api: KubeApi,
    clock: Clock,
    settings: ControllerManagerSettings = ControllerManagerSettings(),  # noqa: B008 - frozen
    owns: Callable[[ActorNode], bool] = lambda _: True,
) -> AsyncIterator[ControllerManager]:
    """Kubelets and controllers that have observed all objects and run until the block ends. A bug in one ends it."""
    actors = ControllerManager(api, clock, settings, owns)
    block = asyncio.current_task()
    task = asyncio.create_task(actors.run(), name="actors")
    task.add_done_callback(lambda done: block.cancel() if block and not done.cancelled() and done.exception() else None)
    try:
        await actors.wait_started()
        yield actors
    except asyncio.CancelledError:
        if not task.done() or task.cancelled() or (broken := task.exception()) is None:
            raise
        if block is not None:
            block.uncancel()
        raise broken from None
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
