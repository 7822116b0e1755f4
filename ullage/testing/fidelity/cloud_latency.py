"""Latency of KWOK's provider: until a purchase is answered, a machine is a node, and its GPUs are reported.

The provider is the cloud of these stories, not a part of what is compared.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress

from ullage.clock import Clock
from ullage.cloud.api import CreateRequest, PoolRef
from ullage.cloud.kwok.provider import RECORDS, KwokProvider
from ullage.errors import NotFound
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import CONFIG_MAPS, GPU_NODE_STATUSES, NODES
from ullage.testing.fidelity.manifests import template
from ullage.testing.fidelity.seen_steps import watched

PURCHASES = 4
"""One at a time. The first does not count: it makes the namespace of the records."""
BOOT_SECONDS = GPU_SECONDS = 0.2
_POOL = PoolRef(name="calibration", parameters={"bootSeconds": str(BOOT_SECONDS), "gpuSeconds": str(GPU_SECONDS)})


async def cloud_latencies(api: KubeApi, clock: Clock) -> list[tuple[float, float, float]]:
    """Seconds of each purchase's call, from its machine's due time to its node, and on to its GPUs' report."""
    provider = KwokProvider(api, clock)
    running = asyncio.create_task(provider.run())
    try:
        found = [await _purchase(api, provider, number) for number in range(PURCHASES)]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        for record in (await api.list(CONFIG_MAPS, selection=RECORDS)).items:
            with suppress(NotFound):
                await api.delete(CONFIG_MAPS, record["metadata"]["name"], record["metadata"]["namespace"])
    return found[1:]


async def _purchase(api: KubeApi, provider: KwokProvider, number: int) -> tuple[float, float, float]:
    loop = asyncio.get_running_loop()
    async with watched(api, NODES.whole(), _there) as nodes, watched(api, GPU_NODE_STATUSES.whole(), _shown) as reports:
        began = loop.time()
        request = CreateRequest(pool=_POOL, count=1, token=f"calibration-{number}-{began}", template=template(8))
        name = (await provider.create(request)).instances[0].id
        took = loop.time() - began
        joined, shown = await nodes.when(name, "there"), await reports.when(name, "shown")
        await provider.delete([name])
    late = joined - began - BOOT_SECONDS
    return took, late, shown - began - BOOT_SECONDS - GPU_SECONDS - late


def _there(_: JsonObject) -> Iterator[str]:
    yield "there"


def _shown(report: JsonObject) -> Iterator[str]:
    if (report.get("status") or {}).get("devices"):
        yield "shown"
