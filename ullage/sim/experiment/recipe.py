"""All that makes a run what it is, and the world and arrivals that come of it. Can be sent to another process."""

from dataclasses import dataclass, replace
from typing import Any

from ullage.config.describing import as_plain
from ullage.config.settings import Settings
from ullage.control.configured import draining_settings, provisioning_settings, scheduler_settings
from ullage.control.scheduling.start import SchedulerSettings
from ullage.decide.score.policies import CHANCE
from ullage.kube.resource import JsonObject
from ullage.sim.actors.kubelet_behaviour import Behaviour
from ullage.sim.actors.start import ActorSettings
from ullage.sim.apiserver.weather import Latency
from ullage.sim.fleet.fleet import Fleet
from ullage.sim.time import EPOCH
from ullage.sim.workload.arriving import Manner, arrivals, surroundings
from ullage.sim.workload.job import Workload
from ullage.sim.world.spec import Arrival, CloudSpec, WorldSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One run. The same recipe gives the same report, to the byte, wherever it is run."""

    label: str
    workload: Workload
    fleet: Fleet
    settings: Settings
    seed: int = 0
    duration: float | None = None
    """Simulated seconds after which it ends; None: when everything that arrived is over."""
    invariants: bool = True
    restored: tuple[JsonObject, ...] = ()
    """Objects of a cluster that was: the run goes on from them."""
    epoch: float = EPOCH
    """When it begins."""

    @property
    def manner(self) -> Manner:
        chosen = self.settings.simulation
        return Manner(ends=chosen.ends, load=chosen.load, evicted=chosen.evicted, share_of=self.fleet.share_of)


def world_spec(recipe: Recipe) -> WorldSpec:
    """The cluster, and who works in it."""
    settings, chosen = recipe.settings, recipe.settings.simulation
    return WorldSpec(
        seed=recipe.seed,
        nodes=recipe.fleet.nodes,
        objects=(*surroundings(recipe.workload.jobs), *recipe.fleet.objects),
        restored=recipe.restored,
        epoch=recipe.epoch,
        loops=chosen.loops,
        scheduler=_seeded(scheduler_settings(settings), recipe.seed),
        controller=provisioning_settings(settings),
        draining=draining_settings(settings),
        cloud=CloudSpec(boot_seconds=chosen.boot_time),
        actors=ActorSettings(seed=recipe.seed, behaviour=Behaviour(seed=recipe.seed), heartbeats=chosen.faults),
        latency=Latency(default=chosen.api_latency, spread=0.5, watch=0.01),
        faults=chosen.faults,
        invariants=recipe.invariants,
    )


def world_arrivals(recipe: Recipe) -> list[Arrival]:
    """What arrives in it, in order."""
    return arrivals(recipe.workload.jobs, recipe.manner)


def told_settings(settings: Settings) -> dict[str, Any]:
    """Those that are not as by default, by path."""
    plain, usual = as_plain(settings), as_plain(Settings())
    return {
        f"{section}.{name}": value
        for section, values in plain.items()
        for name, value in values.items()
        if value != usual[section][name]
    }


def _seeded(settings: SchedulerSettings, seed: int) -> SchedulerSettings:
    """Chance has the run's seed."""
    profiles = {name: f"{CHANCE}/{seed}" if policy == CHANCE else policy for name, policy in settings.profiles.items()}
    return replace(settings, profiles=profiles)
