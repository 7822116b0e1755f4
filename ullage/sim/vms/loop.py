"""Runs the simulated VM controller over one API, until its block ends."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from ullage.clock import Clock, Instant
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resource import Resource
from ullage.kube.client.resources import VIRTUAL_MACHINE_MIGRATIONS, VIRTUAL_MACHINES
from ullage.kube.objects.meta import HasMeta
from ullage.kube.objects.vm import KubeVirtualMachine, KubeVirtualMachineMigration
from ullage.model.fact_event import ObjectKey
from ullage.model.vm import VM_NAME, MigrationPhase
from ullage.sim.controllers.controller_loop import ControllerLoop
from ullage.sim.controllers.object_cache import ObjectCache, key_of
from ullage.sim.controllers.objects import PODS, ActorPod
from ullage.sim.controllers.writes import perform
from ullage.sim.vms.controller import HypervisorTimings, MigrationRun, migration_plan, vm_plan
from ullage.watch.informer import Informer, InformerSpec, run_all, wait_all_synced

T = TypeVar("T", bound=HasMeta)


class SimulatedVmController:
    """Pods, hot-plug and migrations of all VirtualMachines. Some migrations fail, by the seed."""

    def __init__(
        self, api: KubeApi, clock: Clock, timings: HypervisorTimings, *, migration_failures: float = 0.0, seed: int = 0
    ) -> None:
        self._api, self._clock, self._timings = api, clock, timings
        self._failures = migration_failures
        self._chance = random.Random(seed)
        self._jitter = random.Random(seed + 1)
        self._informers: list[Informer[Any, Any]] = []
        self._pods = self._cache(PODS)
        self._vms = self._cache(VIRTUAL_MACHINES)
        self._migrations = self._cache(VIRTUAL_MACHINE_MIGRATIONS)
        self._pods_of: dict[ObjectKey, dict[str, ActorPod]] = {}
        self._sizes: dict[ObjectKey, tuple[object, Instant]] = {}
        self._runs: dict[str, MigrationRun] = {}
        self.vm_actor: ControllerLoop[ObjectKey] = ControllerLoop("vm-controller", self._sync_vm, clock)
        self.migration_actor: ControllerLoop[ObjectKey] = ControllerLoop(
            "vm-migration-controller", self._sync_migration, clock
        )
        self._started = asyncio.Event()
        self._pods.listen(self._pod_changed)
        self._vms.listen(self._vm_changed)
        self._migrations.listen(self._migration_changed)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(run_all(*self._informers), name="vm-informers")
            await wait_all_synced(*self._informers)
            for actor in (self.vm_actor, self.migration_actor):
                group.create_task(actor.run(), name=actor.name)
            self._started.set()

    async def wait_started(self) -> None:
        await self._started.wait()

    def _cache(self, resource: Resource[T]) -> ObjectCache[T]:
        cache = ObjectCache(resource)
        interest = InformerSpec(resource, read=lambda each: each)
        self._informers.append(Informer(self._api, interest, cache.take_in, rng=self._jitter, clock=self._clock))
        return cache

    async def _sync_vm(self, key: ObjectKey) -> Instant | None:
        vm, now = self._vms.get(key), self._clock.now()
        if vm is None:
            return None
        size = (vm.spec.guest.cpus.use, vm.spec.guest.memory_slots.use)
        known = self._sizes.get(key)
        if known is None or known[0] != size:
            known = self._sizes[key] = (size, now)
        plan = vm_plan(
            vm, self._pods_named_for(key), known[1], self._timings, now=now, migrating=self._is_migrating(key)
        )
        await perform(self._api, plan.writes)
        return plan.wake_at

    def _is_migrating(self, vm: ObjectKey) -> bool:
        mine = [one for one in self._migrations.all() if (one.metadata.namespace, one.spec.vm_name) == vm]
        return any(not MigrationPhase(one.status.phase).over for one in mine)

    async def _sync_migration(self, key: ObjectKey) -> Instant | None:
        migration, now = self._migrations.get(key), self._clock.now()
        if migration is None:
            return None
        vm_key = ObjectKey(key.namespace, migration.spec.vm_name)
        run = self._run_of(migration, now)
        plan = migration_plan(
            migration, self._vms.get(vm_key), self._pods_named_for(vm_key), run, self._timings, now=now
        )
        await perform(self._api, plan.writes)
        return plan.wake_at

    def _run_of(self, migration: KubeVirtualMachineMigration, now: Instant) -> MigrationRun | None:
        """Copying begins when it is first observed; the seed decides then, once, if it will fail."""
        if migration.status.phase != MigrationPhase.RUNNING:
            return None
        uid = migration.metadata.uid
        if uid not in self._runs:
            self._runs[uid] = MigrationRun(since=now, fails=self._chance.random() < self._failures)
        return self._runs[uid]

    def _pods_named_for(self, vm: ObjectKey) -> list[ActorPod]:
        found = self._pods_of.get(vm, {})
        return [found[name] for name in sorted(found)]

    def _pod_changed(self, old: ActorPod | None, new: ActorPod | None) -> None:
        pod = new or old
        name = pod.metadata.labels.get(VM_NAME, "") if pod is not None else ""
        if pod is None or not name:
            return
        vm = ObjectKey(pod.metadata.namespace, name)
        if new is None:
            self._pods_of.get(vm, {}).pop(pod.metadata.name, None)
        else:
            self._pods_of.setdefault(vm, {})[pod.metadata.name] = new
        self.vm_actor.queue.add(vm)
        self._wake_migrations_of(vm)

    def _vm_changed(self, old: KubeVirtualMachine | None, new: KubeVirtualMachine | None) -> None:
        changed = new or old
        if changed is None:
            return
        if new is None:
            self._sizes.pop(key_of(changed), None)
        self.vm_actor.queue.add(key_of(changed))
        self._wake_migrations_of(key_of(changed))

    def _migration_changed(
        self, old: KubeVirtualMachineMigration | None, new: KubeVirtualMachineMigration | None
    ) -> None:
        if new is not None:
            self.migration_actor.queue.add(key_of(new))
        elif old is not None:
            self._runs.pop(old.metadata.uid, None)
            self.vm_actor.queue.add(ObjectKey(old.metadata.namespace, old.spec.vm_name))

    def _wake_migrations_of(self, vm: ObjectKey) -> None:
        for migration in self._migrations.all():
            if (migration.metadata.namespace, migration.spec.vm_name) == vm:
                self.migration_actor.queue.add(key_of(migration))


@asynccontextmanager
async def simulated_vm_controller(
    api: KubeApi,
    clock: Clock,
    timings: HypervisorTimings = HypervisorTimings(),  # noqa: B008 - frozen
    *,
    migration_failures: float = 0.0,
    seed: int = 0,
) -> AsyncIterator[SimulatedVmController]:
    """A controller that has observed all existing objects and runs until the block ends."""
    controller = SimulatedVmController(api, clock, timings, migration_failures=migration_failures, seed=seed)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(controller.run(), name="vm-controller")
        await controller.wait_started()
        try:
            yield controller
        finally:
            task.cancel()
