"""The settings file of `ullage scheduler`, changed while it runs on the real control plane."""

import re
from pathlib import Path

import aiohttp
import pytest

from tests.contract.expect import eventually
from tests.control.scheduling.fleet import add_nodes, each, reporting, submit
from tests.control.scheduling.programs import Programs
from tests.control.scheduling.reading import settled
from ullage.clock import WallClock
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import EVENTS, PODS
from ullage.testing.controlplane import ControlPlane

pytestmark = pytest.mark.real

NODES = ["node-000", "node-001", "node-002", "node-003"]


async def metric(programs: Programs, name: str) -> float | None:
    address = re.search(r"metrics at (\S+)", programs.said())
    if address is None:
        return None
    async with aiohttp.ClientSession() as session, session.get(address[1]) as page:
        found = re.search(rf"^{re.escape(name)} (\S+)$", await page.text(), re.MULTILINE)
    return None if found is None else float(found[1])


async def nodes_of(api: KubeApi, begins: str) -> set[str]:
    pods = (await api.list(PODS, "default")).items
    return {pod.spec.node_name for pod in pods if pod.metadata.name.startswith(begins)}


async def test_a_policy_changes_while_it_runs_and_a_bad_file_changes_nothing(
    plane: ControlPlane, api: KubeApi, programs: Programs, tmp_path: Path
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("scheduling: {policy: packing}\n")
    await add_nodes(api, NODES, WallClock())
    programs.scheduler(plane.kubeconfig, "--settings", str(file), "--listen", "127.0.0.1:0")

    async def told() -> dict[str, str]:
        return {one["reason"]: one["note"] for one in (await api.list(EVENTS, "ullage-system")).items}

    async with reporting(api, NODES, WallClock()):
        await each(range(4), lambda number: submit(api, "default", f"packed-{number}", 1))
        await settled(api, 60, programs)
        assert len(await nodes_of(api, "packed")) == 1

        file.write_text("scheduling: {policy: spred}\n")
        events = await eventually(told, until=lambda found: "SettingsRefused" in found, seconds=30)
        assert "settings.yaml:1: scheduling.policy: is 'spred'; " in events["SettingsRefused"]
        assert await metric(programs, "ullage_settings_last_reload_successful") == 0.0

        file.write_text("scheduling: {policy: spread, maxBindParallelism: 2, releaseLeases: false}\n")
        events = await eventually(told, until=lambda found: "SettingsReloaded" in found, seconds=30)
        assert events["SettingsReloaded"] == (
            "scheduling.policy: packing -> spread, scheduling.maxBindParallelism: 64 -> 2; "
            "waiting for a restart: scheduling.releaseLeases"
        )
        assert await metric(programs, "ullage_settings_last_reload_successful") == 1.0
        assert await metric(programs, "ullage_settings_restart_needed") == 1.0
        await each(range(3), lambda number: submit(api, "default", f"spread-{number}", 1))
        await settled(api, 60, programs)
        assert len(await nodes_of(api, "spread")) == 3
