"""The scheduler is killed, or stopped and continued, while agents ask: another replica takes over, and no permit
exceeds what is free.
"""

import asyncio
import json
import signal
import ssl
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.control.scheduling.programs import Programs
from tests.control.vms.site import ACCOUNT, NS, SYSTEM, VmSite, message
from ullage.control.vms.certificate import CA_CONFIG_MAP
from ullage.errors import NotFound
from ullage.kube.client.api import DELETE_NOW
from ullage.kube.client.resources import CONFIG_MAPS, NODES, PODS, VIRTUAL_MACHINES
from ullage.kube.read.vm import read_vm_pod
from ullage.testing.builders import a_node
from ullage.testing.controlplane.ports import reserve_port

pytestmark = [pytest.mark.real, pytest.mark.fault]
SIX = {f"vm-{number}": "n1" for number in range(6)}
"""VMs, each with its node."""
MOST = 15
"""Cores that may be reserved on a node: 16 less 1 for the system."""
AT_ONCE = 20
"""Requests under way at the same time."""
PATIENCE = aiohttp.ClientTimeout(total=2.0)
"""A process that is stopped accepts connections, and answers nothing."""


async def trusted(site: VmSite) -> ssl.SSLContext:
    for _ in range(600):
        try:
            bundle = await site.api.get(CONFIG_MAPS, CA_CONFIG_MAP, SYSTEM)
        except NotFound:
            await asyncio.sleep(0.1)
            continue
        return ssl.create_default_context(cadata=bundle["data"]["ca.crt"])
    raise AssertionError("no replica has published its authority")


class Agents:
    """Agents of all nodes. They ask each replica in turn, for more and for less, and remember their permits."""

    def __init__(self, site: VmSite, ports: list[int], homes: Mapping[str, str]) -> None:
        self._site = site
        self._homes = homes
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._urls = [f"https://127.0.0.1:{port}/" for port in ports]
        self.permits = dict.fromkeys(homes, 1)
        self.answers: list[str] = []
        """URL of each permit, in order."""

    async def run(self) -> None:
        step = 0
        async with aiohttp.ClientSession(timeout=PATIENCE) as self._site.session:
            while True:
                step += 1
                await asyncio.gather(*(self._ask(vm, 1 + (step + place) % 5) for place, vm in enumerate(self._homes)))
                await asyncio.sleep(0.05)

    async def _ask(self, vm: str, cores: int) -> None:
        async with self._gate:
            await self._ask_in_turn(vm, cores)

    async def _ask_in_turn(self, vm: str, cores: int) -> None:
        node = self._homes[vm]
        token = self._site.tokens[f"{ACCOUNT}@{node}"]
        for url in self._urls:
            if cores < self.permits[vm]:
                self.permits[vm] = cores  # less is done before it is told
            try:
                status, text = await self._site.ask(message(vm, cores), token=token, url=url)
            except (aiohttp.ClientError, OSError):
                continue
            if status == 200:
                self.permits[vm] = json.loads(text)["permit"]["vCPUs"]
                self.answers.append(url)
                total = sum(held for one, held in self.permits.items() if self._homes[one] == node)
                assert total <= MOST, f"permits of {total} cores are held at once on {node}"
                return


async def approved(site: VmSite) -> Counter[str]:
    """Cores of all approvals by node, from the pods themselves."""
    found: Counter[str] = Counter()
    for pod in map(read_vm_pod, (await site.api.list(PODS, NS)).items):
        if pod is not None and pod.approved is not None:
            found[pod.node] += pod.approved.cpu // 1000
    return found


class Takeover:
    """Two replicas, and agents that ask them all the time."""

    def __init__(self, replicas: dict[str, subprocess.Popen[bytes]], agents: Agents) -> None:
        self.replicas = replicas
        self.agents = agents
        self.asking = asyncio.ensure_future(agents.run())

    async def leader(self) -> str:
        """URL of the one replica that answers."""
        await _until(lambda: len(self.agents.answers) > 60, 60, self.asking)
        first = self.agents.answers[-1]
        assert set(self.agents.answers) == {first}, "only the leader answers"
        return first

    async def taken_over(self, first: str) -> int:
        """Wait for another's answers. Returns how many answers there were before."""
        await _until(lambda: self.agents.answers[-1] != first, 90, self.asking)
        return len(self.agents.answers)

    async def more_answers(self, count: int = 60) -> None:
        so_far = len(self.agents.answers)
        await _until(lambda: len(self.agents.answers) > so_far + count, 60, self.asking)


