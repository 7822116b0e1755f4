"""NodeProvisioners as they are now, and writes of their statuses. A written status counts before it is observed."""

from collections.abc import Mapping
from dataclasses import replace

import structlog

from ullage.clock import Clock
from ullage.decide.provisioning.planner import PoolPlan
from ullage.decide.provisioning.status import pool_status
from ullage.errors import ApiError, NotFound, Unreadable
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import NODE_PROVISIONERS
from ullage.kube.objects.provisioner import NodeProvisioner, NodeProvisionerStatus
from ullage.kube.read.provisioner import read_decision, read_provisioner
from ullage.kube.write.gpu import patch_status
from ullage.kube.write.provisioner import (
    SCALE_DOWN_THROTTLED,
    provisioner_status,
    with_throttling,
    without_provider,
)
from ullage.model.fact_event import Added, Deleted, FactEvent, Updated
from ullage.model.provisioner import Provisioner
from ullage.watch.informer_cache import is_later, version_of

_log = structlog.get_logger("provisioning")


class ProvisionerStatuses:
    """NodeProvisioners by name. Unreadable objects are left alone, and named in the log once."""

    def __init__(self, api: KubeApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._raw: dict[str, NodeProvisioner] = {}
        self._facts: dict[str, Provisioner] = {}

    def observe(self, event: FactEvent[NodeProvisioner]) -> None:
        match event:
            case Added(new=raw) | Updated(new=raw):
                self._take(raw)
            case Deleted(key=key):
                self._raw.pop(key.name, None)
                self._facts.pop(key.name, None)
            case _:
                pass

    @property
    def provisioners(self) -> Mapping[str, Provisioner]:
        return self._facts

    async def write(self, plan: PoolPlan, facts: Provisioner, *, trouble: str = "", unmet: int = 0) -> bool:
        """Write the status of a pool, with these facts on its purchases. False if it was not written: decide again.

        `trouble`: failure of its provider. `unmet`: pods no pool serves that this one may not buy for.
        """
        raw = self._raw.get(facts.name)
        if raw is None:
            return False
        now = self._clock.now()
        before = read_decision(raw.status)
        plan = PoolPlan(provisioner=facts, nodes=plan.nodes, evaluation=plan.evaluation, step=plan.step)
        desired = replace(pool_status(plan, before=before, now=now), trouble=trouble, unmet=unmet)
        status = provisioner_status(raw.status, desired, generation=raw.metadata.generation, now=now)
        return await self._write(raw, status)

    async def write_unready(self, name: str, message: str) -> None:
        """Write that nothing can be decided on a pool, because its provider does not answer."""
        raw = self._raw.get(name)
        if raw is not None:
            now, generation = self._clock.now(), raw.metadata.generation
            await self._write(raw, without_provider(raw.status, message, generation=generation, now=now))

    async def write_throttled(self, name: str, throttled: bool, *, said: bool) -> bool:
        """Write whether removable nodes have to wait. Unless `said`, only an existing condition is corrected."""
        raw = self._raw.get(name)
        if raw is None:
            return True
        before = next((one for one in raw.status.conditions if one.type == SCALE_DOWN_THROTTLED), None)
        if before is None and not said:
            return True
        if before is not None and (before.status == "True") == throttled:
            return True
        now, generation = self._clock.now(), raw.metadata.generation
        return await self._write(raw, with_throttling(raw.status, throttled=throttled, generation=generation, now=now))

    async def _write(self, raw: NodeProvisioner, status: NodeProvisionerStatus) -> bool:
        name, patch = raw.metadata.name, patch_status(raw.metadata, raw.status, status)
        if patch is None:
            return True
        try:
            self._take(await self._api.patch(NODE_PROVISIONERS, name, patch, subresource="status"))
        except ApiError as error:
            _log.info("a status was not written", provisioner=name, error=error.message)
            await self._read_again(name)
            return False
        return True

    async def _read_again(self, name: str) -> None:
        try:
            self._take(await self._api.get(NODE_PROVISIONERS, name))
        except NotFound:
            self._raw.pop(name, None)
            self._facts.pop(name, None)
        except ApiError:
            return

    def _take(self, raw: NodeProvisioner) -> None:
        name, known = raw.metadata.name, self._raw.get(raw.metadata.name)
        version = version_of(raw.metadata.resource_version)
        if known is not None and not is_later(version, version_of(known.metadata.resource_version)):
            return
        self._raw[name] = raw
        try:
            self._facts[name] = read_provisioner(raw)
        except Unreadable as error:
            self._facts.pop(name, None)
            _log.warning("a NodeProvisioner makes no sense", error=error.message)
