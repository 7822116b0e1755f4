"""A cluster with all our processes on a real control plane, each of which can be killed, stopped and started again."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

from tests.control.scheduling.programs import PROGRAM
from tests.kube.crds.bad_provisioners import with_fields
from ullage.cloud.kwok.provider import RECORDS
from ullage.kube.auth.connect import connect
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import CONFIG_MAPS, NAMESPACES, NODE_PROVISIONERS, NODES
from ullage.kube.crds.catalog import OURS, POD_GROUP
from ullage.kube.crds.install import install
from ullage.model.provisioner import PROVISIONER_LABEL
from ullage.testing.builders import a_namespace, a_node
from ullage.testing.checks.exclusivity import breaches, unsettled
from ullage.testing.controlplane import WORKLOADS, ControlPlane, ControlPlaneSpec, GoProgram
from ullage.testing.controlplane.components import KWOK_NODE_ANNOTATION
from ullage.testing.controlplane.fixtures import prepare
from ullage.testing.controlplane.launcher import wait_until
from ullage.testing.controlplane.ports import reserve_port
from ullage.testing.controlplane.processes import Processes
from ullage.testing.raw_watch import RawWatch, tls_of

STATIC = ("static-0", "static-1")
"""Nodes of 8 GPUs with an agent each."""
SITE_LABEL = {"site": "static"}
POOL = "pool"
SPACE = "ullage-system"
READY_SECONDS = 90.0
CONVERGES_SECONDS = 100.0
_SCHEDULERS = ("scheduler-0", "scheduler-1")
_ADMINS = ["system:masters"]
_LAST_WORDS = 3000


class Target(Enum):
    """Process that a signal is sent to."""

    LEADER = "scheduler-that-leads"
    STANDBY = "scheduler-that-stands-by"
    CONTROLLER = "controller"
    WEBHOOK = "webhook"
    AGENT = "agent"
    ETCD = "etcd"
    APISERVER = "kube-apiserver"


CONTROL_PLANE = {Target.ETCD: GoProgram.ETCD, Target.APISERVER: GoProgram.APISERVER}


class Program:
    """One of our programs, which may be started again and again."""

    def __init__(self, processes: Processes, name: str, *command: str | Path) -> None:
        self.name = name
        self._processes = processes
        self._log = processes.folder / f"{name}.log"
        self._command = [str(PROGRAM), *map(str, command)]

    def start(self) -> None:
        self._processes.start(self.name, self._command, log=self._log)

    def send(self, number: signal.Signals) -> None:
        """Send a signal; returns after the end if it is SIGKILL."""
        self._processes.send_signal(self.name, number)

    @property
    def runs(self) -> bool:
        return self._processes.exit_code(self.name) is None

    def said(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""


class SignalSite:
    """The cluster. `api` is for the load and for questions; what was exclusive is judged from the raw watches."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self._processes = Processes()
        """Of our programs. They end with the test run, even if it is killed."""
        self.broken = False
        """True if a test failed: the next one needs another site."""
        port = reserve_port()
        self._port = port
        url = f"https://127.0.0.1:{port.port}"
        self._webhook_url = url
        scheduler = plane.kubeconfig_for(f"system:serviceaccount:{SPACE}:ullage-scheduler", _ADMINS)
        controller = plane.kubeconfig_for(f"system:serviceaccount:{SPACE}:ullage-controller", _ADMINS)
        admin = plane.kubeconfig
        reach = ("--address", f"127.0.0.1:{port.port}", "--url", url, "--drain", "0", "--kubeconfig", admin)
        self.programs = {
            **{name: self._program(name, "scheduler", "--kubeconfig", scheduler) for name in _SCHEDULERS},
            "controller": self._program("controller", "controller", "--kubeconfig", controller),
            "webhook": self._program("webhook", "webhook", *reach),
            **{f"agent-{node}": self._agent(node) for node in STATIC},
        }

    def _program(self, name: str, *command: str | Path) -> Program:
        return Program(self._processes, name, *command)

    def _agent(self, node: str) -> Program:
        options = ("--simulate", "8xH100-SXM", "--node-name", node, "--kubeconfig", self.plane.kubeconfig)
        return self._program(f"agent-{node}", "agent", *options)

    async def build(self) -> None:
        """Kinds, nodes, a pool, and every program; returns when a scheduler leads and the GPUs are reported."""
        api = connect(self.plane.kubeconfig)
        try:
            await install(api, (*OURS, POD_GROUP))
            await api.create(NAMESPACES, a_namespace(SPACE))
            for name in STATIC:
                node = a_node(name, labels=SITE_LABEL, allocatable={"nvidia.com/gpu": "8"})
                node["metadata"]["annotations"] = dict([KWOK_NODE_ANNOTATION])
                await api.create(NODES, node)
            await api.create(NODE_PROVISIONERS, {"metadata": {"name": POOL}, "spec": _pool()})
        finally:
            await api.close()
        where = ("--url", self._webhook_url, "--kubeconfig", self.plane.kubeconfig)
        await asyncio.to_thread(
            subprocess.run, (PROGRAM, "webhook", "--install", *where), check=True, capture_output=True
        )
        for program in self.programs.values():
            program.start()
        assert wait_until(lambda: self.leader() is not None, READY_SECONDS), self.said()
        assert wait_until(self._webhook_answers, READY_SECONDS), self.said()

    def _webhook_answers(self) -> bool:
        pod = {"metadata": {"name": "dry"}, "spec": {"containers": [{"name": "main", "image": "example.com/a"}]}}
        url = f"{self.plane.server}/api/v1/namespaces/default/pods?dryRun=All"
        return self.plane.probe.request("POST", url, pod)[0] == 201

    def leader(self) -> str | None:
        """Name of the scheduler that leads, by the election's Lease."""
        url = f"{self.plane.server}/apis/coordination.k8s.io/v1/namespaces/{SPACE}/leases/ullage-scheduler"
        status, body = self.plane.probe.request("GET", url)
        holder = "" if status != 200 else _holder(body)
        return next((name for name in _SCHEDULERS if holder and f"{holder} leads" in self.programs[name].said()), None)

    def victim(self, target: Target) -> str:
        """Name of the program that is meant now."""
        if target in (Target.LEADER, Target.STANDBY):
            leader = self.leader() or _SCHEDULERS[0]
            return leader if target is Target.LEADER else next(one for one in _SCHEDULERS if one != leader)
        return f"agent-{STATIC[0]}" if target is Target.AGENT else target.value

    async def strike(self, target: Target, number: signal.Signals, pause: float) -> None:
        """Send SIGKILL, and start it again after the pause; or SIGSTOP, and SIGCONT after it."""
        if target in CONTROL_PLANE:
            await self._strike_control_plane(CONTROL_PLANE[target], number, pause)
            return
        program = self.programs[self.victim(target)]
        program.send(number)
        await asyncio.sleep(pause)
        if number is signal.SIGKILL:
            program.start()
        else:
            program.send(signal.SIGCONT)

    async def _strike_control_plane(self, program: GoProgram, number: signal.Signals, pause: float) -> None:
        if number is signal.SIGKILL:
            await asyncio.to_thread(self.plane.kill, program)
            await asyncio.sleep(pause)
            await asyncio.to_thread(self.plane.start, program)
        else:
            await asyncio.to_thread(self.plane.pause, program)
            await asyncio.sleep(pause)
            await asyncio.to_thread(self.plane.resume, program)

    def check_running(self) -> None:
        """Fail if a program ended by itself."""
        ended = [one.name for one in self.programs.values() if not one.runs]
        assert not ended, f"{', '.join(ended)} ended by itself:\n{self.said()}"

    def said(self) -> str:
        return "".join(f"--- {one.name}\n{one.said()[-_LAST_WORDS:]}\n" for one in self.programs.values())

    def close(self) -> None:
        self._processes.close()
        self._port.release()


