"""The address that is scraped and probed."""

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Gauge

from ullage.observe.probes import HealthChecks, ListenAddress, serving

ANYWHERE = ListenAddress("127.0.0.1", 0)


async def ask(address: ListenAddress, path: str, **headers: str) -> tuple[int, str, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{address}{path}", headers=headers) as answer,
    ):
        return answer.status, answer.headers["Content-Type"], await answer.text()


async def test_metrics_are_served_up_to_date() -> None:
    registry = CollectorRegistry()
    depth = Gauge("depth", "How deep.", registry=registry)
    async with serving(ANYWHERE, registry, before_scrape=lambda: depth.set(3)) as address:
        status, kind, text = await ask(address, "/metrics")
    assert status == 200
    assert kind.startswith("text/plain")
    assert "# HELP depth How deep.\n# TYPE depth gauge\ndepth 3.0\n" in text


async def test_whoever_asks_for_openmetrics_gets_it() -> None:
    async with serving(ANYWHERE, CollectorRegistry()) as address:
        _, kind, text = await ask(address, "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")


@pytest.mark.parametrize(
    ("alive", "ready", "health", "readiness"),
    [
        pytest.param("", "", (200, "ok\n"), (200, "ok\n"), id="all-is-well"),
        pytest.param("", "not synced", (200, "ok\n"), (503, "caches: not synced\n"), id="not-ready-yet"),
        pytest.param(
            "stuck", "not synced", (503, "loop: stuck\n"), (503, "loop: stuck\ncaches: not synced\n"), id="not-alive"
        ),
    ],
)
async def test_probes_say_what_is_wrong(
    alive: str, ready: str, health: tuple[int, str], readiness: tuple[int, str]
) -> None:
    checks = HealthChecks(alive={"loop": lambda: alive}, ready={"caches": lambda: ready})
    async with serving(ANYWHERE, CollectorRegistry(), checks) as address:
        answers = [await ask(address, path) for path in ("/healthz", "/readyz")]
    assert [(status, text) for status, _, text in answers] == [health, readiness]


async def test_an_address_that_is_taken_is_an_error_and_a_freed_one_is_not() -> None:
    async with serving(ANYWHERE, CollectorRegistry()) as address:
        with pytest.raises(OSError, match="address"):
            async with serving(address, CollectorRegistry()):
                pass
    async with serving(address, CollectorRegistry()) as again:
        assert again == address
