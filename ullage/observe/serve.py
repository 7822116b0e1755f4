"""`/metrics`, `/healthz` and `/readyz` over HTTP, for whoever scrapes and for kubelet's probes.

What healthy means is told by the checks that are put in; nothing is judged here.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

Check = Callable[[], str]
"""What is wrong, in a few words; nothing if all is well. Must not wait."""


@dataclass(frozen=True, slots=True)
class Checks:
    """By name. A process that is not alive is started again; one that is not ready gets no calls."""

    alive: Mapping[str, Check] = field(default_factory=dict)
    ready: Mapping[str, Check] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen. Port 0 takes any that is free."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@asynccontextmanager
async def serving(
    address: Address,
    registry: CollectorRegistry,
    checks: Checks = Checks(),  # noqa: B008 - frozen
    *,
    before_scrape: Callable[[], None] = lambda: None,
) -> AsyncIterator[Address]:
    """Serve during the block; gives the address taken. `before_scrape` may bring gauges up to date.

    Raises OSError if the address cannot be taken.
    """
    pages = _Pages(registry, checks, before_scrape)
    app = web.Application()
    app.add_routes(
        [web.get("/metrics", pages.metrics), web.get("/healthz", pages.health), web.get("/readyz", pages.readiness)]
    )
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, address.host, address.port).start()
        host, port, *_ = runner.addresses[0]
        yield Address(host, port)
    finally:
        await runner.cleanup()


class _Pages:
    def __init__(self, registry: CollectorRegistry, checks: Checks, before_scrape: Callable[[], None]) -> None:
        self._registry = registry
        self._checks = checks
        self._before_scrape = before_scrape

    async def metrics(self, request: web.Request) -> web.Response:
        self._before_scrape()
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._registry), headers={"Content-Type": content_type})

    async def health(self, _: web.Request) -> web.Response:
        return _answer(self._checks.alive)

    async def readiness(self, _: web.Request) -> web.Response:
        return _answer({**self._checks.alive, **self._checks.ready})


def _answer(checks: Mapping[str, Check]) -> web.Response:
    wrong = [f"{name}: {said}" for name, check in checks.items() if (said := check())]
    return web.Response(text="\n".join(wrong or ["ok"]) + "\n", status=503 if wrong else 200)
