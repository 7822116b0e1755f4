"""Load inside simulated VMs: calm times and bursts from a seed, and the metrics an agent reads of them."""

import asyncio
import math
import random
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ullage.clock import Clock
from ullage.decide.vm_agent.goal import VmMetrics
from ullage.model.fact_event import ObjectKey
from ullage.vm_agent.metrics_source import MetricsEndpoint, MetricsReading, MetricsTarget

_GI = 1 << 30
_DAY = 86_400.0


class LoadStep(NamedTuple):
    """Load of a VM from an instant on."""

    at: float
    """Seconds since the beginning."""
    cores: float

    @property
    def metrics(self) -> VmMetrics:
        """Metrics of a machine under this load. Load averages follow at once; memory grows with the load."""
        used = round((0.5 + 2.0 * self.cores) * _GI)
        return VmMetrics(load1=self.cores, load5=self.cores, memory_usage=used)


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstyLoad:
    """Bursts between calm times. By day (the middle of each 24 hours) bursts come twice as often as by night."""

    seed: int
    calm: tuple[float, float] = (0.1, 0.5)
    """Cores' worth of load in calm times, at least and at most."""
    burst: tuple[float, float] = (1.0, 6.0)
    calm_seconds: float = 3600.0
    """Mean length of a calm time."""
    burst_seconds: tuple[float, float] = (60.0, 900.0)

    def steps(self, vm: str) -> Iterator[LoadStep]:
        """Steps of one VM without end. They depend on seed and name alone."""
        chance = random.Random(f"{self.seed} {vm}")
        now = 0.0
        yield LoadStep(now, chance.uniform(*self.calm))
        while True:
            now += chance.expovariate(_activity(now) / self.calm_seconds)
            yield LoadStep(now, chance.uniform(*self.burst))
            now += chance.uniform(*self.burst_seconds)
            yield LoadStep(now, chance.uniform(*self.calm))


def _activity(seconds: float) -> float:
    return 1.0 - math.cos(2 * math.pi * seconds / _DAY) / 3


class SimulatedGuests:
    """Metrics of all simulated VMs. A reading comes when the load changes: between changes readings are the same."""

    def __init__(self, load: BurstyLoad, clock: Clock) -> None:
        self._load = load
        self._clock = clock
        self._began = clock.now()
        self._reported: dict[ObjectKey, float] = {}
        """Cores' worth of load of VMs that were told theirs."""
        self._changed: dict[ObjectKey, asyncio.Event] = {}

    def set_load(self, vm: ObjectKey, cores: float) -> None:
        """Give a VM this load until told another one. Its own bursts are over."""
        self._reported[vm] = cores
        if vm in self._changed:
            self._changed[vm].set()

    def configure(self, endpoint: MetricsEndpoint) -> None:
        """Change nothing: simulated machines have no endpoint."""

    async def readings(self, target: MetricsTarget) -> AsyncIterator[MetricsReading]:
        steps = self._load.steps(str(target.vm))
        current, following = next(steps), next(steps)
        changed = self._changed[target.vm] = asyncio.Event()
        while True:
            while following.at <= self._elapsed:
                current, following = following, next(steps)
            changed.clear()
            told = self._reported.get(target.vm)
            yield MetricsReading((current if told is None else LoadStep(self._elapsed, told)).metrics)
            try:
                async with asyncio.timeout(following.at - self._elapsed if told is None else None):
                    await changed.wait()
            except TimeoutError:
                continue

    @property
    def _elapsed(self) -> float:
        return self._clock.now() - self._began
