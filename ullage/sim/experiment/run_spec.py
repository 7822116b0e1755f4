"""Specification of a run, and the world and arrivals made from it. Can be sent to another process."""

from dataclasses import dataclass, replace

from ullage.config.settings import Settings
from ullage.kube.client.resource import JsonObject
from ullage.model.scoring import ScoringPolicy
from ullage.sim.apiserver.network_faults import Latency
from ullage.sim.controllers.wiring import ControllerManagerSettings
from ullage.sim.fleet.fleet import SimulatedFleet
from ullage.sim.fleet.prices import price_list
from ullage.sim.kubelet.timings import KubeletTimings
from ullage.sim.virtual_time import EPOCH
from ullage.sim.workload.job import Workload
from ullage.sim.workload.manifests import PodOptions, arrivals, surroundings
from ullage.sim.world.spec import Arrival, CloudSpec, WorldSpec
from ullage.state.dump import RecordedStep


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """One run. The same RunSpec gives the same report, to the byte, wherever it is run."""

    label: str
    group: str = ""
    """Label of the runs that differ in nothing but the seed; empty: there are none."""
    workload: Workload
    fleet: SimulatedFleet
    settings: Settings
    seed: int = 0
    duration: float | None = None
    """Simulated seconds after which the run ends; None: when all arrivals are over."""
    invariants: bool = True
    restored: tuple[JsonObject, ...] = ()
    """Objects of an earlier cluster that the run starts from."""
    epoch: float = EPOCH
    """Time at which the run begins, in Unix seconds."""
    steps: tuple[RecordedStep, ...] = ()
    """Steps of users and machines of that cluster from then on."""

    @property
    def manner(self) -> PodOptions:
        chosen = self.settings.simulation
        return PodOptions(ends=chosen.ends, load=chosen.load, evicted=chosen.evicted, share_of=self.fleet.share_of)


def world_spec(recipe: RunSpec) -> WorldSpec:
    """Cluster and loops of the run."""
    settings, chosen = recipe.settings, recipe.settings.simulation
    return WorldSpec(
        seed=recipe.seed,
        nodes=recipe.fleet.nodes,
        objects=(*surroundings(recipe.workload.jobs), *recipe.fleet.objects),
        restored=recipe.restored,
        epoch=recipe.epoch,
        steps=recipe.steps,
        loops=chosen.loops,
        settings=_seeded(settings, recipe.seed),
        cloud=CloudSpec(boot_seconds=chosen.boot_time),
        actors=ControllerManagerSettings(
            seed=recipe.seed, behaviour=KubeletTimings(seed=recipe.seed), heartbeats=chosen.faults
        ),
        latency=Latency(default=chosen.api_latency, spread=0.5, watch=0.01),
        faults=chosen.faults,
        invariants=recipe.invariants,
        prices=price_list(chosen.currency, chosen.gpu_prices),
    )


def world_arrivals(recipe: RunSpec) -> list[Arrival]:
    """Arrivals of the run, in the order of the workload's jobs."""
    return arrivals(recipe.workload.jobs, recipe.manner)


def _seeded(settings: Settings, seed: int) -> Settings:
    """Settings with the seed of the run for profiles that use the random policy."""
    chosen, seeded = settings.scheduling, f"{ScoringPolicy.RANDOM}/{seed}"
    profiles = {name: seeded if policy == ScoringPolicy.RANDOM else policy for name, policy in chosen.profiles.items()}
    policy = seeded if chosen.policy == ScoringPolicy.RANDOM else chosen.policy
    return replace(settings, scheduling=replace(chosen, policy=policy, profiles=profiles))
