"""VMs and the nodes under them: pressure that no migration relieves buys one node, a drain moves VMs off it again.

The same stories in virtual time and on the real control plane.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.control.vms.fleet import NS, POOL, QUICK, VmFleet, vm_fleet
from ullage.clock import WallClock
from ullage.config.settings import Settings
from ullage.kube.auth.connect import connect
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resources import EVENTS, NODE_PROVISIONERS, NODES, VIRTUAL_MACHINE_MIGRATIONS, VIRTUAL_MACHINES
from ullage.kube.client.rest import RestApi
from ullage.model.draining import DRAINING_TAINT
from ullage.model.fact_event import ObjectKey
from ullage.model.outcomes import RemovalFailure
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.testing.controlplane import ControlPlane

Story = Callable[[VmFleet], Awaitable[None]]
DRAINED = {"consolidation__policy": "Drain", "consolidation__unneededTime": "3s"}


def in_virtual_time(story: Story, *, failures: float = 0.0, settings: Settings = QUICK) -> None:
    async def told() -> None:
        clock = loop_clock()
        server = SimulatedApiServer(clock, seed=1)
        seeds = iter(range(1000))
        apis = lambda: RestApi(InMemoryTransport(server), rng=random.Random(next(seeds)))  # noqa: E731
        async with vm_fleet(apis, clock, failures=failures, settings=settings) as fleet:
            await story(fleet)

    run_virtual(told())


async def on_the_real_one(story: Story, plane: ControlPlane) -> None:
    opened: list[KubeApi] = []

    def apis() -> KubeApi:
        opened.append(connect(plane.kubeconfig))
        return opened[-1]

    try:
        async with vm_fleet(apis, WallClock()) as fleet:
            await story(fleet)
    finally:
        for api in opened:
            await api.close()


async def bought_and_drained(fleet: VmFleet, *, quiet: float) -> None:
    """Pressure buys one node and no more; when it is not needed any more, its VM leaves it by migration."""
    await fleet.pool(**DRAINED)
    await fleet.vm("a", 8)
    await fleet.vm("b", 6)
    assert [await fleet.node_of(vm) for vm in "ab"] == ["n1", "n1"], "14 of 15 cores, and the watermark is at 12"

    async def relieved() -> bool:
        return await fleet.node_of("a") != "n1" and not await fleet.migrations()

    await fleet.until(relieved)
    assert not await fleet.needs_node("a")
    assert fleet.scheduler.vms.core.unrelieved == {}
    await asyncio.sleep(quiet)
    assert (fleet.cloud.made, fleet.cloud.deleted) == (1, 0), "bought once, and kept"
    assert len(await fleet.nodes()) == 2

    await fleet.api.delete(VIRTUAL_MACHINES, "b", NS)

    async def alone() -> bool:
        return await fleet.nodes() == ["n1"]

    await fleet.until(alone, 120)
    assert await fleet.node_of("a") == "n1"
    assert (fleet.cloud.made, fleet.cloud.deleted) == (1, 1)
    assert fleet.never_stopped("a")
    await asyncio.sleep(quiet)
    assert fleet.cloud.made == 1


@pytest.mark.story
def test_pressure_buys_one_node_and_a_drain_moves_its_vm_back() -> None:
    in_virtual_time(lambda fleet: bought_and_drained(fleet, quiet=60.0))


@pytest.mark.real
async def test_pressure_buys_one_node_and_a_drain_moves_its_vm_back_on_the_real_one(own_plane: ControlPlane) -> None:
    await on_the_real_one(lambda fleet: bought_and_drained(fleet, quiet=5.0), own_plane)


async def deleted_midway(fleet: VmFleet) -> None:
    """A user deletes a migration that the scheduler started: books and VM are as before, and another one is moved."""
    await fleet.pool()
    await fleet.vm("a", 8)
    await fleet.vm("b", 6)
    await fleet.until(lambda: _is_copying(fleet))
    (name,) = await fleet.migrations()
    assert [row.pressure_accounted_for for row in _rows(fleet, "n1")] == [8000, 32 << 30]
    await fleet.api.delete(VIRTUAL_MACHINE_MIGRATIONS, name, NS)

    async def as_before() -> bool:
        return await fleet.runs("a") and not any("a-0-" in pod for pod in await fleet.vm_pods())

    await fleet.until(as_before)
    assert await fleet.node_of("a") == "n1"
    await fleet.until(lambda: _is_nobodys_source(fleet, "a-0"))

    async def relieved() -> bool:
        return await fleet.node_of("b") != "n1" and not await fleet.migrations()

    await fleet.until(relieved)
    node = await fleet.node_of("b")
    await fleet.until(lambda: _reserves(fleet, {"n1": 8000, node: 6000}))
    assert all(not row.pressure_accounted_for for row in _rows(fleet, "n1"))
    assert await fleet.node_of("a") == "n1", "it rests; the other one was moved"
    assert fleet.never_stopped("a")
    assert fleet.never_stopped("b")
    assert fleet.cloud.made == 1


async def a_vm_on_a_bought_node(fleet: VmFleet, **pool: Any) -> str:
    """Name of the node that was bought for VM a, which is there."""
    await fleet.pool(**pool)
    await fleet.vm("a", 8)
    await fleet.vm("b", 6)

    async def moved() -> bool:
        return await fleet.node_of("a") != "n1" and not await fleet.migrations()

    await fleet.until(moved)
    return await fleet.node_of("a")


@pytest.mark.story
def test_a_migration_that_a_user_deletes_leaves_the_books() -> None:
    in_virtual_time(deleted_midway)


@pytest.mark.real
async def test_a_migration_that_a_user_deletes_leaves_the_books_on_the_real_one(own_plane: ControlPlane) -> None:
    await on_the_real_one(deleted_midway, own_plane)


@pytest.mark.story
def test_a_bought_node_is_kept_for_hours_and_no_other_is_bought() -> None:
    async def story(fleet: VmFleet) -> None:
        node = await a_vm_on_a_bought_node(fleet, scaleDownDelay="1m", minGPUUtilizationPercent=80)
        await asyncio.sleep(7200)
        assert (fleet.cloud.made, fleet.cloud.deleted) == (1, 0)
        assert await fleet.nodes() == ["n1", node]

    in_virtual_time(story)


@pytest.mark.story
def test_pressure_that_a_node_would_not_relieve_buys_none() -> None:
    """A VM too large for the pool's nodes: their watermark is at 5 cores."""

    async def story(fleet: VmFleet) -> None:
        await fleet.pool(template__resources={"cpu": "8", "memory": "32Gi"})
        await fleet.vm("a", 14)
        await fleet.until(lambda: fleet.needs_node("a"))
        await asyncio.sleep(1800)
        assert fleet.cloud.made == 0
        assert fleet.scheduler.vms.core.unrelieved.keys() == {"n1"}

    in_virtual_time(story)


