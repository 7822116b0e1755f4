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
from ullage.vm_agent.metrics_source import MetricsReading, MetricsTarget

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
    calm_seconds: float = 1800.0
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
        self.calm_from: float | None = None
        """Seconds since the beginning from which nobody has a burst any more."""

    async def readings(self, target: MetricsTarget) -> AsyncIterator[MetricsReading]:
        steps = self._load.steps(str(target.vm))
        current, following = next(steps), next(steps)
        while True:
            while following.at <= self._elapsed:
                current, following = following, next(steps)
            if self.calm_from is not None and current.cores > self._load.calm[1]:
                current = LoadStep(current.at, self._load.calm[0])
            yield MetricsReading(current.metrics)
            await asyncio.sleep(following.at - self._elapsed)

    @property
    def _elapsed(self) -> float:
        return self._clock.now() - self._began


def peak_metrics(vm: ObjectKey, load: BurstyLoad, seconds: float) -> float:
    """Highest load of a VM in that time, in cores: the size it would need without an agent."""
    most = 0.0
    for step in load.steps(str(vm)):
        if step.at > seconds:
            return most
        most = max(most, step.cores)
    return most
