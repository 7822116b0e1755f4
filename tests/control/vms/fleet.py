"""A pool that is meant for VMs, one node outside of it, and two VMs too many for that node: on any API server.

Scheduler, provisioner and drain loop are the product's; kubelets, hypervisors and the cloud of fake nodes are
simulated, and speak to the same API server.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from tests.kube.crds.bad_provisioners import with_fields
from ullage.clock import Clock
from ullage.cloud.api import CreateRequest, CreateResult
from ullage.cloud.kwok.provider import KwokProvider
from ullage.config.settings import Settings
from ullage.config.vms import VmSettings
from ullage.control.draining.wiring import DrainController
from ullage.control.provisioning.wiring import ControllerEnvironment, ProvisioningController
from ullage.control.scheduling.wiring import Scheduler
from ullage.errors import AlreadyExists
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    NODE_PROVISIONERS,
    NODES,
    PODS,
    VIRTUAL_MACHINE_MIGRATIONS,
    VIRTUAL_MACHINES,
)
from ullage.kube.crds.catalog import OURS, POD_GROUP, VM_KINDS
from ullage.kube.crds.install import install
from ullage.kube.objects.vm import KubeVirtualMachine
from ullage.model.lease import LEASE_NAMESPACE
from ullage.model.provisioner import PROVISIONER_LABEL
from ullage.model.units import Seconds
from ullage.model.vm import VM_NEEDS_NODE, VmAmounts
from ullage.sim.controllers.wiring import ControllerManagerSettings, start_actors
from ullage.sim.kubelet.timings import INSTANT
from ullage.sim.vms.controller import HypervisorTimings
from ullage.sim.vms.loop import simulated_vm_controller
from ullage.sim.world.vms import virtual_machine
from ullage.testing.builders import a_namespace, a_node

NS, POOL = "default", "vms"
GI = 1 << 30
CONFIG = {
    "nodeDefaults": {
        "cpu": {"watermark": 0.8, "system": "1"},
        "memory": {"watermark": 0.8, "system": "1Gi"},
        "computeUnit": {"vCPUs": 1, "mem": 4},
    },
    "nodeSelector": {PROVISIONER_LABEL: POOL},
}
ROOM = {"cpu": "16", "memory": "64Gi", "pods": "110"}
"""15 cores may be reserved; the watermark is at 12."""
QUICK = Settings(
    vms=VmSettings(
        pressure_sustained=Seconds(1.0), node_need_after=Seconds(2.0), migration_cooldown=Seconds(8.0), score_peak=0.5
    )
)
QUICK = replace(
    QUICK,
    draining=replace(
        QUICK.draining,
        scan_interval=Seconds(1.0),
        node_delete_delay_after_taint=Seconds(1.0),
        scale_down_delay_after_failure=Seconds(10.0),
        unremovable_recheck_timeout=Seconds(2.0),
    ),
)


class CountedCloud(KwokProvider):
    """Fake nodes; counts what was made and deleted."""

    def __init__(self, api: KubeApi, clock: Clock) -> None:
        super().__init__(api, clock)
        self.made = self.deleted = 0

    async def create(self, request: CreateRequest) -> CreateResult:
        made = await super().create(request)
        self.made += len(made.instances)
        return made

    async def delete(self, ids: Any) -> None:
        await super().delete(ids)
        self.deleted += len(ids)


@dataclass
class VmFleet:
    """Everything at work. `phases` has every phase a VM was seen in."""

    api: KubeApi
    clock: Clock
    cloud: CountedCloud
    drains: DrainController
    scheduler: Scheduler
    phases: dict[str, list[str]] = field(default_factory=dict)

    async def pool(self, **fields: Any) -> None:
        plain = {
            "provider": {"name": "kwok", "parameters": {"bootSeconds": "1", "gpuSeconds": "1"}},
            "template.gpus.count": 1,
            "template.resources": {"cpu": "16", "memory": "64Gi"},
            "maxSize": 5,
            "scaleUpBatch": "0s",
        }
        spec = with_fields(plain | {key.replace("__", "."): value for key, value in fields.items()})
        await self.api.create(NODE_PROVISIONERS, {"metadata": {"name": POOL}, "spec": spec})

    async def vm(self, name: str, cores: int) -> None:
        size = VmAmounts(cores * 1000, cores * 4 * GI)
        manifest = virtual_machine(name, "gpu-scheduler", size, size, unit=VmAmounts(1000, 4 * GI))
        await self.api.create(VIRTUAL_MACHINES.whole(), manifest, NS)
        await self.until(lambda: self.runs(name))

    async def machine(self, name: str) -> KubeVirtualMachine:
        found = await self.api.get(VIRTUAL_MACHINES, name, NS)
        seen = self.phases.setdefault(name, [])
        if not seen or seen[-1] != found.status.phase:
            seen.append(found.status.phase)
        return found

    def never_stopped(self, name: str) -> bool:
        """True if the VM was never seen without a running pod since it first ran."""
        seen = self.phases[name]
        return "Pending" not in seen[seen.index("Running") :]

    async def runs(self, name: str) -> bool:
        return (await self.machine(name)).status.phase == "Running"

    async def node_of(self, name: str) -> str:
        return (await self.machine(name)).status.node

    async def needs_node(self, name: str) -> bool:
        return VM_NEEDS_NODE in (await self.machine(name)).metadata.annotations

    async def nodes(self) -> list[str]:
        return sorted(one.metadata.name for one in (await self.api.list(NODES)).items)

    async def migrations(self) -> list[str]:
        return [one.metadata.name for one in (await self.api.list(VIRTUAL_MACHINE_MIGRATIONS, NS)).items]

    async def vm_pods(self) -> dict[str, str]:
        """Nodes of all VM pods by name."""
        return {one.metadata.name: one.spec.node_name for one in (await self.api.list(PODS, NS)).items}

    async def told(self) -> str:
        """Everything, for a story that does not go on."""
        decided = self.drains.core.decided
        stays = () if decided is None else (*decided.plan.unremovable, decided.batch)
        return f"{await self.nodes()} {await self.vm_pods()} {await self.migrations()} {stays}"

    async def until(self, holds: Callable[[], Awaitable[object]], seconds: float = 60.0) -> None:
        ends = self.clock.steady() + seconds
        while not await holds():
            assert self.clock.steady() < ends, await self.told()
            await asyncio.sleep(0.2)


@asynccontextmanager
async def vm_fleet(
    apis: Callable[[], KubeApi], clock: Clock, *, failures: float = 0.0, settings: Settings = QUICK
) -> AsyncIterator[VmFleet]:
    """All of it on one API server, with a node `n1` of 16 cores."""
    api = apis()
    await install(api, (*OURS, POD_GROUP, *VM_KINDS))
    with suppress(AlreadyExists):
        await api.create(NAMESPACES, a_namespace(LEASE_NAMESPACE))
    config: JsonObject = {"metadata": {"name": "vm-nodes"}, "data": {"config.json": json.dumps(CONFIG)}}
    await api.create(CONFIG_MAPS, config, LEASE_NAMESPACE)
    await api.create(NODES, a_node("n1", allocatable=ROOM))
    cloud = CountedCloud(apis(), clock)
    host = ControllerEnvironment(providers={"kwok": cloud})
    controller = ProvisioningController(apis(), settings, clock, seed=3, host=host)
    drains = DrainController(controller, settings)
    scheduler = Scheduler(apis(), settings, clock, instance="scheduler", seed=4)
    timings = HypervisorTimings(hotplug=0.1, migration=2.0)
    kinds = (VIRTUAL_MACHINES, VIRTUAL_MACHINE_MIGRATIONS)
    async with (
        start_actors(apis(), clock, ControllerManagerSettings(INSTANT, custom=kinds)),
        simulated_vm_controller(apis(), clock, timings, migration_failures=failures, seed=1),
    ):
        tasks = [asyncio.ensure_future(one) for one in (cloud.run(), drains.run(), scheduler.run())]
        try:
            yield VmFleet(api, clock, cloud, drains, scheduler)
        finally:
            ended = [one for one in tasks if one.done()]
            for one in tasks:
                one.cancel()
            await asyncio.wait(tasks)
            assert not ended, ended[0].exception()
