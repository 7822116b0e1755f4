"""Series of a Prometheus, for times that the dashboard's own history does not have. Only `query_range` is asked."""

import asyncio
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from ullage.errors import UserError
from ullage.web.history.records import FleetSample

PATIENCE = 10.0
"""Seconds one answer may take."""
MOST_BYTES = 8 << 20
LEAST_STEP = 15.0

QUERIES: Mapping[str, str] = {
    "gpus": "sum(max by (state, model) (ullage_gpus))",
    "allocated": 'sum(max by (state, model) (ullage_gpus{state=~"used|partly-used"}))',
    "broken": 'sum(max by (state, model) (ullage_gpus{state="unhealthy"}))',
    "pending": 'max(sum by (instance, job) (ullage_scheduler_queue_pods{place!="out"}))',
    "nodes": 'sum(max by (provisioner, state) (ullage_pool_nodes{state=~"ready|tainted"}))',
}
"""Expression of each figure. Both schedulers export their gauges: the larger one counts. Prices are no metric."""


class _Series(msgspec.Struct):
    values: list[tuple[float, str]] = []


class _Data(msgspec.Struct):
    result: list[_Series] = []


class _Response(msgspec.Struct):
    status: str
    data: _Data | None = None
    error: str = ""


class PrometheusFailed(Exception):
    """Prometheus did not answer, or not with what was asked for; the text says why."""


class PrometheusReader:
    """Asks one Prometheus. Lives in one loop; close it."""

    def __init__(self, url: str, token_file: str | None = None) -> None:
        self._url = url.rstrip("/")
        self._token_file = token_file
        self._session: aiohttp.ClientSession | None = None

    async def series(self, begin: float, end: float, points: int) -> list[FleetSample]:
        """Samples of a time; instants at which it has nothing are left out. Raises PrometheusFailed."""
        step = max(LEAST_STEP, (end - begin) / max(1, points))
        at: dict[float, dict[str, Any]] = {}
        for name, query in QUERIES.items():
            for instant, value in (await self._query(query, begin, end, step)).items():
                at.setdefault(instant, {})[name] = value
        return [FleetSample(at=instant, width=step, **at[instant]) for instant in sorted(at) if "gpus" in at[instant]]

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _query(self, query: str, begin: float, end: float, step: float) -> dict[float, float]:
        asked = {"query": query, "start": f"{begin:.3f}", "end": f"{end:.3f}", "step": f"{step:.3f}"}
        headers = self._headers()
        if self._session is None:
            self._session = aiohttp.ClientSession(trust_env=False)
        url = f"{self._url}/api/v1/query_range"
        try:
            async with (
                asyncio.timeout(PATIENCE),
                self._session.post(url, data=asked, headers=headers, allow_redirects=False) as answer,
            ):
                body = bytearray()
                while len(body) <= MOST_BYTES and (more := await answer.content.read(1 << 16)):
                    body += more
                return self._read(answer.status, bytes(body))
        except TimeoutError:
            raise PrometheusFailed(f"{self._url} did not answer within {PATIENCE:.0f} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise PrometheusFailed(f"{self._url}: {error}") from error

    def _headers(self) -> dict[str, str]:
        if self._token_file is None:
            return {}
        try:
            return {"Authorization": f"Bearer {Path(self._token_file).read_text().strip()}"}
        except (OSError, UnicodeDecodeError) as error:
            raise PrometheusFailed(f"dashboard.prometheusTokenFile: {self._token_file}: {error}") from error

    def _read(self, status: int, body: bytes) -> dict[float, float]:
        if len(body) > MOST_BYTES:
            raise PrometheusFailed(f"{self._url} answered with more than {MOST_BYTES >> 20} MiB")
        try:
            said = msgspec.json.decode(body, type=_Response)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise PrometheusFailed(f"{self._url} answered {status} and is no Prometheus") from error
        if said.status != "success" or said.data is None:
            raise PrometheusFailed(f"{self._url} answered {status}: {said.error or said.status}")
        found = {instant: float(text) for one in said.data.result for instant, text in one.values}
        return {instant: value for instant, value in found.items() if math.isfinite(value)}


def check_url(url: str) -> str:
    """The URL of a Prometheus. Raises UserError if it cannot be one."""
    scheme, _, rest = url.partition("://")
    if scheme not in ("http", "https") or not rest.strip("/") or any(one in rest for one in "?#@ "):
        raise UserError(
            f"--prometheus-url: {url!r} is no address of a Prometheus; give one such as http://prometheus:9090, "
            "without user and password (--prometheus-token-file is for a token)"
        )
    return url
