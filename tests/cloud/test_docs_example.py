"""The provider shown in the documentation is a provider: its code is taken from there, and held to the contract."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
from aiohttp import web

from tests.cloud.benches import Requests
from ullage.clock import WallClock
from ullage.cloud.api import CloudProvider
from ullage.cloud.registry import ProviderContext
from ullage.kube.client.api import KubeApi
from ullage.testing.cloud_contract import CloudContract, CloudTrouble, ProviderBench

PAGE = Path(__file__).parents[2] / "docs" / "providers.md"
MOST_LINES = 60


def code() -> str:
    blocks: list[str] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return next(block for block in blocks if "class Racks" in block)


def test_it_is_short() -> None:
    assert len([line for line in code().splitlines() if line.strip()]) <= MOST_LINES


class RackService:
    """What the example talks to."""

    def __init__(self) -> None:
        self.machines: dict[str, dict[str, Any]] = {}
        self.orders: dict[str, tuple[int, list[dict[str, Any]]]] = {}
        self.free = 100
        self.trouble: CloudTrouble | None = None

    def application(self) -> web.Application:
        application = web.Application()
        application.router.add_post("/orders", self.order)
        application.router.add_get("/machines", self.list)
        application.router.add_delete("/machines/{id}", self.switch_off)
        return application

    async def order(self, request: web.Request) -> web.Response:
        asked = await request.json()
        known = self.orders.get(asked["order"])
        if known is not None:
            status = 200 if known[0] == asked["count"] else 409
            return web.json_response(known[1], status=status)
        if self.trouble in (CloudTrouble.QUOTA, CloudTrouble.THROTTLED):
            return web.Response(status=403 if self.trouble is CloudTrouble.QUOTA else 429)
        count = min(asked["count"], self.free)
        if count < max(1, asked["least"]):
            return web.Response(status=507)
        self.free -= count
        made = [self._made(asked["pool"]) for _ in range(count)]
        self.orders[asked["order"]] = asked["count"], made
        if self.trouble is CloudTrouble.LOST_ANSWER and request.transport is not None:
            self.trouble = None
            request.transport.abort()
        return web.json_response(made)

    def _made(self, pool: str) -> dict[str, Any]:
        name = f"m-{len(self.orders)}-{len(self.machines)}"
        self.machines[name] = {"id": name, "pool": pool, "since": 1.0, "up": True, "host": name}
        return self.machines[name]

    async def list(self, _: web.Request) -> web.Response:
        return web.json_response(list(self.machines.values()))

    async def switch_off(self, request: web.Request) -> web.Response:
        if self.trouble is CloudTrouble.DELETE_FAILS:
            self.trouble = None
            return web.Response(status=502)
        gone = self.machines.pop(request.match_info["id"], None)
        return web.json_response([], status=404 if gone is None else 200)


class RacksBench(Requests):
    def __init__(self, service: RackService, provider: CloudProvider) -> None:
        super().__init__()
        self.service = service
        self._provider = provider

    @property
    def provider(self) -> CloudProvider:
        return self._provider

    async def settle(self) -> None:
        await asyncio.sleep(0)

    async def trouble(self, trouble: CloudTrouble) -> None:
        self.service.free = {CloudTrouble.NO_CAPACITY: 0, CloudTrouble.ONE_LEFT: 1}.get(trouble, 100)
        self.service.trouble = trouble


class TestRacks(CloudContract):
    @pytest.fixture
    async def bench(self) -> AsyncIterator[ProviderBench]:
        racks = ModuleType("racks")
        sys.modules["racks"] = racks
        exec(compile(code(), "docs/providers.md", "exec"), racks.__dict__)
        service = RackService()
        runner = web.AppRunner(service.application())
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        surroundings = ProviderContext(api=cast(KubeApi, None), clock=WallClock(), settings={"url": url})
        provider = racks.make_provider(surroundings)
        yield RacksBench(service, provider)
        await provider.close()
        await runner.cleanup()
        del sys.modules["racks"]
