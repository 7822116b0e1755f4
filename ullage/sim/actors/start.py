"""Puts the actors together and runs them: informers first, and once all have seen everything, everybody else."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ullage.clock import Clock
from ullage.errors import ApiError
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
from ullage.sim.actors.node_health import SILENCE_SECONDS
from ullage.sim.actors.node_loop import NodeHealthLoop, TaintEvictionLoop
from ullage.sim.actors.pod_garbage_loop import PodGarbageLoop
from ullage.sim.actors.shapes import ActorNode, ActorPod, AnyResource
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
    node_silence_seconds: float = SILENCE_SECONDS
    """With heartbeats: how long a node may be silent before it counts as unreachable."""
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
        self._awaited: list[Informer[Any, Any]] = []
        """Without those of custom kinds, which may be defined later, or never."""
        self._actors: list[Actor[Any]] = []
        self._started = asyncio.Event()
        self.kubelets = self._assemble(settings, owns)

    async def run(self) -> None:
        """Until cancelled. A bug in one ends all."""
        async with asyncio.TaskGroup() as group:
            group.create_task(run_all(*self._informers), name="informers")
            await wait_all_synced(*self._awaited)
            for actor in self._actors:
                group.create_task(actor.run(), name=actor.name)
            self._started.set()

    async def wait_started(self) -> None:
        """Until everything there was has been seen and everybody works."""
        await self._started.wait()

    def refusals(self) -> dict[str, ApiError]:
        """What the API refuses at the moment: actor and key, and why."""
        return {f"{actor.name} {key}": error for actor in self._actors for key, error in actor.refusals.items()}

    def is_idle(self) -> bool:
        """Does nobody work or have work waiting (deadlines aside)?"""
        return all(actor.queue.idle() for actor in self._actors)

    def _assemble(self, settings: ActorSettings, owns: Callable[[ActorNode], bool]) -> KubeletFleet:
        api, clock = self._api, self._clock
        pods = self._cache(shapes.PODS, node=_by_node, **_as_children())
        nodes = self._cache(shapes.NODES)
        leases = self._cache(known.LEASES)
        replica_sets = self._cache(known.REPLICA_SETS, **_as_children())
        deployments = self._cache(shapes.DEPLOYMENTS)
        stateful_sets = self._cache(shapes.STATEFUL_SETS)
        daemon_sets = self._cache(shapes.DAEMON_SETS)
        revisions = self._cache(shapes.REVISIONS, **_as_children())
        jobs = self._cache(shapes.JOBS)
        budgets = self._cache(known.BUDGETS)
        namespaces = self._cache(shapes.NAMESPACES)
        others = {each.id: self._cache(_partly(each)) for each in _ALSO_COLLECTED}
        self._awaited = list(self._informers)
        others |= {each.id: self._cache(_partly(each)) for each in settings.custom}
        workloads: list[Cache[Any]] = [replica_sets, deployments, stateful_sets, daemon_sets, revisions, jobs]
        everything: list[Cache[Any]] = [pods, nodes, leases, budgets, namespaces, *workloads, *others.values()]
        contents = [cache for cache in everything if cache.resource.namespaced]

        fleet = KubeletFleet(api, clock, pods, nodes, settings.behaviour, owns)
        scales = Scales(api, replica_sets, deployments, stateful_sets, settings.custom)
        claims = others[known.VOLUME_CLAIMS.id]
        self._actors += [
            fleet.pod_actor,
            fleet.node_actor,
            tend_replica_sets(api, clock, replica_sets, pods).actor,
            tend_deployments(api, clock, deployments, replica_sets, pods).actor,
            tend_stateful_sets(api, clock, stateful_sets, pods, revisions, claims).actor,
            tend_daemon_sets(api, clock, daemon_sets, pods, nodes).actor,
            tend_jobs(api, clock, jobs, pods).actor,
            DisruptionLoop(api, clock, budgets, pods, scales).actor,
            GarbageLoop(api, clock, everything).actor,
            PodGarbageLoop(api, clock, pods, nodes, kept=settings.ended_pods_kept).actor,
            NamespaceLoop(api, clock, namespaces, contents).actor,
            TaintEvictionLoop(api, clock, nodes, pods).actor,
        ]
        if settings.heartbeats:
            health = NodeHealthLoop(api, clock, nodes, pods, patience=settings.node_silence_seconds)
            leases.listen(health.lease_changed)
            self._actors += [Heartbeats(api, clock, fleet, nodes).actor, health.actor]
        return fleet

    def _cache(self, resource: Resource[T], **further: indexed.Index[T]) -> Cache[T]:
        """A cache fed by an informer of its own, indexed by namespace and owners, and further."""
        cache = Cache(resource, {"namespace": indexed.by_namespace, "owners": indexed.by_owners, **further})
        interest = Interest(resource, read=_as_it_is)
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
    settings: ActorSettings = ActorSettings(),  # noqa: B008 - frozen
    owns: Callable[[ActorNode], bool] = lambda _: True,
) -> AsyncIterator[Actors]:
    """Actors that have seen everything there is and work until the block ends. If one breaks, so does the block."""
    actors = Actors(api, clock, settings, owns)
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
