"""Puts the actors together and runs them: informers first, and once all have seen everything, everybody else."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ullage.clock import Clock
from ullage.kube import resources as known
from ullage.kube.api import KubeApi
from ullage.kube.objects.meta import HasMeta, PartialObject
from ullage.kube.resource import Resource
from ullage.sim.actors import cache as indexed
from ullage.sim.actors import shapes
from ullage.sim.actors.actor import Actor
from ullage.sim.actors.cache import Cache
from ullage.sim.actors.disruption_loop import DisruptionLoop, Scales
from ullage.sim.actors.garbage_loop import GarbageLoop
from ullage.sim.actors.heartbeat import Heartbeats
from ullage.sim.actors.kubelet import KubeletFleet
from ullage.sim.actors.kubelet_behaviour import Behaviour
from ullage.sim.actors.namespace_loop import NamespaceLoop
from ullage.sim.actors.node_loop import NodeHealthLoop, TaintEvictionLoop
from ullage.sim.actors.pod_garbage_loop import PodGarbageLoop
from ullage.sim.actors.shapes import ActorNode, AnyResource
from ullage.sim.actors.workloads import (
    tend_daemon_sets,
    tend_deployments,
    tend_jobs,
    tend_replica_sets,
    tend_stateful_sets,
)
from ullage.watch.informer import Informer, Interest, run_all, wait_all_synced

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
class ActorSettings:
    """What may differ between simulations."""

    behaviour: Behaviour = field(default_factory=Behaviour)
    """How long things take on nodes."""
    heartbeats: bool = False
    """Renew node leases and judge nodes by them: a write per node every ten seconds. Without it all nodes live."""
    ended_pods_kept: int = 12_500
    """Ended pods beyond this number are collected."""
    custom: tuple[AnyResource, ...] = ()
    """Further kinds that may own, be owned, scale, or lie in a namespace that goes."""
    seed: int = 0
    """Of the informers' jitter."""


class Actors:
    """Kubelets and controllers over one API."""

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        settings: ActorSettings = ActorSettings(),  # noqa: B008 - frozen
        owns: Callable[[ActorNode], bool] = lambda _: True,
    ) -> None:
        self._api = api
        self._clock = clock
        self._rng = random.Random(settings.seed)
        self._informers: list[Informer[Any, Any]] = []
        self._actors: list[Actor[Any]] = []
        self._started = asyncio.Event()
        self.kubelets = self._assemble(settings, owns)

    async def run(self) -> None:
        """Until cancelled. A bug in one ends all."""
        async with asyncio.TaskGroup() as group:
            group.create_task(run_all(*self._informers), name="informers")
            await wait_all_synced(*self._informers)
            for actor in self._actors:
                group.create_task(actor.run(), name=actor.name)
            self._started.set()

    async def wait_started(self) -> None:
        """Until everything there was has been seen and everybody works."""
        await self._started.wait()

    def is_idle(self) -> bool:
        """Does nobody work or have work waiting (deadlines aside)?"""
        return all(actor.queue.idle() for actor in self._actors)

    def _assemble(self, settings: ActorSettings, owns: Callable[[ActorNode], bool]) -> KubeletFleet:
        api, clock = self._api, self._clock
        pods = self._cache(shapes.PODS, node=lambda pod: (pod.spec.node_name,) if pod.spec.node_name else ())
        nodes = self._cache(shapes.NODES)
        leases = self._cache(known.LEASES)
        replica_sets = self._cache(known.REPLICA_SETS)
        deployments = self._cache(shapes.DEPLOYMENTS)
        stateful_sets = self._cache(shapes.STATEFUL_SETS)
        daemon_sets = self._cache(shapes.DAEMON_SETS)
        revisions = self._cache(shapes.REVISIONS)
        jobs = self._cache(shapes.JOBS)
        budgets = self._cache(known.BUDGETS)
        namespaces = self._cache(shapes.NAMESPACES)
        others = {each.id: self._cache(_partly(each)) for each in (*_ALSO_COLLECTED, *settings.custom)}
        workloads: list[Cache[Any]] = [replica_sets, deployments, stateful_sets, daemon_sets, revisions, jobs]
        everything: list[Cache[Any]] = [pods, nodes, leases, budgets, namespaces, *workloads, *others.values()]
        contents = [cache for cache in everything if cache.resource.namespaced]

        fleet = KubeletFleet(api, clock, pods, nodes, settings.behaviour, owns)
        scales = Scales(api, replica_sets, deployments, stateful_sets, settings.custom)
        budget_loop = DisruptionLoop(api, clock, budgets, pods, scales)
        for cache in (replica_sets, deployments, stateful_sets):
            cache.listen(_when_scaled(budget_loop))
        claims = others[known.VOLUME_CLAIMS.id]
        self._actors += [
            fleet.pod_actor,
            fleet.node_actor,
            tend_replica_sets(api, clock, replica_sets, pods).actor,
            tend_deployments(api, clock, deployments, replica_sets, pods).actor,
            tend_stateful_sets(api, clock, stateful_sets, pods, revisions, claims).actor,
            tend_daemon_sets(api, clock, daemon_sets, pods, nodes).actor,
            tend_jobs(api, clock, jobs, pods).actor,
            budget_loop.actor,
            GarbageLoop(api, clock, everything).actor,
            PodGarbageLoop(api, clock, pods, nodes, kept=settings.ended_pods_kept).actor,
            NamespaceLoop(api, clock, namespaces, contents).actor,
            TaintEvictionLoop(api, clock, nodes, pods).actor,
        ]
        if settings.heartbeats:
            self._actors += [
                Heartbeats(api, clock, fleet, nodes).actor,
                NodeHealthLoop(api, clock, nodes, leases, pods).actor,
            ]
        return fleet

    def _cache(self, resource: Resource[T], **further: indexed.Index[T]) -> Cache[T]:
        """A cache with the usual indexes, fed by an informer of its own."""
        usual: dict[str, indexed.Index[T]] = {
            "namespace": indexed.by_namespace,
            "controller": indexed.by_controller,
            "orphan": indexed.by_orphan_labels,
            "owners": indexed.by_owners,
            "uid": indexed.by_uid,
        }
        cache = Cache(resource, {**usual, **further})
        interest = Interest(resource, read=_as_it_is)
        self._informers.append(Informer(self._api, interest, cache.take_in, rng=self._rng, clock=self._clock))
        return cache


def _as_it_is(thing: T) -> T:
    return thing


def _partly(resource: AnyResource) -> Resource[PartialObject]:
    return Resource(
        resource.group, resource.version, resource.plural, resource.kind, resource.namespaced, PartialObject
    )


def _when_scaled(loop: DisruptionLoop) -> Callable[[Any, Any], None]:
    def changed(old: Any, new: Any) -> None:
        if old is None or new is None or old.spec.replicas != new.spec.replicas:
            loop.wake_namespace((new or old).metadata.namespace)

    return changed


@asynccontextmanager
async def start_actors(
    api: KubeApi,
    clock: Clock,
    settings: ActorSettings = ActorSettings(),  # noqa: B008 - frozen
    owns: Callable[[ActorNode], bool] = lambda _: True,
) -> AsyncIterator[Actors]:
    """Actors that have seen everything there is and work until the end of the block."""
    actors = Actors(api, clock, settings, owns)
    task = asyncio.create_task(actors.run(), name="actors")
    started = asyncio.create_task(actors.wait_started(), name="actors-started")
    try:
        await asyncio.wait((task, started), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        yield actors
    finally:
        started.cancel()
        task.cancel()
        await asyncio.gather(task, started, return_exceptions=True)