@pytest.mark.story
def test_a_migration_that_is_deleted_leaves_the_node_and_its_vm_as_they_were() -> None:
    """Somebody deletes the drain's migration: the node is untainted, the VM stays, nobody was evicted."""

    async def story(fleet: VmFleet) -> None:
        node = await a_vm_on_a_bought_node(fleet, **DRAINED)
        await fleet.api.delete(VIRTUAL_MACHINES, "b", NS)
        await fleet.until(fleet.migrations)
        await asyncio.sleep(1.0)
        for name in await fleet.migrations():
            await fleet.api.delete(VIRTUAL_MACHINE_MIGRATIONS, name, NS)

        async def released() -> bool:
            taints = (await fleet.api.get(NODES, node)).spec.taints
            return all(one.key != DRAINING_TAINT for one in taints)

        await fleet.until(released, 180)
        assert await fleet.node_of("a") == node
        assert await fleet.runs("a")
        assert fleet.never_stopped("a")
        assert not any(row.pressure_accounted_for for row in _rows(fleet, node)), "its part has left the books"
        await fleet.until(lambda: _only(fleet, "n1"), 300)
        assert fleet.cloud.deleted == 1, "and it goes when the VM has rested"

    in_virtual_time(story)


def _rows(fleet: VmFleet, node: str) -> tuple[Any, Any]:
    ledger = fleet.scheduler.core.snapshot.vms.ledger.ledger(node)
    return ledger.cpu, ledger.memory


async def _is_copying(fleet: VmFleet) -> bool:
    found = (await fleet.api.list(VIRTUAL_MACHINE_MIGRATIONS, NS)).items
    return any(one.status.phase == "Running" for one in found)


async def _is_nobodys_source(fleet: VmFleet, pod: str) -> bool:
    """True if the ledger does not take the pod for one that is on its way."""
    account = fleet.scheduler.core.snapshot.vms.ledger.account(ObjectKey(NS, pod))
    return not account.migrating and not account.accounted_for


async def _reserves(fleet: VmFleet, cores: dict[str, int]) -> bool:
    """True if the ledger has these thousandths of cores reserved, and nothing on other nodes."""
    ledger = fleet.scheduler.core.snapshot.vms.ledger
    found = {node: ledger.ledger(node).cpu.reserved for node in ledger.nodes()}
    return {node: amount for node, amount in found.items() if amount} == cores


async def _only(fleet: VmFleet, node: str) -> bool:
    return await fleet.nodes() == [node]


@pytest.mark.story
def test_a_vm_whose_migrations_fail_is_never_evicted() -> None:
    async def story(fleet: VmFleet) -> None:
        await fleet.pool(**DRAINED, minSize=1)
        await fleet.api.patch(NODES, "n1", MergePatch({"spec": {"unschedulable": True}}))
        await fleet.vm("b", 2)
        node, pods = await fleet.node_of("b"), await fleet.vm_pods()
        assert node != "n1"
        await fleet.api.patch(NODES, "n1", MergePatch({"spec": {"unschedulable": False}}))
        await fleet.api.patch(NODE_PROVISIONERS, POOL, MergePatch({"spec": {"minSize": 0}}))
        await fleet.until(fleet.migrations)
        await asyncio.sleep(600)
        notes = [one["note"] for one in (await fleet.api.list(EVENTS)).items]
        failed = [note for note in notes if RemovalFailure.VM_NOT_MIGRATED.value in note]
        assert failed, "tried, and told why not"
        assert (await fleet.vm_pods()).items() >= pods.items()
        assert fleet.never_stopped("b")
        assert fleet.cloud.deleted == 0

    in_virtual_time(story, failures=1.0)