@asynccontextmanager
async def a_takeover(site: VmSite, programs: Programs, homes: Mapping[str, str] = SIX) -> AsyncIterator[Takeover]:
    for vm, node in homes.items():
        await site.vm(vm, node, 1)
    reserved = [reserve_port() for _ in range(4)]
    ports = [one.port for one in reserved]
    replicas = {
        f"https://127.0.0.1:{permits}/": programs.scheduler(
            site.plane.kubeconfig,
            "--permits", f"127.0.0.1:{permits}", "--state", f"127.0.0.1:{state}", "--permits-name", "127.0.0.1",
        )
        for permits, state in (ports[:2], ports[2:])
    }  # fmt: skip
    site.trust = await trusted(site)
    takeover = Takeover(replicas, Agents(site, [ports[0], ports[2]], homes))
    try:
        yield takeover
    finally:
        takeover.asking.cancel()
        await asyncio.wait({takeover.asking})
        for one in reserved:
            one.release()
    cores = await approved(site)
    assert cores.keys() == set(homes.values())
    assert max(cores.values()) <= MOST, cores
    for vm in homes:
        await site.api.delete(PODS, vm, NS, how=DELETE_NOW)
        await site.api.delete(VIRTUAL_MACHINES.whole(), vm, NS)


async def test_a_second_replica_takes_over_and_no_permit_exceeds_what_is_free(site: VmSite, tmp_path: Path) -> None:
    with Programs(tmp_path) as programs:
        async with a_takeover(site, programs) as takeover:
            first = await takeover.leader()
            programs.kill(takeover.replicas[first])
            so_far = await takeover.taken_over(first)
            await takeover.more_answers()
            assert set(takeover.agents.answers[so_far:]) == set(takeover.replicas) - {first}


@pytest.mark.full
async def test_a_leader_of_20_nodes_with_200_vms_is_killed(site: VmSite, tmp_path: Path) -> None:
    nodes = [f"n{number}" for number in range(1, 21)]
    for node in nodes[2:]:
        await site.api.create(NODES, a_node(node, allocatable={"cpu": "16", "memory": "64Gi", "pods": "110"}))
        await site.agent(ACCOUNT, node)
    homes = {f"{node}-{number}": node for node in nodes for number in range(10)}
    watched: list[int] = []

    async def watching() -> None:
        while True:
            watched.append(max((await approved(site)).values()))
            assert watched[-1] <= MOST
            await asyncio.sleep(0.2)

    with Programs(tmp_path) as programs:
        async with a_takeover(site, programs, homes) as takeover, asyncio.TaskGroup() as group:
            watch = group.create_task(watching())
            first = await takeover.leader()
            await takeover.more_answers(600)
            programs.kill(takeover.replicas[first])
            so_far = await takeover.taken_over(first)
            await takeover.more_answers(600)
            assert set(takeover.agents.answers[so_far:]) == set(takeover.replicas) - {first}
            watch.cancel()
    assert max(watched) == MOST, "no node was ever full: the load is too small to show anything"


@pytest.mark.full
async def test_a_leader_that_is_stopped_past_its_lease_and_continued_answers_no_permit(
    site: VmSite, tmp_path: Path
) -> None:
    """Requests it had taken when it was stopped are answered by nobody, and those of later by the other one."""
    with Programs(tmp_path) as programs:
        async with a_takeover(site, programs) as takeover:
            first = await takeover.leader()
            stopped = takeover.replicas[first]
            stopped.send_signal(signal.SIGSTOP)
            try:
                so_far = await takeover.taken_over(first)
                await takeover.more_answers(12)  # each round waits for the one that is stopped
            finally:
                stopped.send_signal(signal.SIGCONT)
            await takeover.more_answers()
            assert set(takeover.agents.answers[so_far:]) == set(takeover.replicas) - {first}


async def _until(holds: object, seconds: float, asking: "asyncio.Future[None]") -> None:
    assert callable(holds)
    async with asyncio.timeout(seconds):
        while not holds():
            if asking.done():
                asking.result()
            await asyncio.sleep(0.05)
