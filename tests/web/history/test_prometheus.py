"""Older series from a Prometheus: a real one where it is installed, and ones that misbehave."""

import asyncio
import shutil
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import pytest
from aiohttp import web

from ullage.clock import WallClock
from ullage.config.dashboard import DashboardSettings
from ullage.errors import UserError
from ullage.web.history import prometheus as module
from ullage.web.history.answers import HistoryAnswers
from ullage.web.history.opening import open_history
from ullage.web.history.prometheus import QUERIES, PrometheusFailed, PrometheusReader, check_url

METRICS = """\
ullage_gpus{state="free",model="H100"} 10
ullage_gpus{state="used",model="H100"} 20
ullage_gpus{state="partly-used",model="H100"} 1
ullage_gpus{state="unhealthy",model="H100"} 2
ullage_scheduler_queue_pods{place="active"} 3
ullage_scheduler_queue_pods{place="asleep"} 4
ullage_scheduler_queue_pods{place="out"} 9
ullage_pool_nodes{provisioner="a",state="ready"} 4
ullage_pool_nodes{provisioner="a",state="coming"} 2
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@asynccontextmanager
async def serving(handler: object, path: str = "/{tail:.*}") -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", path, handler)  # type: ignore[arg-type]
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def real_prometheus(folder: Path) -> AsyncIterator[str]:
    """A Prometheus that scrapes two schedulers that say the same, every second."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed (Debian: apt install prometheus)")

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text=METRICS)

    async with serving(metrics) as one, serving(metrics) as other:
        config = folder / "prometheus.yml"
        targets = f"[{{targets: ['{one}', '{other}']}}]"
        config.write_text(
            f"global: {{scrape_interval: 1s}}\nscrape_configs: [{{job_name: ullage, static_configs: {targets}}}]\n"
        )
        port = free_port()
        process = await asyncio.create_subprocess_exec(
            program,
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()
            await process.wait()


async def scraped(url: str) -> None:
    """Wait until both targets have been read."""
    query = {"query": "count(ullage_scheduler_queue_pods)"}
    until = time.monotonic() + 60
    async with aiohttp.ClientSession() as session:
        while time.monotonic() < until:
            try:
                async with session.get(f"{url}/api/v1/query", params=query) as answer:
                    if '"6"]' in await answer.text():
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.3)
    pytest.fail("prometheus has not scraped within 60 s")


async def test_a_real_prometheus_fills_what_the_history_does_not_have(tmp_path: Path) -> None:
    async with real_prometheus(tmp_path) as url:
        await scraped(url)
        now = WallClock().now()
        writer = open_history(DashboardSettings(), WallClock())
        answers = HistoryAnswers(writer, PrometheusReader(url))
        try:
            said = msgspec.json.decode(await answers.range(now - 3600, now + 1, 240))
        finally:
            await answers.close()
            writer.close()
    assert (said["askedPrometheus"], said["trouble"]) == (True, "")
    newest = said["samples"][-1]
    assert {name: newest.get(name) for name in QUERIES} == {
        "gpus": 33.0,  # of each scheduler the same: counted once
        "allocated": 21.0,
        "broken": 2.0,
        "pending": 7.0,
        "nodes": 4.0,
    }
    assert "price" not in newest


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        pytest.param(200, "<html>a login page</html>", "is no Prometheus", id="another-server"),
        pytest.param(
            422, '{"status":"error","error":"query timed out"}', "422: query timed out", id="a-query-that-fails"
        ),
        pytest.param(200, "x" * (9 << 20), "more than 8 MiB", id="an-endless-answer"),
        pytest.param(302, "", "302", id="a-redirect-is-not-followed"),
    ],
)
async def test_a_prometheus_that_misbehaves_is_told(status: int, body: str, words: str) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(status=status, text=body, headers={"Location": "http://127.0.0.1:1/"})

    async with serving(handler) as address:
        reader = PrometheusReader(f"http://{address}")
        with pytest.raises(PrometheusFailed, match=words):
            await reader.series(0, 3600, 10)
        await reader.close()


async def test_a_prometheus_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.2)
    stop = asyncio.Event()

    async def handler(_: web.Request) -> web.Response:
        await stop.wait()
        return web.Response()

    async with serving(handler) as address:
        reader = PrometheusReader(f"http://{address}/")
        with pytest.raises(PrometheusFailed, match="did not answer"):
            await reader.series(0, 3600, 10)
        await reader.close()
        stop.set()


async def test_the_token_is_read_for_each_call(tmp_path: Path) -> None:
    seen: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization", ""))
        return web.Response(text='{"status":"success","data":{"resultType":"matrix","result":[]}}')

    file = tmp_path / "token"
    async with serving(handler) as address:
        reader = PrometheusReader(f"http://{address}", str(file))
        with pytest.raises(PrometheusFailed, match="prometheusTokenFile"):
            await reader.series(0, 3600, 10)
        file.write_text("one\n")
        await reader.series(0, 3600, 10)
        file.write_text("two\n")
        await reader.series(0, 3600, 10)
        await reader.close()
    assert seen == ["Bearer one"] * len(QUERIES) + ["Bearer two"] * len(QUERIES)


@pytest.mark.parametrize("url", ["prometheus:9090", "ftp://x", "http://", "http://u:p@host", "http://x/?q=1"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(UserError, match="--prometheus-url"):
        check_url(url)
