"""Load and memory of VMs from node_exporter-style endpoints inside them. Prometheus text in, VmMetrics out."""

import asyncio
import math
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from ullage.decide.vm_agent.goal import NO_METRICS, VmMetrics
from ullage.model.fact_event import ObjectKey

_MOST_BYTES = 4 << 20
_KERNEL = 100 << 20
"""Bytes added to the usage: memory the kernel needs and does not show."""


class MetricsTrouble(StrEnum):
    """Reasons for a reading without metrics, or with a part of them."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    STATUS = "status"
    TOO_LARGE = "too-large"
    MALFORMED = "malformed"
    INCOMPLETE = "incomplete"
    """Readable, but a metric is not there or is no finite number of at least 0."""


@dataclass(frozen=True, slots=True)
class MetricsReading:
    metrics: VmMetrics
    trouble: MetricsTrouble | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class MetricsTarget:
    """Machine to read from."""

    vm: ObjectKey
    address: str


class MetricsSource(Protocol):
    def configure(self, endpoint: "MetricsEndpoint") -> None:
        """Take over another place and pace, for the readings to come."""
        ...

    def readings(self, target: MetricsTarget) -> AsyncIterator[MetricsReading]:
        """Yield readings of one VM until closed. The source sets the pace. Never raises."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsEndpoint:
    """Place of the metrics inside every VM, and the pace of reading them."""

    port: int = 9100
    path: str = "/metrics"
    prefix: str = "node_"
    """Beginning of the metrics' names: `node_` of node_exporter."""
    every: float = 5.0
    timeout: float = 2.0


class HttpMetricsSource:
    """Reads all VMs of a node over HTTP. `close` when done."""

    def __init__(self, endpoint: MetricsEndpoint, rng: random.Random) -> None:
        self._endpoint = endpoint
        self._rng = rng
        self._session: aiohttp.ClientSession | None = None

    async def readings(self, target: MetricsTarget) -> AsyncIterator[MetricsReading]:
        loop = asyncio.get_running_loop()
        # VMs of a node are not read all at the same instant.
        await asyncio.sleep(self._rng.uniform(0.0, min(1.0, self._endpoint.every)))
        due = loop.time()
        while True:
            yield await self._reading(target)
            due = max(due + self._endpoint.every, loop.time())
            await asyncio.sleep(due - loop.time())

    def configure(self, endpoint: MetricsEndpoint) -> None:
        """Take over another place and pace, for the readings to come."""
        self._endpoint = endpoint

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _reading(self, target: MetricsTarget) -> MetricsReading:
        host = f"[{target.address}]" if ":" in target.address else target.address
        url = f"http://{host}:{self._endpoint.port}{self._endpoint.path}"
        try:
            async with asyncio.timeout(self._endpoint.timeout):
                return await self._fetched(url)
        except TimeoutError:
            return MetricsReading(NO_METRICS, MetricsTrouble.TIMEOUT, f"{url} did not answer in time")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return MetricsReading(
                NO_METRICS, MetricsTrouble.UNREACHABLE, f"{url}: {str(error) or type(error).__name__}"
            )

    async def _fetched(self, url: str) -> MetricsReading:
        async with self._opened().get(url, allow_redirects=False) as answer:
            if answer.status != 200:
                return MetricsReading(NO_METRICS, MetricsTrouble.STATUS, f"{url} answered {answer.status}")
            body = bytearray()
            async for chunk in answer.content.iter_any():
                body += chunk
                if len(body) > _MOST_BYTES:
                    answer.close()
                    return MetricsReading(NO_METRICS, MetricsTrouble.TOO_LARGE, f"{url} is larger than 4 MiB")
        return parse_metrics(body.decode("utf-8", errors="replace"), self._endpoint.prefix)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit_per_host=2)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._session


def parse_metrics(text: str, prefix: str = "node_") -> MetricsReading:
    """Read load averages and memory usage out of a page of metrics. Other lines are not looked at."""
    names = {f"{prefix}{name}": name for name in _WANTED}
    wanted = "".join(f"{line}\n" for line in text.splitlines() if _name_of(line) in names)
    values: dict[str, float] = {}
    try:
        for family in text_string_to_metric_families(wanted):
            for sample in family.samples:
                values.setdefault(names.get(sample.name, ""), float(sample.value))
    except (ValueError, IndexError, KeyError, AttributeError, OverflowError) as error:
        return MetricsReading(NO_METRICS, MetricsTrouble.MALFORMED, f"not Prometheus text: {error}")
    sound = {name: value for name, value in values.items() if math.isfinite(value) and value >= 0}
    metrics = VmMetrics(load1=sound.get("load1"), load5=sound.get("load5"), memory_usage=_usage(sound))
    if metrics.complete:
        return MetricsReading(metrics)
    missing = ", ".join(f"{prefix}{name}" for name in _WANTED if name not in sound)
    return MetricsReading(metrics, MetricsTrouble.INCOMPLETE, f"no usable {missing or 'memory metrics'}")


_TOTAL, _AVAILABLE = "memory_MemTotal_bytes", "memory_MemAvailable_bytes"
_WANTED = ("load1", "load5", _TOTAL, _AVAILABLE)


def _name_of(line: str) -> str:
    return line.partition("{")[0].partition(" ")[0]


def _usage(values: dict[str, float]) -> int | None:
    total, available = values.get(_TOTAL), values.get(_AVAILABLE)
    if total is None or available is None or available > total:
        return None
    return int(total - available) + _KERNEL
