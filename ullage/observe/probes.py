"""`/metrics`, `/healthz` and `/readyz` over HTTP, for Prometheus and for kubelet's probes.

The checks passed in decide what healthy means; nothing is judged here.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

Check = Callable[[], str]
"""Returns the problem in a few words; empty if there is none. Must not block."""


@dataclass(frozen=True, slots=True)
class HealthChecks:
    """Health checks by name. A process that is not alive is restarted; one that is not ready gets no calls."""

    alive: Mapping[str, Check] = field(default_factory=dict)
    ready: Mapping[str, Check] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Address to listen on. Port 0 takes any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@asynccontextmanager
async def serving(
    address: ListenAddress,
    registry: CollectorRegistry,
    checks: HealthChecks = HealthChecks(),  # noqa: B008 - frozen
    *,
    before_scrape: Callable[[], None] = lambda: None,
) -> AsyncIterator[ListenAddress]:
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
        yield ListenAddress(host, port)
    finally:
        await runner.cleanup()


class _Pages:
    def __init__(self, registry: CollectorRegistry, checks: HealthChecks, before_scrape: Callable[[], None]) -> None:
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
