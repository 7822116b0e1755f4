"""Idle cost: processor time, memory, API requests and log lines of each process while nothing happens.

1,000 nodes with reported GPUs and 10,000 pods on them, on the real API server. Each component runs as an installation
runs it: installed arguments, a token of its own account. Requests are counted in the API server's audit log; a watch
that is opened again counts as one. A quiet time passes after the start, then a minute is measured.
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

from bench.population import GPUS_PER_NODE, create_all, nodes_with_gpus, report_inventories
from bench.record import Figure
from bench.rivals import processor_seconds
from ullage.deploy.applying import apply
from ullage.deploy.component import Component
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
MEASURED = [name for name, spec in COMPONENTS.items() if spec.needs is None]
"""All components but those of a feature: there are no VMs here."""
OPTIONS = InstallOptions(components=tuple(Component), pod_group=True, simulate="8xH100-SXM")


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


def run(scale: float) -> list[Figure]:
    """Figures of every component, in the order of installation."""
    nodes, pods = int(NODES_THERE * scale), int(PODS_THERE * scale)
    with ControlPlane(ControlPlaneSpec(audit=True)) as plane, ExitStack() as stack:
        asyncio.run(_populate(plane, nodes, pods))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ullage-idle-")))
        running = [_started(plane, component, folder, stack) for component in MEASURED]
        time.sleep(SETTLE_SECONDS * min(1.0, scale * 2))
        _check_seen(running[0], GPUS_PER_NODE * nodes)
        return _measured(plane, running)


def _check_seen(scheduler: IdleProcess, gpus: int) -> None:
    """An idle process that has seen nothing proves nothing."""
    with urllib.request.urlopen(f"http://{scheduler.address}/metrics", timeout=10) as answer:
        counts = re.findall(r"^ullage_gpus\{.*\} (.+)$", answer.read().decode(), re.MULTILINE)
    seen = int(sum(map(float, counts)))
    if seen != gpus:
        raise AssertionError(f"the scheduler knows {seen} GPUs, there are {gpus}")


async def _populate(plane: ControlPlane, nodes: int, pods: int) -> None:
    api = connect(plane.kubeconfig)
    try:
        await apply(api, OPTIONS, lambda _: None)
        bodies = nodes_with_gpus(nodes)
        await create_all(api, NODES, bodies, "")
        await report_inventories(api, [body["metadata"]["name"] for body in bodies])
        await create_all(api, PODS, [_pod(number, nodes) for number in range(pods)], "default")
    finally:
        await api.close()


def _pod(number: int, nodes: int) -> dict[str, Any]:
    return a_pod(f"p{number:05d}", requests={"cpu": "1"}, nodeName=f"node-{number % nodes:04d}")


def _started(plane: ControlPlane, component: Component, folder: Path, stack: ExitStack) -> IdleProcess:
    """Start a component with installed arguments, on loopback, and wait until it is ready."""
    spec = COMPONENTS[component]
    held = reserve_port()
    stack.callback(held.release)
    node = "node-0000" if spec.per_node else ""
    access = plane.kubeconfig_of_account(spec.name, OPTIONS.namespace, node)
    given = [one.replace(NAMESPACE_VARIABLE, OPTIONS.namespace) for one in arguments(spec, OPTIONS)]
    token = folder / "token"
    token.write_text("a-long-enough-token-for-benchmarks")
    here = {"--listen": f"127.0.0.1:{held.port}", "--token-file": str(token), "--proc": "/proc"}
    if component is Component.WEBHOOK:
        reviews = reserve_port()
        stack.callback(reviews.release)
        here["--address"] = f"127.0.0.1:{reviews.port}"
    for option, value in here.items():
        if option in given:
            given[given.index(option) + 1] = value
    more = ("--node-name", node) if node else ()
    log = folder / f"{component}.log"
    with log.open("wb") as words:
        command = (str(PROGRAM), *given, *more, "--kubeconfig", str(access))
        process = subprocess.Popen(command, stdout=words, stderr=subprocess.STDOUT)
    stack.callback(_end, process)
    url = f"http://127.0.0.1:{held.port}{spec.ready_path}"
    if not wait_until(lambda: _answers(process, url), READY_SECONDS):
        raise AssertionError(f"{component} is not ready within {READY_SECONDS:.0f} s:\n{log.read_text()[-3000:]}")
    return IdleProcess(component, process, log, f"127.0.0.1:{held.port}")


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
