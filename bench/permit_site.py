"""Set-up of the permits benchmark: 20 nodes with 200 VM pods, tokens, and scheduler and agents as processes."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from bench.rivals import processor_seconds
from ullage.errors import AlreadyExists, NotFound
from ullage.kube.auth.connect import connect, find_access
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resources import CONFIG_MAPS, NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS, VIRTUAL_MACHINES
from ullage.kube.client.transport import Request
from ullage.kube.crds.catalog import OURS, POD_GROUP, VM_KINDS
from ullage.kube.crds.install import install
from ullage.kube.http.http import HttpTransport
from ullage.kube.write.vm import approval_annotations
from ullage.model.vm import SCALING_ENABLED, VM_NAME, VmAmounts
from ullage.testing.builders import a_node, a_pod, with_meta
from ullage.testing.controlplane import ControlPlane, GoProgram
from ullage.testing.controlplane.ports import reserve_port

NS, SYSTEM, ACCOUNT = "default", "ullage-system", "ullage-vm-agent"
NODE_COUNT, VMS_PER_NODE = 20, 10
GI = 1 << 30
UNIT = VmAmounts(1000, 4 * GI)
_SETTLE_SECONDS = 10.0
_ULLAGE = str(Path(sys.executable).with_name("ullage"))
_NODE_CONFIG = {
    "nodeDefaults": {
        "cpu": {"watermark": 0.9, "system": "1"},
        "memory": {"watermark": 0.9, "system": "1Gi"},
        "computeUnit": {"vCPUs": 1, "mem": 4},
    }
}


@dataclass
class PermitSite:
    """Cluster with a scheduler that answers agents. Half of each node's VMs are the agents', half the generator's."""

    plane: ControlPlane
    api: KubeApi
    folder: Path
    tokens: dict[str, str] = field(default_factory=dict)
    port: int = 0
    _pids: dict[str, list[int]] = field(default_factory=dict)

    def processor_seconds(self) -> dict[str, float]:
        """Time on a processor by program; all agents together."""
        plane = {one.value: [self.plane.pid(one)] for one in (GoProgram.ETCD, GoProgram.APISERVER)}
        programs = {**self._pids, **plane, "generator": [os.getpid()]}
        return {
            name: sum(processor_seconds({str(pid): pid for pid in pids}).values()) for name, pids in programs.items()
        }

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}/"

    async def build(self) -> None:
        """Create kinds, accounts, nodes, VMs, pods and tokens."""
        await install(self.api, (*OURS, POD_GROUP, *VM_KINDS))
        for name in (SYSTEM,):
            await _made(self.api.create(NAMESPACES, {"metadata": {"name": name}}))
        await _made(self.api.create(SERVICE_ACCOUNTS, {"metadata": {"name": ACCOUNT}}, SYSTEM))
        config = {"metadata": {"name": "vm-nodes"}, "data": {"config.json": json.dumps(_NODE_CONFIG)}}
        await _made(self.api.create(CONFIG_MAPS, config, SYSTEM))
        for number in range(NODE_COUNT):
            await self._node(f"n{number:02}")

    async def _node(self, node: str) -> None:
        room = {"cpu": "64", "memory": "256Gi", "pods": "110"}
        await self.api.create(NODES, a_node(node, allocatable=room))
        agent = f"agent-{node}"
        await self.api.create(PODS, a_pod(agent, nodeName=node, serviceAccountName=ACCOUNT), SYSTEM)
        self.tokens[node] = await self._token(agent)
        (self.folder / f"{node}.token").write_text(self.tokens[node])
        await asyncio.gather(*(self._vm(f"{node}-v{number}", node, number) for number in range(VMS_PER_NODE)))

    async def _vm(self, name: str, node: str, number: int) -> None:
        sizes = {
            "cpus": {"min": 1, "use": 1, "max": 8},
            "memorySlots": {"min": 4, "use": 4, "max": 32},
        }
        body = {"metadata": {"name": name, "labels": {SCALING_ENABLED: "true"}}, "spec": {"guest": sizes}}
        await self.api.create(VIRTUAL_MACHINES.whole(), body, NS)
        notes = approval_annotations(UNIT, UNIT)
        pod = with_meta(a_pod(name, nodeName=node), labels={VM_NAME: name}, annotations=notes)
        await self.api.create(PODS, pod, NS)
        if number % 2 == 0:  # an agent takes over Running pods; the others are the generator's
            running = MergePatch({"status": {"phase": "Running", "podIP": "127.0.0.1"}})
            await self.api.patch(PODS, name, running, NS, subresource="status")

    async def _token(self, pod: str) -> str:
        uid = (await self.api.get(PODS, pod, SYSTEM)).metadata.uid
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": uid}
        spec = {"expirationSeconds": 3600, "boundObjectRef": bound}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        access = find_access(self.plane.kubeconfig)
        transport = HttpTransport(access.endpoint, access.credentials)
        try:
            path = SERVICE_ACCOUNTS.path(SYSTEM, ACCOUNT, "token")
            response = await transport.send(Request("POST", path, body=json.dumps(body).encode()))
        finally:
            await transport.close()
        return str(json.loads(response.body)["status"]["token"])

    async def authority(self) -> str:
        """The CA that the scheduler publishes for agents."""
        async with asyncio.timeout(60):
            while True:
                try:
                    found = await self.api.get(CONFIG_MAPS.whole(), "ullage-scheduler-ca", SYSTEM)
                    return str(found["data"]["ca.crt"])
                except NotFound:
                    await asyncio.sleep(0.2)

    @contextmanager
    def scheduler(self) -> Iterator[subprocess.Popen[bytes]]:
        """The scheduler as a process; the port is taken anew each time."""
        self.port, state = _free_ports()
        command = [_ULLAGE, "scheduler", "--kubeconfig", str(self.plane.kubeconfig), "--no-leader-election"]
        command += ["--permits", f"127.0.0.1:{self.port}", "--state", f"127.0.0.1:{state}"]
        command += ["--permits-name", "127.0.0.1"]
        with _running(command, self.folder / "scheduler.log") as process:
            self._pids["scheduler"] = [process.pid]
            yield process

    @contextmanager
    def agents(self, metrics_port: int) -> Iterator[None]:
        """One vm-agent on each node."""
        settings = self.folder / "agents.yaml"
        settings.write_text(f"vmagent: {{cpuUnit: 1, memoryUnit: 4Gi, metricsPort: {metrics_port}}}\n")
        with ExitStack() as running:
            for node, _ in sorted(self.tokens.items()):
                command = [_ULLAGE, "vm-agent", "--node-name", node, "--kubeconfig", str(self.plane.kubeconfig)]
                command += ["--scheduler", self.url, "--scheduler-ca", str(self.folder / "ca.crt")]
                command += ["--token-file", str(self.folder / f"{node}.token"), "--settings", str(settings)]
                process = running.enter_context(_running(command, self.folder / f"{node}.log"))
                self._pids.setdefault("agents", []).append(process.pid)
            yield

    async def agents_at_work(self) -> None:
        """Wait until the agents have taken over their VMs, and their start is over."""
        wanted = NODE_COUNT * VMS_PER_NODE // 2
        async with asyncio.timeout(300):
            while self._taken_over() < wanted:  # noqa: ASYNC110 - only their logs tell
                await asyncio.sleep(1.0)
        await asyncio.sleep(_SETTLE_SECONDS)

    def _taken_over(self) -> int:
        logs = [self.folder / f"{node}.log" for node in self.tokens]
        return sum(log.read_text().count("VM taken over") for log in logs if log.exists())


def _free_ports() -> tuple[int, int]:
    """Two ports that the scheduler can take."""
    one, other = reserve_port(), reserve_port()
    for taken in (one, other):
        taken.release()
    return one.port, other.port


@contextmanager
def _running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=os.environ)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def _made(create: object) -> None:
    try:
        await create  # type: ignore[misc]
    except AlreadyExists:
        return


@asynccontextmanager
async def a_machine() -> AsyncIterator[int]:
    """Metrics endpoint of every VM: steady load of one compute unit. Gives its port."""
    page = "node_load1 0.5\nnode_load5 0.5\nnode_memory_MemTotal_bytes 4e9\nnode_memory_MemAvailable_bytes 3e9\n"

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text=page)

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def built_site(plane: ControlPlane, folder: Path) -> AsyncIterator[PermitSite]:
    """The site with all objects."""
    api = connect(plane.kubeconfig)
    try:
        site = PermitSite(plane, api, folder)
        await site.build()
        yield site
    finally:
        await api.close()
