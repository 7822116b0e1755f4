"""Idle cost: processor time, memory, API requests and log lines of each process while nothing happens.

1,000 nodes with reported GPUs and 10,000 pods on them, on the real API server; one node has ten VMs beside. Each
component runs as an installation runs it: installed arguments, a token of its own account. Requests are counted in the
API server's audit log; a watch that is opened again counts as one. A quiet time passes after the start, then a minute
is measured.
"""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.idle_vms import VMS_THERE, create_agent_pod, create_vms, metrics_served, mounted
from bench.population import GPUS_PER_NODE, create_all, nodes_with_gpus, report_inventories
from bench.record import Figure
from bench.rivals import processor_seconds
from ullage.deploy.applying import apply
from ullage.deploy.component import Component, Feature
from ullage.deploy.components import COMPONENTS, NAMESPACE_VARIABLE
from ullage.deploy.options import InstallOptions
from ullage.deploy.workloads import arguments
from ullage.kube.auth.connect import connect
from ullage.kube.client.resources import NODES, PODS
from ullage.testing.builders import a_pod
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec
from ullage.testing.controlplane.launcher import wait_until
from ullage.testing.controlplane.ports import reserve_port

NODES_THERE, PODS_THERE = 1_000, 10_000
SETTLE_SECONDS, MEASURED_SECONDS = 30.0, 60.0
READY_SECONDS = 180.0
PROGRAM = Path(sys.executable).with_name("ullage")
NODE = "node-0000"
"""Node of the agents that are measured."""
OPTIONS = InstallOptions(
    components=tuple(Component), features=(Feature.VMS,), pod_group=True, simulate="8xH100-SXM", settings="{}"
)


