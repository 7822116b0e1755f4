"""`ullage vm-agent` as a process: real sockets, TLS, tokens, and neighbours that misbehave."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web

from tests.contract.expect import eventually
from tests.vm_agent.program import PROGRAM, a_scene
from tests.vm_agent.town import NS
from ullage.kube.client.resources import CRDS, PODS, VIRTUAL_MACHINES

pytestmark = pytest.mark.fault


async def test_it_goes_up_and_down_and_stops_when_told(tmp_path: Path) -> None:
    async with a_scene(tmp_path, "ab") as scene:
        scene.machine.units = 3
        await scene.uses("a", 3)
        await scene.uses("b", 3)
        scene.machine.units = 1
        await scene.uses("a", 1)
        assert await scene.stop() == 0
        first = scene.scheduler.requests[0]
        assert (first["protoVersion"], first["lastPermit"]) == (7, None)
        assert first["computeUnit"] == {"vCPUs": 1, "mem": "4Gi"}
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines() if line.startswith("{")]
    resized = [line for line in lines if line["event"] == "resized" and line["vm"] == f"{NS}/a"]
    assert [line["to"] for line in resized] == ["3 CPU and 12Gi", "1 CPU and 4Gi"], "one line for each change"


async def test_smaller_steps_count_without_a_restart(tmp_path: Path) -> None:
    async def log() -> str:
        return (tmp_path / "log").read_text()

    async with a_scene(tmp_path, "a") as scene:
        scene.machine.units = 2
        await scene.uses("a", 2)
        file = tmp_path / "settings.yaml"
        file.write_text(file.read_text() + "  maxStep: 1\n")
        await eventually(log, until=lambda text: "settings file changed" in text, seconds=30)
        before = len(scene.scheduler.requests)
        scene.machine.units = 6
        await scene.uses("a", 6)
        asked = [one["resources"]["vCPUs"] for one in scene.scheduler.requests[before:]]
        assert set(asked) - {2} == {3, 4, 5, 6}, "a unit at a time"
        file.write_text(file.read_text() + "  cpuUnit: none\n")
        await eventually(log, until=lambda text: "settings file refused" in text, seconds=30)
        scene.machine.units = 1
        await scene.uses("a", 1)
        assert await scene.stop() == 0


async def test_a_scheduler_that_is_slow_lies_answers_garbage_and_is_down(tmp_path: Path) -> None:
    async def slow(_: dict[str, Any]) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    async def lies(_: dict[str, Any]) -> web.Response:
        return web.json_response({"permit": {"vCPUs": 64, "mem": "1Ti"}})

    async def garbage(_: dict[str, Any]) -> web.Response:
        return web.Response(body=b"\x00\x01 not a permit")

    async with a_scene(tmp_path, "a") as scene:
        await scene.requests_more(1)
        for behaviour in (slow, lies, garbage):
            scene.scheduler.behaviour = behaviour
            scene.machine.units = 3
            await scene.requests_more(3)
            assert await scene.size("a") == 1, behaviour.__name__
            scene.scheduler.behaviour = None
            await scene.uses("a", 3)
            scene.machine.units = 1
            await scene.uses("a", 1)
        await scene.scheduler.stop()
        scene.machine.units = 4
        await asyncio.sleep(2)
        assert await scene.size("a") == 1
        await scene.scheduler.start()
        await scene.uses("a", 4)


async def test_a_token_that_expires_is_read_again(tmp_path: Path) -> None:
    async with a_scene(tmp_path, "a") as scene:
        await scene.requests_more(1)
        scene.scheduler.token = "second"
        scene.machine.units = 3
        await scene.requests_more(3)
        assert await scene.size("a") == 1, "an expired token gets no permit"
        scene.token.write_text("second")
        await scene.uses("a", 3)
        assert scene.scheduler.tokens[-1] == "second"


async def test_a_metrics_endpoint_that_hangs_keeps_the_size(tmp_path: Path) -> None:
    async with a_scene(tmp_path, "a") as scene:
        scene.machine.units = 3
        await scene.uses("a", 3)
        scene.machine.hangs, scene.machine.units = True, 1
        await asyncio.sleep(3)
        assert await scene.size("a") == 3
        scene.machine.hangs = False
        await scene.uses("a", 1)


async def test_a_vm_deleted_in_the_middle_of_a_change(tmp_path: Path) -> None:
    async with a_scene(tmp_path, "ab") as scene:
        await scene.requests_more(2)

        async def deletes(message: dict[str, Any]) -> web.Response:
            if message["pod"]["name"] == "a-0" and message["resources"]["vCPUs"] == 3:
                scene.scheduler.behaviour = None
                await scene.api.delete(VIRTUAL_MACHINES, "a", NS)
                await scene.api.delete(PODS, "a-0", NS)
            return web.json_response({"permit": message["resources"]})

        scene.scheduler.behaviour = deletes
        scene.machine.units = 3
        await scene.uses("b", 3)
        await asyncio.sleep(1)
        scene.machine.units = 2
        await scene.uses("b", 2)
        assert scene.process is not None
        assert scene.process.poll() is None


async def test_probes_and_metrics(tmp_path: Path) -> None:
    async with a_scene(tmp_path, "a", "--listen", "127.0.0.1:19443") as scene:
        scene.machine.units = 2
        await scene.uses("a", 2)
        async with ClientSession() as session:
            async with session.get("http://127.0.0.1:19443/readyz") as answer:
                assert answer.status == 200
            async with session.get("http://127.0.0.1:19443/metrics") as answer:
                page = await answer.text()
        assert 'ullage_vm_agent_vms{state="ok"} 1.0' in page
        assert 'ullage_vm_agent_resizes_total{direction="up",outcome="done"} 1.0' in page


def complaint(*options: str) -> str:
    done = subprocess.run(
        (PROGRAM, "vm-agent", "--node-name", "n", *options), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param(("--scheduler", "10.0.0.7:10299"), "--scheduler: '10.0.0.7:10299' is not a URL", id="no-url"),
        pytest.param(("--scheduler", "http://s:1"), "has no TLS", id="no-tls"),
        pytest.param(("--scheduler-ca", "/nowhere"), "--scheduler-ca: /nowhere is not a file", id="no-ca"),
        pytest.param(("--token-file", "/nowhere"), "--token-file: /nowhere is not a file", id="no-token"),
        pytest.param(("--settings", "/nowhere"), "/nowhere", id="no-settings"),
    ],
)
def test_what_is_asked_wrongly(options: tuple[str, ...], words: str) -> None:
    assert words in complaint(*options)


async def test_a_cluster_without_the_kind(tmp_path: Path) -> None:
    async with a_scene(tmp_path, "") as scene:
        await scene.stop()
        await scene.api.delete(CRDS, "virtualmachines.vm.neon.tech")
        (tmp_path / "log").write_text("")
        scene.start()
        assert scene.process is not None
        assert await asyncio.to_thread(scene.process.wait, 20) == 1
        assert "does not serve VirtualMachine" in (tmp_path / "log").read_text()
