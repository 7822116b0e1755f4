"""Admissions over TLS on loopback: how many per second, and how long each takes at a steady rate.

The server is a process of its own with the real reviewer and its claims in memory; the client sends reviews of 6 KB,
each of a pod with a claim that is patched: first as many as 16 connections can, then 200 a second.
"""

import asyncio
import json
import ssl
import subprocess
import sys
import time

import aiohttp

from bench.record import Figure
from ullage.testing.admission import a_large_pod, a_review, a_server

REVIEW_BYTES = 6_000
RATE = 200
STEADY_SECONDS, FLOOD_SECONDS = 20.0, 8.0
FLOOD_CONNECTIONS, STEADY_CONNECTIONS = 16, 4
MOST_P99_MS = 10.0


def run(scale: float) -> list[Figure]:
    """Measure one server."""
    command = (sys.executable, "-m", "bench.webhook")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    try:
        if process.stdout is None:
            raise RuntimeError("the server has no output")
        hello = json.loads(process.stdout.readline())
        body = json.dumps(a_review(a_large_pod(REVIEW_BYTES))).encode()
        per_second, times = asyncio.run(_measure(hello["port"], hello["trusted"], body, scale))
    finally:
        process.kill()
        process.wait()
    return [
        Figure(f"admissions over TLS, {len(body) / 1000:.1f} KB reviews", "/s", per_second, more_is_better=True),
        Figure(f"admission at {RATE}/s, median", "ms", _quantile(times, 0.5) * 1000),
        Figure(
            f"admission at {RATE}/s, p99", "ms", _quantile(times, 0.99) * 1000, MOST_P99_MS, "promised at most", 1.0
        ),
    ]


def _quantile(times: list[float], part: float) -> float:
    return sorted(times)[min(int(len(times) * part), len(times) - 1)]


async def _measure(port: int, trusted: str, body: bytes, scale: float) -> tuple[float, list[float]]:
    url = f"https://127.0.0.1:{port}/mutate"
    context = ssl.create_default_context(cadata=trusted)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=0)) as session:
        await _review(session, url, body)
        per_second = await _flood(session, url, body, max(FLOOD_SECONDS * scale, 1.0))
        return per_second, await _steady(session, url, body, max(STEADY_SECONDS * scale, 1.0))


async def _review(session: aiohttp.ClientSession, url: str, body: bytes) -> None:
    async with session.post(url, data=body) as answer:
        said = await answer.read()
        if answer.status != 200 or b"JSONPatch" not in said:
            raise RuntimeError(f"HTTP {answer.status}: {said[:200]!r}")


async def _flood(session: aiohttp.ClientSession, url: str, body: bytes, seconds: float) -> float:
    """Every connection sends the next review when the one before is answered."""
    until, done = time.perf_counter() + seconds, 0

    async def client() -> None:
        nonlocal done
        while time.perf_counter() < until:
            await _review(session, url, body)
            done += 1

    await asyncio.gather(*(client() for _ in range(FLOOD_CONNECTIONS)))
    return done / seconds


async def _steady(session: aiohttp.ClientSession, url: str, body: bytes, seconds: float) -> list[float]:
    """A review is due at fixed moments; its time counts from then, so that a stall is not forgotten."""
    start, times = time.perf_counter() + 0.1, []
    due = iter(range(int(seconds * RATE)))

    async def client() -> None:
        for number in due:
            moment = start + number / RATE
            await asyncio.sleep(max(moment - time.perf_counter(), 0.0))
            await _review(session, url, body)
            times.append(time.perf_counter() - moment)

    await asyncio.gather(*(client() for _ in range(STEADY_CONNECTIONS)))
    return times


async def _serve() -> None:
    """The server's side: says where it is, and goes on until its input ends."""
    async with a_server() as stage:
        hello = {"port": stage.address.port, "trusted": stage.tls_secret.trusted.decode()}
        sys.stdout.write(json.dumps(hello) + "\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve())
