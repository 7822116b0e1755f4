"""VM nodes whose system reserve leaves nothing for VMs: each is named once, and counted while it lasts."""

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.state.test_vm_room import a_node, a_snapshot
from tests.vms import node_config, size, vm_config
from ullage.config.vms import VmSettings
from ullage.control.vms.changes import VmChanges
from ullage.control.vms.wiring import VmSystem
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.vm import VmAmounts
from ullage.model.vm_config import NodeOverride, VmConfig
from ullage.observe.events import EventMessage, EventReason
from ullage.observe.vm_metrics import VmSystemMetrics
from ullage.sim.virtual_time import loop_clock, run_virtual

pytestmark = pytest.mark.story


class Sink:
    """Keeps Events."""

    def __init__(self) -> None:
        self.told: list[EventMessage] = []

    def record(self, announcement: EventMessage) -> None:
        self.told.append(announcement)


def kept(system: VmAmounts) -> VmConfig:
    """A configuration that keeps so much of nodes n and m, which have 16 cores and 64Gi."""
    config = node_config(system=system)
    return vm_config(node_config(), NodeOverride(nodes=("n",), config=config))


@pytest.mark.parametrize(
    ("system", "named"),
    [
        pytest.param(size(15, 60), 0, id="a-slot-is-left"),
        pytest.param(size(15.5, 60), 1, id="less-than-a-slot-is-left"),
        pytest.param(size(16, 60), 1, id="all-cpu"),
        pytest.param(size(1, 99), 1, id="more-memory-than-it-has"),
    ],
)
def test_a_node_without_room_for_vms_is_named_once(system: VmAmounts, named: int) -> None:
    async def story() -> None:
        snapshot, registry, sink = (
            a_snapshot(a_node("n"), a_node("m"), config=kept(system)),
            CollectorRegistry(),
            Sink(),
        )
        nobody: Any = None
        changes = VmChanges()
        engine = PodAssigner(snapshot).engine
        vms = VmSystem(nobody, engine, VmSettings(), loop_clock(), VmSystemMetrics(registry), changes)
        running = asyncio.create_task(vms.run(sink, "ullage-system"))
        for _ in range(3):
            await asyncio.sleep(10)
            changes.note()
        running.cancel()
        vms.show()
        told = [(one.about.key.name, one.reason) for one in sink.told]
        assert told == [("n", EventReason.VM_NODE_TOO_SMALL)] * named
        assert registry.get_sample_value("ullage_vm_nodes", {"state": "tooSmall"}) == named

    run_virtual(story())