class ApiHistory:
    """Pods and Leases of the cluster, version by version, as kube-apiserver's watch gives them."""

    def __init__(self, plane: ControlPlane) -> None:
        tls = tls_of(plane.ca, plane.folder / "probe.crt", plane.folder / "probe.key")
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{SPACE}/leases"
        self.pods = RawWatch(plane.server, tls, "/api/v1/pods", "pods")
        self.leases = RawWatch(plane.server, tls, leases, "leases")

    @contextmanager
    def recording(self) -> Iterator["ApiHistory"]:
        with self.pods, self.leases:
            yield self

    def unsettled(self) -> list[str]:
        return unsettled(list(self.pods.present.values()), list(self.leases.present.values()))

    def breaches(self) -> list[str]:
        """All of them, after everything that is there has been recorded."""
        for watch in (self.pods, self.leases):
            watch.catch_up()
        return list(breaches((*self.pods.changes, *self.leases.changes)))


@contextmanager
def started_site() -> Iterator[SignalSite]:
    """A site that ends with the block, whatever happened."""
    # Versions that a watch misses are listed one by one: none may be compacted away.
    flags = {GoProgram.APISERVER: ("--etcd-compaction-interval=0",)}
    with prepare(ControlPlaneSpec(components=WORKLOADS, extra_flags=flags)) as plane:
        site = SignalSite(plane)
        try:
            asyncio.run(site.build())
            yield site
        finally:
            sys.stderr.write(site.said())
            site.close()


async def pool_is_empty(api: KubeApi) -> bool:
    """True if neither the cluster nor the cloud has a machine of the pool."""
    nodes = [one for one in (await api.list(NODES)).items if PROVISIONER_LABEL in one.metadata.labels]
    records = (await api.list(CONFIG_MAPS, selection=RECORDS)).items
    return not nodes and not any(_machines(one) for one in records)


def _machines(record: Any) -> int:
    said = json.loads(record["data"]["record"])
    return int(said.get("made", 0)) - len(said.get("gone", ()))


def _holder(body: bytes) -> str:
    holder: str = json.loads(body)["spec"].get("holderIdentity") or ""
    return holder


def _pool() -> dict[str, Any]:
    return with_fields(
        {
            "provider": {"name": "kwok", "parameters": {"bootSeconds": "1", "gpuSeconds": "1"}},
            "template.gpus.count": 2,
            "maxSize": 4,
            "scaleDownDelay": "3s",
            "minGPUUtilizationPercent": 80,
            "scaleUpBatch": "1s",
            "bootDeadline": "2m",
        }
    )
