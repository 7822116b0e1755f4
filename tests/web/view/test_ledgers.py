"""Ledgers of VM nodes on the dashboard: rows of the model, and bars on the page."""

import re
from typing import Any

import msgspec
import pytest
from playwright.async_api import Browser, expect

from tests.vms import GI, a_migration, a_vm, size
from tests.web.pages import showing
from tests.web.worlds import World
from ullage.model.fact_event import Added, ObjectKey, Synced, Updated
from ullage.model.vm import Vm, VmAmounts, VmMarks
from ullage.model.vm_config import VM_SOURCES
from ullage.web.live import LiveView
from ullage.web.view.model import DashboardModel
from ullage.web.view.patch import PageSection
from ullage.web.view.rows import PageInfo, VmNodeRow


def a_guest(name: str, use: VmAmounts) -> Vm:
    return msgspec.structs.replace(a_vm(name, use), key=ObjectKey("team", name))


def vms(world: World, view: Any) -> None:
    """Node `a` with 96 cores and VMs of 60 and 30, of which the second asked for more; node `b` without VMs."""
    world.node("a", gpus=0)
    world.node("b", gpus=0)
    for source in VM_SOURCES:
        view.observe(Synced(source))
    for name, use, wanted in (("one", size(60, 200), size(60, 200)), ("two", size(30, 100), size(36, 100))):
        vm = a_guest(name, use)
        view.observe(Added(vm.key, vm))
        world.pod(name, node="a", vm=VmMarks(name=name, approved=use, requested=wanted))


def rows_of(model: DashboardModel) -> dict[str, Any]:
    return dict(model.patch(PageInfo(), now=0.0).sections.get(PageSection.LEDGERS, {}))


def test_only_nodes_with_vms_have_a_ledger_and_only_changes_are_sent() -> None:
    model = DashboardModel()
    world = World(model.observe)
    vms(world, model)
    rows = rows_of(model)
    assert list(rows) == ["a"]
    row = rows["a"]
    assert isinstance(row, VmNodeRow)
    assert (row.vms, row.moving) == (2, 0)
    assert (row.cpu.total, row.cpu.reserved, row.cpu.buffer, row.cpu.denied) == (96_000, 90_000, 0, 6_000)
    assert row.memory.reserved == 300 * GI
    assert rows_of(model) == {}


def test_a_vm_that_leaves_is_counted_as_leaving_and_a_node_without_vms_goes() -> None:
    model = DashboardModel()
    world = World(model.observe)
    vms(world, model)
    migration = msgspec.structs.replace(a_migration("two", source="two"), key=ObjectKey("team", "m"))
    model.observe(Added(migration.key, migration))
    row = rows_of(model)["a"]
    assert (row.moving, row.cpu.leaving) == (1, 36_000)
    for name in ("one", "two"):
        world.remove_pod(name)
    assert rows_of(model) == {"a": None}


def test_a_vm_whose_approval_is_lost_is_a_buffer() -> None:
    model = DashboardModel()
    world = World(model.observe)
    vms(world, model)
    world.put_pod(msgspec.structs.replace(world.pods[ObjectKey("team", "two")], vm=VmMarks(name="two")))
    row = rows_of(model)["a"]
    assert (row.cpu.reserved, row.cpu.buffer) == (124_000, 34_000)


@pytest.mark.asyncio(loop_scope="module")
async def test_bars_say_what_they_show_and_are_reached_by_keyboard(chromium: Browser) -> None:
    def make(world: World, view: LiveView) -> None:
        vms(world, view)

    async with showing(chromium, make) as show:
        page = show.page
        await expect(page.get_by_role("region", name="VM nodes")).to_have_count(1)
        await expect(page.locator("#ledgers-count")).to_have_text("1 node, 2 VMs")
        button = page.locator('[data-vm-node="a"]')
        await expect(button).to_have_attribute(
            "aria-label",
            re.compile(r"^a, 2 VMs\. CPU: 90 cores of 96 cores reserved, watermark .*6 cores denied\. Memory"),
        )
        line = button.locator('[data-what="CPU"]')
        await expect(line).to_contain_text("6 cores denied")
        widths = await line.evaluate(
            "line => [...line.querySelectorAll('.ledger-bar i')].map(one => one.getBoundingClientRect().width)"
        )
        assert widths[0] > widths[2] > 0, "used below the watermark, then what is above it"
        await button.focus()
        await page.keyboard.press("Enter")
        await expect(page.locator("#details")).to_be_visible()
        await expect(page.locator("#details-title")).to_contain_text("a")
        grown = a_guest("one", size(10, 50))
        show.view.observe(Updated(grown.key, grown, grown))
        pod = show.world.pods[ObjectKey("team", "one")]
        small = VmMarks(name="one", approved=size(10, 50))
        show.world.put_pod(msgspec.structs.replace(pod, vm=small))
        await expect(line).to_contain_text("40 cores of")


@pytest.mark.asyncio(loop_scope="module")
async def test_without_vms_there_is_no_panel(chromium: Browser) -> None:
    def make(world: World, _: LiveView) -> None:
        world.node("a")

    async with showing(chromium, make) as show:
        await expect(show.page.locator("#ledgers-panel")).to_be_hidden()
