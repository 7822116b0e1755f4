"""A simulated week, scraped as Prometheus would scrape it: scheduler, controller and webhook of a cluster with a daily
wave of jobs, a broken GPU, a zone without capacity and a pod that nothing serves. Pictures are made elsewhere.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from tests.sim.world.making import arrives, claim, fleet, pod, pool
from ullage.clock import Instant
from ullage.cloud.api import NoCapacity
from ullage.control.provisioning.gauges import show as show_pools
from ullage.control.scheduling.gauges import show as show_scheduler
from ullage.decide.admission.policy import AdmissionPolicy
from ullage.model.device import DeviceHealth
from ullage.observe.admission_metrics import AdmissionMetrics
from ullage.sim.admission import post_webhook
from ullage.sim.controllers.wiring import ControllerManagerSettings
from ullage.sim.kubelet.timings import KubeletTimings
from ullage.sim.virtual_time import run_virtual
from ullage.sim.world.spec import DRAINING, PROVISIONING, SCHEDULER, Arrival, WorldSpec
from ullage.sim.world.workload_player import WorkloadPlayer
from ullage.sim.world.world import World, started_world

DAY = 86_400.0
SCRAPE_SECONDS = 120.0
SEED = 7
JOBS_PER_DAY = 90
Sample = tuple[str, float, float]
"""Series with its labels, time and value."""


def jobs(days: int, seed: int = SEED) -> list[Arrival]:
    """A wave of jobs each day, fewer at the weekend: whole GPUs, shares, gangs of four."""
    chance, found = random.Random(seed), []
    for day in range(days):
        for number in range(JOBS_PER_DAY if day % 7 < 5 else JOBS_PER_DAY // 3):
            at = DAY * day + chance.gauss(0.55, 0.12) % 1.0 * DAY
            found.append(_job(chance, f"d{day}-{number}", at))
    found.append(arrives(2.3 * DAY, claim("too-large", 16), pod("too-large", claim="too-large"), leaves_at=2.45 * DAY))
    return sorted(found, key=lambda one: one.at)


def _job(chance: random.Random, name: str, at: float) -> Arrival:
    seconds = min(6 * 3600.0, chance.lognormvariate(8.3, 0.8))
    kind = chance.random()
    if kind < 0.3:
        share = {"exclusivity": "Shared", "memory": "30Gi"}
        return arrives(at, claim(name, devices=share), pod(name, claim=name, seconds=seconds))
    if kind < 0.38:
        members = [f"{name}-{member}" for member in range(4)]
        made = [(claim(one, 4, gangRef=name, gangMinMember=4), pod(one, claim=one, seconds=seconds)) for one in members]
        return arrives(at, *(one for pair in made for one in pair))
    count = chance.choice((1, 1, 2, 4, 8))
    return arrives(at, claim(name, count), pod(name, claim=name, seconds=seconds))


def recorded(days: int = 7) -> Iterator[Sample]:
    """Samples of all scrapes of the week."""
    admission = AdmissionMetrics(CollectorRegistry())
    admission.certificate_end.set(0)
    spec = WorldSpec(
        seed=SEED,
        nodes=fleet(2),
        objects=(
            pool("on-demand", most=4, consolidation={"policy": "Drain", "unneededTime": "10m"}),
            pool("spot", most=4),
        ),
        actors=ControllerManagerSettings(seed=SEED, behaviour=KubeletTimings(seed=SEED)),
        controller_metrics=True,
    )

    async def live() -> list[Sample]:
        def posted(server: Any) -> None:
            post_webhook(
                server,
                AdmissionPolicy(identities=("scheduler",)),
                lambda answer: admission.reviewed("/mutate", answer.outcome, 0.001),
            )

        async with started_world(spec, admission=posted) as world:
            admission.certificate_end.set(world.clock.now() + 90 * DAY)
            player = WorkloadPlayer(world, jobs(days), lambda _: None)
            playing = asyncio.create_task(player.play(days * DAY), name="jobs")
            trouble = asyncio.create_task(_trouble(world), name="trouble")
            try:
                return await _scraped(world, admission, days * DAY)
            finally:
                for task in (playing, trouble):
                    task.cancel()
                await asyncio.gather(playing, trouble, return_exceptions=True)

    yield from run_virtual(live(), epoch=Instant(spec.epoch))


async def _trouble(world: World) -> None:
    """A GPU fails on the second day for six hours; on the fourth the cloud has nothing for three hours."""
    await world.sleep_until(1.4 * DAY)
    world.agents.set_health("gpu-0", 3, DeviceHealth.UNHEALTHY)
    await world.sleep_until(1.65 * DAY)
    world.agents.set_health("gpu-0", 3, DeviceHealth.HEALTHY)
    await world.sleep_until(3.45 * DAY)
    world.cloud.faults.fail("create", NoCapacity("no H100 left in this zone"), times=1000)
    await world.sleep_until(3.58 * DAY)
    world.cloud.faults.clear()


async def _scraped(world: World, admission: AdmissionMetrics, until: float) -> list[Sample]:
    found: list[Sample] = []
    while world.elapsed < until:
        await asyncio.sleep(SCRAPE_SECONDS)
        now = world.clock.now()
        _refresh(world, now)
        loops = world.loops
        for instance, metrics in (
            ("scheduler", loops.metrics),
            ("controller", loops.provisioning_metrics),
            ("controller", loops.drain_metrics),
            ("webhook", admission),
        ):
            if metrics is not None:
                found += _samples(metrics.registry, instance, now)
    return found


def _refresh(world: World, now: float) -> None:
    show_scheduler(world.loops.metrics, world.loop(SCHEDULER).core, now=now)
    provisioning = world.loop(PROVISIONING)
    if provisioning.loop.plan is not None and world.loops.provisioning_metrics is not None:
        show_pools(world.loops.provisioning_metrics, provisioning.loop.plan, now=now)
    world.loop(DRAINING).show()


def _samples(registry: CollectorRegistry, instance: str, now: float) -> Iterator[Sample]:
    for family in registry.collect():
        for one in family.samples:
            if one.name.endswith("_created"):
                continue
            labels = {**one.labels, "instance": instance}
            text = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
            yield f"{one.name}{{{text}}}", now, float(one.value)


def write_openmetrics(path: Path, samples: Iterator[Sample], wanted: Callable[[str], bool]) -> int:
    """Write the samples of wanted metrics, series by series. Returns their number."""
    by_name: dict[str, list[str]] = {}
    for series, now, value in samples:
        name = series.partition("{")[0]
        if wanted(name):
            by_name.setdefault(name, []).append(f"{series} {value:g} {now:.3f}")
    with path.open("w") as out:
        for name in sorted(by_name):
            out.write("\n".join(by_name[name]) + "\n")
        out.write("# EOF\n")
    return sum(map(len, by_name.values()))
