"""The program `ullage vm-agent` in a process of its own, with a simulated API server, a permit server and metrics."""

import asyncio
import json
import random
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.vm_agent.town import NS, units
from ullage.certs.authority import CertificatePair, issue, new_authority
from ullage.certs.serving import CertificateBundle, ReloadingTlsContext
from ullage.clock import WallClock
from ullage.decide.certs.rotation import ValidityPeriod
from ullage.kube.client.api import Binding, KubeApi, MergePatch
from ullage.kube.client.resources import NODES, PODS, VIRTUAL_MACHINES
from ullage.kube.client.rest import RestApi
from ullage.kube.crds.catalog import VM_KINDS
from ullage.kube.crds.install import install
from ullage.kube.read.vm import read_vm
from ullage.model.units import Instant
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.http import serving
from ullage.testing.builders import a_node, a_pod, a_virtual_machine, with_meta

PROGRAM = Path(sys.executable).with_name("ullage")
SETTINGS = """\
vmagent:
  cpuUnit: 1
  memoryUnit: 4Gi
  requestEvery: 1s
  requestTimeout: 1s
  afterDenial: 200ms
  afterFailedRequest: 200ms
  afterFailedResize: 200ms
  metricsEvery: 200ms
  metricsTimeout: 500ms
  metricsPort: {port}
"""


@dataclass
class PermitServer:
    """A scheduler that grants all, or does as it is told. Requests and tokens are kept."""

    tls: ssl.SSLContext
    token: str = "first"
    behaviour: Callable[[dict[str, Any]], Awaitable[web.Response]] | None = None
    requests: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    port: int = 0
    _runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application()
        app.router.add_post("/", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=self.tls, reuse_address=True).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        self._runner = None

    async def _answer(self, request: web.Request) -> web.Response:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.tokens.append(token)
        if token != self.token:
            return web.Response(status=401, text="Unauthorized")
        message = json.loads(await request.read())
        self.requests.append(message)
        if self.behaviour is not None:
            return await self.behaviour(message)
        return web.json_response({"permit": message["resources"]})


@dataclass
class Machine:
    """Metrics endpoint of all VMs: one load for all, in compute units."""

    units: int = 1
    hangs: bool = False
    port: int = 0

    async def page(self, _: web.Request) -> web.Response:
        if self.hangs:
            await asyncio.sleep(60)
        load = 0.9 * self.units
        memory = "node_memory_MemTotal_bytes 4e9\nnode_memory_MemAvailable_bytes 3e9\n"
        return web.Response(text=f"node_load1 {load}\nnode_load5 {load}\n{memory}")


@dataclass
class Scene:
    api: KubeApi
    scheduler: PermitServer
    machine: Machine
    token: Path
    command: list[str]
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(self.command, stdout=out, stderr=out)

    async def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return await asyncio.to_thread(self.process.wait, 20)

    async def uses(self, name: str, count: int, seconds: float = 30.0) -> None:
        """Wait until the VM has so many units."""
        async with asyncio.timeout(seconds):
            while read_vm(await self.api.get(VIRTUAL_MACHINES, name, NS)).use != units(count):  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def size(self, name: str) -> int:
        return read_vm(await self.api.get(VIRTUAL_MACHINES, name, NS)).use.cpu // 1000

    async def requests_more(self, count: int, seconds: float = 20.0) -> None:
        """Wait for so many more requests."""
        goal = len(self.scheduler.tokens) + count
        async with asyncio.timeout(seconds):
            while len(self.scheduler.tokens) < goal:  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def add(self, name: str) -> None:
        await self.api.create(VIRTUAL_MACHINES.whole(), a_virtual_machine(name, most=8, schedulerName="nobody"), NS)
        await self.api.create(PODS, with_meta(a_pod(f"{name}-0"), labels={"vm.neon.tech/name": name}), NS)
        await self.api.bind(f"{name}-0", NS, Binding("n"))
        running = MergePatch({"status": {"phase": "Running", "podIP": "127.0.0.1"}})
        await self.api.patch(PODS, f"{name}-0", running, NS, subresource="status")


def certificates() -> tuple[CertificatePair, bytes]:
    """Serving certificate of a new authority, and the authority."""
    now = WallClock().now()
    span = ValidityPeriod(Instant(now - 3600), Instant(now + 3600))
    authority = new_authority(span)
    return issue(authority, ["localhost", "127.0.0.1"], span), authority.certificate


@asynccontextmanager
async def a_scene(folder: Path, vms: str, *more: str) -> AsyncIterator[Scene]:
    """The program at work on these VMs of one unit each."""
    server = SimulatedApiServer(WallClock(), seed=3)
    api = RestApi(InMemoryTransport(server, user="story"), rng=random.Random(3))
    await install(api, VM_KINDS)
    await api.create(NODES, a_node("n"))
    pair, authority = certificates()
    served = ReloadingTlsContext()
    served.load(CertificateBundle(pair, authority))
    scheduler, machine = PermitServer(served.context), Machine()
    (folder / "ca.crt").write_bytes(authority)
    (folder / "token").write_text("first")
    async with AsyncExitStack() as opened:
        cluster = await opened.enter_async_context(serving(server))
        await scheduler.start()
        opened.push_async_callback(scheduler.stop)
        machine.port = await _machine_at_work(opened, machine)
        (folder / "settings.yaml").write_text(SETTINGS.format(port=machine.port))
        command = [str(PROGRAM), "--log-format", "json", "vm-agent", "--node-name", "n"]
        command += ["--kubeconfig", str(cluster.kubeconfig), "--settings", str(folder / "settings.yaml")]
        command += ["--scheduler", f"https://127.0.0.1:{scheduler.port}", "--scheduler-ca", str(folder / "ca.crt")]
        command += ["--token-file", str(folder / "token"), *more]
        scene = Scene(api, scheduler, machine, folder / "token", command, folder / "log")
        for name in vms:
            await scene.add(name)
        scene.start()
        try:
            yield scene
        finally:
            if scene.process is not None and scene.process.poll() is None:
                scene.process.kill()
                await asyncio.to_thread(scene.process.wait)


async def _machine_at_work(opened: AsyncExitStack, machine: Machine) -> int:
    app = web.Application()
    app.router.add_get("/metrics", machine.page)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    opened.push_async_callback(runner.cleanup)
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port: int = runner.addresses[0][1]
    return port
