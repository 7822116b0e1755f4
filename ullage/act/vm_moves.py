"""Move VMs off a node by live migration, and wait until their pods have left. The removal decides which VMs.

A migration that fails, is deleted by somebody, or is not over in time leaves the VM where it is: its part leaves the
books with its VirtualMachineMigration.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ullage import errors
from ullage.act.concurrency import each
from ullage.act.vms import VmActuator
from ullage.clock import Clock
from ullage.config.settings import DrainingSettings
from ullage.config.vms import VmSettings
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import PODS, VIRTUAL_MACHINE_MIGRATIONS, VIRTUAL_MACHINES
from ullage.kube.read.vm import read_vm_migration
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import DeleteMigration, StartMigration
from ullage.model.outcomes import MigrationStarted, VmIntentRefused
from ullage.model.pod import Pod
from ullage.model.vm import MigrationPhase, VmMigration, VmPhase

_LOOK_SECONDS = 2.0
_LEAVES_SECONDS = 60.0
"""Seconds in which the source pod has to leave once its migration is over, beyond its grace period."""
_STAYS_SECONDS = 5.0
"""Seconds after which a VM that says to run in its old pod has not moved."""
_OVER = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class VmMovePace:
    """Time limit of one migration, in seconds, and their number at once from one node."""

    deadline: float = DrainingSettings().max_vm_migration_time
    at_once: int = 2

    @classmethod
    def of(cls, settings: DrainingSettings, vms: VmSettings) -> "VmMovePace":
        """Limits of these settings."""
        return cls(deadline=settings.max_vm_migration_time, at_once=vms.migrations_per_node)


@dataclass(frozen=True, slots=True)
class VmNotMoved:
    """VM that stays on its node, and why."""

    pod: ObjectKey
    detail: str


class VmMover:
    """Moves VMs through one API."""

    def __init__(self, api: KubeApi, clock: Clock, pace: VmMovePace) -> None:
        self._api = api
        self._actuator = VmActuator(api)
        self._clock = clock
        self.pace = pace

    async def move(self, pods: Sequence[Pod], starts: Sequence[StartMigration]) -> VmNotMoved | None:
        """Migrate these pods' VMs, those without a start being on their way. Returns the first that did not move."""
        by_pod: Mapping[ObjectKey, StartMigration] = {one.pod.key: one for one in starts}
        answers = await each(pods, lambda pod: self._moved(pod, by_pod.get(pod.key)), at_once=self.pace.at_once)
        return next((one for one in answers if one is not None), None)

    async def _moved(self, pod: Pod, start: StartMigration | None) -> VmNotMoved | None:
        ends = self._clock.steady() + self.pace.deadline
        begun: VmMigration | None = None
        if start is not None:
            started = await self._started(start, ends)
            if isinstance(started, str):
                return VmNotMoved(pod.key, started)
            begun = started
        over_since: float | None = None
        while True:
            migration = await self._migration(pod, begun)
            if await self._has_left(pod):
                return None
            now = self._clock.steady()
            if migration is not None and migration.phase is MigrationPhase.FAILED:
                return VmNotMoved(pod.key, f"migration {migration.key} failed")
            if migration is None or migration.phase.over:
                over_since = now if over_since is None else over_since
                longest = _STAYS_SECONDS if await self._is_home(pod) else _LEAVES_SECONDS + pod.marks.grace_period
                if now - over_since > longest:
                    return VmNotMoved(pod.key, "its migration failed or was deleted, and its pod is still here")
            elif now > ends:
                return VmNotMoved(pod.key, await self._cancelled(migration, start))
            await asyncio.sleep(_LOOK_SECONDS)

    async def _started(self, start: StartMigration, ends: float) -> VmMigration | str:
        """The migration; or why it did not begin. A start of unknown outcome is repeated: its name is the same."""
        while True:
            outcome = await self._actuator.perform(start)
            if isinstance(outcome, MigrationStarted):
                return outcome.migration
            detail = getattr(outcome, "detail", "")
            if isinstance(outcome, VmIntentRefused) or self._clock.steady() > ends:
                return f"migration {start.name} could not be started: {detail}"
            await asyncio.sleep(_LOOK_SECONDS)

    async def _migration(self, pod: Pod, begun: VmMigration | None) -> VmMigration | None:
        """The migration that moves the pod's VM now; None if there is none. The last known one if nobody answers."""
        namespace, name = pod.key.namespace, "" if pod.vm is None else pod.vm.name
        try:
            listed = await self._api.list(VIRTUAL_MACHINE_MIGRATIONS, namespace)
        except errors.ApiError:
            return begun
        mine = [one for raw in listed.items if (one := read_vm_migration(raw)).vm == name]
        mine = [one for one in mine if one.source_pod in ("", pod.key.name)]
        return next((one for one in mine if not one.phase.over), mine[0] if mine else None)

    async def _is_home(self, pod: Pod) -> bool:
        """True if the VM says that it runs in this pod."""
        try:
            vm = await self._api.get(VIRTUAL_MACHINES, "" if pod.vm is None else pod.vm.name, pod.key.namespace)
        except errors.ApiError:
            return False
        return vm.status.pod_name == pod.key.name and vm.status.phase == VmPhase.RUNNING

    async def _has_left(self, pod: Pod) -> bool:
        try:
            found = await self._api.get(PODS, pod.key.name, pod.key.namespace)
        except errors.NotFound:
            return True
        except errors.ApiError:
            return False
        return found.metadata.uid != pod.uid or found.status.phase in _OVER

    async def _cancelled(self, migration: VmMigration, start: StartMigration | None) -> str:
        """Delete a migration of ours that takes too long. Others' are left to them."""
        late = f"migration {migration.key} was not over after {self.pace.deadline:g} s"
        if start is None or migration.key.name != start.name:
            return late
        await self._actuator.perform(DeleteMigration(migration=migration, why=late))
        return f"{late}, and was cancelled"
