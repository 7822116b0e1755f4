"""Writes and their answers are lost between the scheduler and a real API server while agents ask: the books hold."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.control.vms.site import NS, SYSTEM, VmSite, message, serving, until
from tests.control.vms.test_takeover_real import MOST, SIX, Agents, approved
from ullage.clock import WallClock
from ullage.config.settings import Settings
from ullage.control.scheduling.wiring import Scheduler
from ullage.control.vms.certificate import CA_CONFIG_MAP
from ullage.kube.auth.connect import connect, find_access
from ullage.kube.client.resources import CONFIG_MAPS, PODS
from ullage.kube.client.transport import Request
from ullage.kube.http.http import HttpTransport
from ullage.kube.read.vm import read_vm_pod
from ullage.testing.lossy_proxy import Loss, LossyProxy, RequestFate

pytestmark = [pytest.mark.real, pytest.mark.fault]
SECONDS = 12.0


def is_approval(request: Request) -> bool:
    """PATCH of a pod's status."""
    return request.method == "PATCH" and request.path.endswith("/status")


def is_read(request: Request) -> bool:
    return request.method == "GET"


LOSSES = (
    Loss(is_approval, answer_lost=0.15, late=0.1, request_lost=0.15, latest=0.5),
    Loss(is_read, request_lost=0.02, stream_cut=0.02),
)


@asynccontextmanager
async def a_scheduler_behind(proxy_config: Path, site: VmSite) -> AsyncIterator[Scheduler]:
    api = connect(proxy_config)
    scheduler = Scheduler(api, Settings(), WallClock(), instance="lossy", seed=1)
    scheduler.vms.serving = serving()
    running = asyncio.ensure_future(scheduler.run())
    try:
        await until(lambda: bool(scheduler.vms.addresses) or running.done(), 50)
        assert not running.done(), running.exception()
        bundle = await site.api.get(CONFIG_MAPS, CA_CONFIG_MAP, SYSTEM)
        site.trust = ssl.create_default_context(cadata=bundle["data"]["ca.crt"])
        yield scheduler
    finally:
        running.cancel()
        await asyncio.wait({running})
        await api.close()


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full)])
async def test_no_permit_exceeds_what_is_free_though_writes_and_answers_are_lost(
    site: VmSite, tmp_path: Path, seed: int
) -> None:
    if seed == 1:  # the cluster is shared by the tests of this file
        for vm in SIX:
            await site.vm(vm, "n1", 1)
    access = find_access(site.plane.kubeconfig)
    async with LossyProxy(HttpTransport(access.endpoint, access.credentials), *LOSSES, seed=seed) as proxy:
        path = tmp_path / "kubeconfig"
        proxy.write_kubeconfig(path)
        async with a_scheduler_behind(path, site) as scheduler:
            port = scheduler.vms.addresses[0].port
            agents = Agents(site, [port], SIX)
            agents.permits = await held(site)
            asking = asyncio.ensure_future(agents.run())
            await asyncio.sleep(SECONDS)
            if asking.done():
                asking.result()
            asking.cancel()
            await asyncio.wait({asking})
            assert len(agents.answers) > 20, "somebody was answered"
            lost = {fate for fate, count in proxy.fates.items() if count}
            assert {RequestFate.ANSWER_LOST, RequestFate.REQUEST_LOST} <= lost
            assert (await approved(site))["n1"] <= MOST
            await settled(site, scheduler, port)


async def held(site: VmSite) -> dict[str, int]:
    """Cores that each VM's agent may hold from before."""
    pods = {vm: read_vm_pod(await site.api.get(PODS, vm, NS)) for vm in SIX}
    return {vm: pod.approved.cpu // 1000 if pod and pod.approved else 1 for vm, pod in pods.items()}


async def settled(site: VmSite, scheduler: Scheduler, port: int) -> None:
    """Everybody asks once more until answered; then ledger, objects and agents say the same."""
    async with aiohttp.ClientSession() as site.session, asyncio.timeout(60):
        for vm in SIX:
            status = 0
            while status != 200:
                status, _ = await site.ask(message(vm, 1), url=f"https://127.0.0.1:{port}/")
    assert await held(site) == dict.fromkeys(SIX, 1)
    ledger = scheduler.core.snapshot.vms.ledger
    ordinary = ledger.rounded("n1", ledger.ordinary_on("n1")).cpu
    assert ledger.ledger("n1").cpu.reserved == len(SIX) * 1000 + ordinary
