"""Synthetic workload from a seed: arrival times, sizes, run times and gangs."""

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ullage.config.compound_values import MapOf
from ullage.config.declaration import setting
from ullage.config.loading import read_sections
from ullage.config.values import Duration, Fraction, IntRange, OneOf, PositiveFloat
from ullage.model.device import MILLI_GPU, MOST_DEVICES
from ullage.model.units import Seconds
from ullage.sim.workload.job import TraceJob

HOUR, DAY = 3600.0, 86_400.0
_GIB = 1 << 30
_SIZES: Mapping[str, float] = {"0.25": 15.0, "0.5": 15.0, "1": 40.0, "2": 10.0, "4": 10.0, "8": 10.0}
_PRIORITIES: Mapping[str, float] = {"0": 1.0}
_MODELS: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Generator:
    """Parameters of the synthetic workload."""

    jobs: int = setting(1000, IntRange(1, 1_000_000), "How many jobs there are.")
    arrivals: str = setting(
        "poisson",
        OneOf(("poisson", "regular", "bursts", "daily")),
        "How they come: at random, at equal distances, in crowds of burstSize, or at random and more of them by day.",
    )
    per_hour: float = setting(60.0, PositiveFloat(), "How many come in an hour, on average.")
    burst_size: int = setting(20, IntRange(1), "How many come at the same moment, in bursts.")
    sizes: Mapping[str, float] = setting(
        _SIZES,
        MapOf(PositiveFloat(), "GPUS"),
        "How often a pod asks for so many GPUs: 0 is none, below 1 a part of one.",
    )
    models: Mapping[str, float] = setting(
        _MODELS, MapOf(PositiveFloat(), "MODEL"), "How often a pod insists on a model; what is missing to 1 takes any."
    )
    durations: str = setting(
        "lognormal", OneOf(("lognormal", "exponential", "fixed")), "How the times pods work are spread."
    )
    mean_duration: Seconds = setting(Seconds(HOUR), Duration(0.001), "How long a pod works on average.")
    spread: float = setting(1.2, PositiveFloat(), "Standard deviation of the logarithm of lognormal times.")
    gangs: float = setting(0.05, Fraction(), "The part of jobs that are gangs.")
    gang_size: int = setting(4, IntRange(2, 1000), "Pods in a gang, all with whole GPUs.")
    priorities: Mapping[str, float] = setting(
        _PRIORITIES, MapOf(PositiveFloat(), "PRIORITY"), "How often a job has which priority."
    )
    cpu_per_gpu: int = setting(8, IntRange(0), "Cores a pod asks for with each GPU, or part of it.")
    memory_per_gpu: int = setting(64, IntRange(0), "GiB of memory the same.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthetic:
    """Settings file with one section."""

    synthetic: Generator = field(default_factory=Generator)


def read_synthetic(text: str, source: str) -> Synthetic:
    """Read the generator's settings. Raises SettingsError."""
    return read_sections(text, source, Synthetic, broken_laws)


def broken_laws(whole: Synthetic) -> Iterator[tuple[str, str]]:
    """Problems of values that are valid one by one: the path of each setting and a sentence."""
    made = whole.synthetic
    for size in made.sizes:
        gpus = _number(size)
        if gpus is None or gpus < 0 or gpus > MOST_DEVICES or (gpus > 1 and gpus != int(gpus)):
            yield "synthetic.sizes", f"{size} is no number of GPUs; allowed: 0 to {MOST_DEVICES}, whole or below 1"
    for priority in made.priorities:
        if (number := _number(priority)) is None or number != int(number):
            yield "synthetic.priorities", f"{priority} is no priority; allowed: whole numbers"
    if sum(made.models.values()) > 1:
        yield "synthetic.models", "the parts are more than 1 together"
    if not made.sizes:
        yield "synthetic.sizes", "is empty; allowed: GPUS: how often"


def generated(whole: Synthetic, seed: int) -> list[TraceJob]:
    """Jobs of the generator. Equal seeds give equal jobs."""
    made, chance = whole.synthetic, random.Random(f"workload/{seed}")
    times = _arrival_times(made, chance)
    return [_job(made, chance, number, at) for number, at in zip(range(made.jobs), times, strict=False)]


def _arrival_times(made: Generator, chance: random.Random) -> Iterator[float]:
    gap, now = HOUR / made.per_hour, 0.0
    while True:
        if made.arrivals == "bursts":
            for _ in range(made.burst_size):
                yield now
            now += gap * made.burst_size
        elif made.arrivals == "regular":
            yield now
            now += gap
        else:
            yield now
            now += chance.expovariate(1.0) * gap
            while made.arrivals == "daily" and chance.random() > _daylight(now):
                now += chance.expovariate(1.0) * gap


def _daylight(now: float) -> float:
    """Share of arrivals at this time of day: all at 14:00, a fifth at 02:00."""
    return 0.6 + 0.4 * math.cos((now % DAY - 14 * HOUR) / DAY * 2 * math.pi)


def _job(made: Generator, chance: random.Random, number: int, at: float) -> TraceJob:
    size = float(_drawn(made.sizes, chance))
    model = _model(made, chance)
    gang = chance.random() < made.gangs and size >= 1
    seconds = _duration(made, chance)
    priority = int(float(_drawn(made.priorities, chance)))
    return TraceJob(
        name=f"job-{number:06d}",
        at=round(at, 3),
        seconds=seconds,
        stays=seconds,
        pods=made.gang_size if gang else 1,
        gpus=math.ceil(size),
        share_milli=round(size * MILLI_GPU) if 0 < size < 1 else MILLI_GPU,
        models=(model,) if model and size else (),
        cpu_milli=round(made.cpu_per_gpu * 1000 * (size or 1.0)),
        memory=int(made.memory_per_gpu * _GIB * (size or 1.0)),
        priority=priority,
    )


def _duration(made: Generator, chance: random.Random) -> float:
    if made.durations == "fixed":
        return made.mean_duration
    if made.durations == "exponential":
        return round(chance.expovariate(1.0) * made.mean_duration, 3)
    middle = math.log(made.mean_duration) - made.spread**2 / 2
    return round(chance.lognormvariate(middle, made.spread), 3)


def _model(made: Generator, chance: random.Random) -> str:
    drawn, so_far = chance.random(), 0.0
    for model in sorted(made.models):
        so_far += made.models[model]
        if drawn < so_far:
            return model
    return ""


def _drawn(weights: Mapping[str, float], chance: random.Random) -> str:
    names = sorted(weights)
    return chance.choices(names, [weights[name] for name in names])[0]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
