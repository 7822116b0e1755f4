"""The scheduler is killed while agents ask: another replica takes over, and no permit exceeds what is free."""

import asyncio
import json
import ssl
from pathlib import Path

import aiohttp
import pytest

from tests.control.scheduling.programs import Programs
from tests.control.vms.site import ACCOUNT, NS, SYSTEM, VmSite, message
from ullage.control.vms.certificate import CA_CONFIG_MAP
from ullage.errors import NotFound
from ullage.kube.client.resources import CONFIG_MAPS, PODS
from ullage.kube.read.vm import read_vm_pod
from ullage.testing.controlplane.ports import reserve_port

pytestmark = [pytest.mark.real, pytest.mark.fault]
VMS = tuple(f"vm-{number}" for number in range(6))
MOST = 15
"""Cores that may be reserved on n1: 16 less 1 for the system."""


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
    """One agent for all VMs of n1. It asks each replica in turn, for more and for less, and remembers its permits."""

    def __init__(self, site: VmSite, ports: list[int]) -> None:
        self._site = site
        self._urls = [f"https://127.0.0.1:{port}/" for port in ports]
        self.permits = dict.fromkeys(VMS, 1)
        self.answers: list[str] = []
        """URL of each permit, in order."""

    async def run(self) -> None:
        step = 0
        async with aiohttp.ClientSession() as self._site.session:
            while True:
                step += 1
                await asyncio.gather(*(self._ask(vm, 1 + (step + place) % 5) for place, vm in enumerate(VMS)))
                await asyncio.sleep(0.05)

    async def _ask(self, vm: str, cores: int) -> None:
        for url in self._urls:
            if cores < self.permits[vm]:
                self.permits[vm] = cores  # less is done before it is told
            try:
                status, text = await self._site.ask(message(vm, cores), url=url)
            except (aiohttp.ClientError, OSError):
                continue
            if status == 200:
                self.permits[vm] = json.loads(text)["permit"]["vCPUs"]
                self.answers.append(url)
                total = sum(self.permits.values())
                assert total <= MOST, f"permits of {total} cores are held at once"
                return


async def approved(site: VmSite) -> int:
    """Cores of all approvals on n1."""
    pods = [read_vm_pod(await site.api.get(PODS, vm, NS)) for vm in VMS]
    return sum(pod.approved.cpu for pod in pods if pod is not None and pod.approved is not None) // 1000


async def test_a_second_replica_takes_over_and_no_permit_exceeds_what_is_free(site: VmSite, tmp_path: Path) -> None:
    for vm in VMS:
        await site.vm(vm, "n1", 1)
    site.tokens[""] = site.tokens[f"{ACCOUNT}@n1"]
    reserved = [reserve_port() for _ in range(4)]
    ports = [one.port for one in reserved]
    with Programs(tmp_path) as programs:
        replicas = {
            f"https://127.0.0.1:{permits}/": programs.scheduler(
                site.plane.kubeconfig,
                "--permits", f"127.0.0.1:{permits}", "--state", f"127.0.0.1:{state}", "--permits-name", "127.0.0.1",
            )
            for permits, state in (ports[:2], ports[2:])
        }  # fmt: skip
        site.trust = await trusted(site)
        agents = Agents(site, [ports[0], ports[2]])
        asking = asyncio.ensure_future(agents.run())
        await _until(lambda: len(agents.answers) > 60, 60, asking)
        first = agents.answers[-1]
        assert set(agents.answers) == {first}, "only the leader answers"
        programs.kill(replicas[first])
        await _until(lambda: agents.answers[-1] != first, 90, asking)
        so_far = len(agents.answers)
        await _until(lambda: len(agents.answers) > so_far + 60, 60, asking)
        assert set(agents.answers[so_far:]) == set(replicas) - {first}
        asking.cancel()
        await asyncio.wait({asking})
        assert await approved(site) <= MOST
    for one in reserved:
        one.release()


async def _until(holds: object, seconds: float, asking: "asyncio.Future[None]") -> None:
    assert callable(holds)
    async with asyncio.timeout(seconds):
        while not holds():
            if asking.done():
                asking.result()
            await asyncio.sleep(0.05)
