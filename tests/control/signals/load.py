"""Load of a cluster whose processes die: pods with whole GPUs, parts, gangs and pods for the pool come and go.

There is always room for all of them: whoever waits in the end was forgotten.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.control.scheduling.fleet import submit, submit_gang
from tests.control.signals.site import POOL, SITE_LABEL
from ullage.errors import ApiError, NotFound
from ullage.kube.client.api import DELETE_NOW, KubeApi
from ullage.kube.client.resources import GPU_CLAIMS, POD_GROUPS, PODS
from ullage.model.provisioner import PROVISIONER_LABEL

NS = "default"
MOST_STATIC, MOST_POOL = 12, 6
"""GPUs asked for at once, of 16 and of 8: pods of at most 2 GPUs then always find room."""
ON_STATIC = {"nodeSelector": SITE_LABEL}


class Load:
    """Users at work. A call that fails is tried no more: others come."""

    def __init__(self, api: KubeApi, seed: int) -> None:
        self._api = api
        self._chance = random.Random(seed)
        self._made = 0
        self._static: dict[str, int] = {}
        self._pool: dict[str, int] = {}
        """GPUs of each pod that may be there."""

    async def go_on(self) -> None:
        while True:
            try:
                async with asyncio.timeout(10):
                    await self._act()
            except* (ApiError, TimeoutError):
                pass
            await asyncio.sleep(self._chance.uniform(0.05, 0.3))

    async def end_all(self) -> None:
        """Everything leaves. The API server has to answer."""
        for resource in (PODS, GPU_CLAIMS, POD_GROUPS):
            for name in [one["metadata"]["name"] for one in (await self._api.list(resource.whole(), NS)).items]:
                with suppress(ApiError):
                    await self._api.delete(resource, name, NS, how=DELETE_NOW)
        self._static.clear()
        self._pool.clear()

    async def _act(self) -> None:
        room, pool_room = MOST_STATIC - sum(self._static.values()), MOST_POOL - sum(self._pool.values())
        may = [self._leave] * 2
        may += [self._claim] * 3 + [self._share] if room >= 2 else []
        may += [self._gang] if room >= 4 else []
        may += [self._for_pool] * 2 if pool_room else []
        await self._chance.choice(may)()

    async def _claim(self) -> None:
        name, gpus = self._name("c"), self._chance.choice((1, 1, 2))
        self._static[name] = gpus
        await submit(self._api, NS, name, gpus, pod=ON_STATIC)

    async def _share(self) -> None:
        name = self._name("s")
        self._static[name] = 1
        devices = {"exclusivity": "Shared", "memory": self._chance.choice(("10Gi", "30Gi"))}
        await submit(self._api, NS, name, 1, requested=0, devices=devices, pod=ON_STATIC)

    async def _gang(self) -> None:
        name = self._name("g")
        self._static |= {f"{name}-0": 2, f"{name}-1": 2}
        await submit_gang(self._api, NS, name, members=2, gpus=2, pod=ON_STATIC)

    async def _for_pool(self) -> None:
        name = self._name("p")
        self._pool[name] = 1
        await submit(self._api, NS, name, 1, pod={"nodeSelector": {PROVISIONER_LABEL: POOL}})

    async def _leave(self) -> None:
        names = sorted((*self._static, *self._pool))
        if names:
            name = self._chance.choice(names)
            # Of a gang all members leave: one that is short of a member would wait for ever.
            gang = name.rpartition("-")[0]
            for one in [one for one in names if gang and one.startswith(f"{gang}-")] or [name]:
                await self._delete(one)

    async def _delete(self, name: str) -> None:
        """It counts until it is known to be gone."""
        for resource in (PODS, GPU_CLAIMS):
            with suppress(NotFound):
                await self._api.delete(resource, name, NS, how=DELETE_NOW)
        self._static.pop(name, None)
        self._pool.pop(name, None)

    async def complete(self) -> None:
        """Remove what a failed call left in part: a gang that is short of a member, a pod without its claim."""
        pods = {one["metadata"]["name"] for one in (await self._api.list(PODS.whole(), NS)).items}
        claims = {one["metadata"]["name"] for one in (await self._api.list(GPU_CLAIMS.whole(), NS)).items}
        groups = {one["metadata"]["name"] for one in (await self._api.list(POD_GROUPS.whole(), NS)).items}
        gangs = {one.rpartition("-")[0] for one in pods if one.startswith("g")}
        whole = {one for one in groups if {f"{one}-0", f"{one}-1"} <= pods & claims}
        torn = [f"{gang}-{member}" for gang in gangs - whole for member in "01"]
        bare = [one for one in pods if one[0] in "csp" and one not in claims]
        for name in (*torn, *bare):
            await self._delete(name)
        self._static = {name: gpus for name, gpus in self._static.items() if name in pods}
        self._pool = {name: gpus for name, gpus in self._pool.items() if name in pods}

    def _name(self, kind: str) -> str:
        self._made += 1
        return f"{kind}{self._made}"


@asynccontextmanager
async def at_work(load: Load) -> AsyncIterator[None]:
    """The load comes and goes inside the block."""
    working = asyncio.create_task(load.go_on())
    try:
        yield
    finally:
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working