@dataclass(frozen=True, slots=True)
class IdleProcess:
    """A component at work."""

    component: Component
    process: "subprocess.Popen[bytes]"
    log: Path
    address: str

    def memory(self) -> float:
        """Resident memory in MiB."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def lines(self) -> int:
        """Lines logged so far."""
        return len(self.log.read_bytes().splitlines())


@dataclass(frozen=True, slots=True)
class IdleSite:
    """Where components run: their cluster, the folder of what would be mounted, and what ends when all is measured."""

    plane: ControlPlane
    folder: Path
    stack: ExitStack
    permits: str
    """Address at which the scheduler answers VM agents."""
    state: str

    @classmethod
    def open(cls, plane: ControlPlane, stack: ExitStack) -> "IdleSite":
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ullage-idle-")))
        port = stack.enter_context(metrics_served())
        (folder / "settings.yaml").write_text(f"vmagent: {{metricsPort: {port}}}\n")
        (folder / "token").write_text("a-long-enough-token-for-benchmarks")
        return cls(plane, folder, stack, address(stack), address(stack))


def address(stack: ExitStack) -> str:
    """An address on loopback that is free, until the stack ends."""
    held = reserve_port()
    stack.callback(held.release)
    return f"127.0.0.1:{held.port}"


def run(scale: float) -> list[Figure]:
    """Figures of every component, in the order of installation."""
    nodes, pods = int(NODES_THERE * scale), int(PODS_THERE * scale)
    with ControlPlane(ControlPlaneSpec(audit=True)) as plane, ExitStack() as stack:
        asyncio.run(_populate(plane, nodes, pods))
        site = IdleSite.open(plane, stack)
        running = [_started(site, component) for component in COMPONENTS]
        time.sleep(SETTLE_SECONDS * min(1.0, scale * 2))
        _check_seen(running[0], GPUS_PER_NODE * nodes)
        _check_taken_over(running)
        return _measured(plane, running)


def _check_seen(scheduler: IdleProcess, gpus: int) -> None:
    """An idle process that has seen nothing proves nothing."""
    with urllib.request.urlopen(f"http://{scheduler.address}/metrics", timeout=10) as answer:
        counts = re.findall(r"^ullage_gpus\{.*\} (.+)$", answer.read().decode(), re.MULTILINE)
    seen = int(sum(map(float, counts)))
    if seen != gpus:
        raise AssertionError(f"the scheduler knows {seen} GPUs, there are {gpus}")


def _check_taken_over(running: list[IdleProcess]) -> None:
    """A VM agent without VMs costs nothing."""
    log = next(one.log for one in running if one.component is Component.VM_AGENT).read_text()
    if (taken := log.count("VM taken over")) != VMS_THERE:
        raise AssertionError(f"the VM agent has {taken} VMs, there are {VMS_THERE}:\n{log[-3000:]}")


async def _populate(plane: ControlPlane, nodes: int, pods: int) -> None:
    api = connect(plane.kubeconfig)
    try:
        await create_vms(api, NODE)
        await apply(api, OPTIONS, lambda _: None)
        bodies = nodes_with_gpus(nodes)
        await create_all(api, NODES, bodies, "")
        await report_inventories(api, [body["metadata"]["name"] for body in bodies])
        await create_all(api, PODS, [_pod(number, nodes) for number in range(pods)], "default")
        await create_agent_pod(api, NODE, OPTIONS.namespace)
    finally:
        await api.close()


def _pod(number: int, nodes: int) -> dict[str, Any]:
    return a_pod(f"p{number:05d}", requests={"cpu": "1"}, nodeName=f"node-{number % nodes:04d}")


def _started(site: IdleSite, component: Component) -> IdleProcess:
    """Start a component with installed arguments, on loopback, and wait until it is ready."""
    spec = COMPONENTS[component]
    probes = address(site.stack)
    node = NODE if spec.per_node else ""
    access = site.plane.kubeconfig_of_account(spec.name, OPTIONS.namespace, node)
    given = [one.replace(NAMESPACE_VARIABLE, OPTIONS.namespace) for one in arguments(spec, OPTIONS)]
    for option, value in _options_here(site, component, probes).items():
        if option in given:
            given[given.index(option) + 1] = value
    if component is Component.SCHEDULER:
        given += ["--permits", site.permits, "--state", site.state, "--permits-name", "127.0.0.1"]
    more = ("--node-name", node) if node else ()
    log = site.folder / f"{component}.log"
    with log.open("wb") as words:
        command = (str(PROGRAM), *given, *more, "--kubeconfig", str(access))
        process = subprocess.Popen(command, stdout=words, stderr=subprocess.STDOUT)
    site.stack.callback(_end, process)
    url = f"http://{probes}{spec.ready_path}"
    if not wait_until(lambda: _answers(process, url), READY_SECONDS):
        raise AssertionError(f"{component} is not ready within {READY_SECONDS:.0f} s:\n{log.read_text()[-3000:]}")
    return IdleProcess(component, process, log, probes)


def _options_here(site: IdleSite, component: Component, probes: str) -> dict[str, str]:
    """Values that options have on this machine: addresses on loopback, files that kubelet would mount."""
    found = {
        "--listen": probes,
        "--token-file": str(site.folder / "token"),
        "--proc": "/proc",
        "--settings": str(site.folder / "settings.yaml"),
    }
    if component is Component.WEBHOOK:
        found["--address"] = address(site.stack)
    if component is Component.VM_AGENT:
        found["--scheduler"] = f"https://{site.permits}"
        found |= asyncio.run(mounted(site.plane.kubeconfig, OPTIONS.namespace, site.folder))
    return found


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _answers(process: "subprocess.Popen[bytes]", url: str) -> bool:
    if process.poll() is not None:
        raise AssertionError(f"{url}: the process ended with {process.returncode}")
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _measured(plane: ControlPlane, running: list[IdleProcess]) -> list[Figure]:
    pids = {str(one.component): one.process.pid for one in running}
    before, said, asked = processor_seconds(pids), {one.component: one.lines() for one in running}, len(plane.audit())
    began = time.monotonic()
    time.sleep(MEASURED_SECONDS)
    seconds = time.monotonic() - began
    after, log = processor_seconds(pids), plane.audit()[asked:]
    figures = []
    for one in running:
        name = str(one.component)
        user = f"system:serviceaccount:{OPTIONS.namespace}:ullage-{name}"
        requests = sum(entry.user == user for entry in log)
        figures += [
            Figure(f"{name}: processor", "% of a core", 100 * (after[name] - before[name]) / seconds),
            Figure(f"{name}: memory", "MiB", one.memory()),
            Figure(f"{name}: API requests", "per second", requests / seconds),
            Figure(f"{name}: log lines", "per minute", 60 * (one.lines() - said[one.component]) / seconds),
        ]
    return figures
