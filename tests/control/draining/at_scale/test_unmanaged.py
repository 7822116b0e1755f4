"""Nodes of no NodeProvisioner: nobody here can delete their machines. They are emptied, cordoned, and left."""

import asyncio

import pytest

from tests.control.draining.at_scale.checks import everything_wrong, newest, removals
from tests.control.draining.at_scale.cluster import Load, Service, all_available, nodes_of, place, pods_on, until
from tests.control.draining.at_scale.reports import told_of
from tests.control.provisioning.conftest import PoolPrograms
from tests.control.scheduling.fleet import add_nodes, reporting
from tests.control.scheduling.programs import ALONE
from ullage.clock import WallClock
from ullage.kube.client.api import KubeApi
from ullage.testing.checks.disruption import DisruptionHistory
from ullage.testing.controlplane import ControlPlane

pytestmark = pytest.mark.real

OPTIONS = (
    *(ALONE, "--scale-down-unneeded-time", "1s"),
    *("--node-delete-delay-after-taint", "1s"),
    *("--scan-interval", "1s"),
)
LONG_ENOUGH = 8.0
"""Seconds, for a node to be drained if it were to be."""
BUSY = Service("busy", 5, {"maxUnavailable": 1}, gpus=1)
SPARE = Service("spare", 2, {"maxUnavailable": 2})


@pytest.mark.parametrize("asked", [True, False], ids=["if-that-is-asked-for", "and-otherwise-not-touched"])
async def test_a_node_is_left_to_its_owner(
    plane: ControlPlane, api: KubeApi, programs: PoolPrograms, asked: bool
) -> None:
    names, services = ["node-a", "node-b"], [BUSY, SPARE]
    programs.scheduler(plane.kubeconfig, ALONE)
    await add_nodes(api, names, WallClock(), **{"kwok.x-k8s.io/node": "fake"})
    await place(api, {"node-a": Load(gpu=5), "node-b": Load(plain=2)}, services, programs)
    async with DisruptionHistory(api) as history, reporting(api, names, WallClock()):
        start = newest(history.changes)
        programs.controller(plane.kubeconfig, *OPTIONS, *(["--drain-unmanaged"] if asked else []))
        if asked:
            await until(lambda: told_of(api, "Node", "NodeDrained"), 60, programs)
            await until(lambda: all_available(api, services), 20, programs)
        else:
            await asyncio.sleep(LONG_ENOUGH)
        await history.whole()
    assert list(everything_wrong(history.changes, services, after=start)) == []
    assert len(removals(history.changes)) == asked
    assert [len(await pods_on(api, name)) for name in names] == ([7, 0] if asked else [5, 2])
    assert [node.spec.unschedulable for node in await nodes_of(api)] == [False, asked]
    assert [node.spec.taints for node in await nodes_of(api)] == [(), ()]
