"""What the controller says of its work: its metrics as Prometheus would scrape them, and Events as users read them."""

import re
import time
from collections import Counter
from dataclasses import dataclass

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from tests.control.draining.at_scale.cluster import until
from tests.control.provisioning.conftest import PoolPrograms
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import EVENTS

LISTENING = ("--listen", "127.0.0.1:0")


async def metrics_page(programs: PoolPrograms, seconds: float = 20.0) -> str:
    """Where the only program that listens serves its metrics. To be asked soon after it was started."""

    async def said() -> bool:
        return _PAGE.search(programs.said()) is not None

    await until(said, seconds, programs)
    found = _PAGE.search(programs.said())
    return found[1] if found else ""


async def at_work(programs: PoolPrograms, seconds: float = 90.0) -> float:
    """When the only program that listens had read the cluster, in seconds since the epoch."""
    page = (await metrics_page(programs, seconds)).removesuffix("metrics") + "readyz"

    async def is_ready() -> bool:
        async with aiohttp.ClientSession() as session, session.get(page) as answer:
            return answer.status == 200

    await until(is_ready, seconds, programs)
    return time.time()


_PAGE = re.compile(r"metrics at (http://\S+)")


@dataclass(frozen=True)
class Figures:
    """One scrape."""

    names: frozenset[str]
    samples: tuple[tuple[str, tuple[tuple[str, str], ...], float], ...]

    def by(self, name: str, label: str) -> Counter[str]:
        """What a metric says for each value of a label, zeros left out. A metric that is not there is an error."""
        assert name in self.names, f"{name} is not among {sorted(self.names)}"
        found: Counter[str] = Counter()
        for sample, labels, value in self.samples:
            if sample == name and value:
                found[dict(labels).get(label, "")] += int(value)
        return found

    def total(self, name: str) -> int:
        """Over all labels."""
        return self.by(name, "").total()


async def scrape(page: str) -> Figures:
    async with aiohttp.ClientSession() as session, session.get(page) as answer:
        assert answer.status == 200, await answer.text()
        families = list(text_string_to_metric_families(await answer.text()))
    names = frozenset(f"{family.name}{ending}" for family in families for ending in ("", "_total", "_count"))
    samples = (sample for family in families for sample in family.samples)
    return Figures(names, tuple((one.name, tuple(sorted(one.labels.items())), float(one.value)) for one in samples))


@dataclass(frozen=True)
class Told:
    """An Event."""

    kind: str
    name: str
    reason: str
    note: str


async def events(api: KubeApi) -> list[Told]:
    found = (await api.list(EVENTS)).items
    return [
        Told(one["regarding"]["kind"], one["regarding"]["name"], one["reason"], one.get("note", "")) for one in found
    ]


async def told_of(api: KubeApi, kind: str, reason: str) -> dict[str, str]:
    """Names of objects of this kind that something was told of, and what."""
    return {one.name: one.note for one in await events(api) if (one.kind, one.reason) == (kind, reason)}
