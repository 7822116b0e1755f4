"""Plays a fidelity story in the simulator. Blocks; needs no loop."""

import copy

from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import NODE_PROVISIONERS, NODES, PODS
from ullage.sim.apiserver.network_faults import Latency
from ullage.sim.apiserver.storage.store import StoredChange
from ullage.sim.controllers.wiring import ControllerManagerSettings
from ullage.sim.fidelity.outcome import OutcomeRecorder, StoryOutcome
from ullage.sim.kubelet.timings import DurationRange, KubeletTimings
from ullage.sim.virtual_time import run_virtual
from ullage.sim.world.run import unlogged
from ullage.sim.world.spec import CloudSpec, WorldSpec
from ullage.sim.world.step_player import play_steps
from ullage.sim.world.world import World, started_world
from ullage.testing.fidelity.calibration import QUIET, MeasuredLatency
from ullage.testing.fidelity.stories import FidelityStory

_SPREAD = 0.5
"""Share that is added to the least latency of a call at most."""


def play_simulated(story: FidelityStory, latency: MeasuredLatency = QUIET, seed: int = 0) -> StoryOutcome:
    """Outcome in the simulator, in which everything takes as long as was measured."""

    async def live() -> StoryOutcome:
        async with started_world(simulated_spec(story, latency, seed)) as world:
            record = outcome_of(world)
            await play_steps(world, story.steps)
            await world.sleep_until(story.seconds)
            return record.outcome()

    with unlogged():
        return run_virtual(live())


def simulated_spec(story: FidelityStory, latency: MeasuredLatency = QUIET, seed: int = 0) -> WorldSpec:
    """World in which the story begins."""
    return WorldSpec(
        seed=seed,
        objects=tuple(_late(one, latency) for one in story.objects),
        cloud=CloudSpec(latency=latency.buy),
        actors=ControllerManagerSettings(seed=seed, behaviour=_kubelets(latency)),
        latency=_network(latency),
    )


def _late(manifest: JsonObject, latency: MeasuredLatency) -> JsonObject:
    """The same, and if it is a pool: with machines that are as late as those of the real cloud.

    The simulated cloud makes a machine halfway through its call.
    """
    if manifest["kind"] != NODE_PROVISIONERS.kind:
        return manifest
    made: JsonObject = copy.deepcopy(manifest)
    said = made["spec"]["provider"]["parameters"]
    late = {"bootSeconds": latency.boot - latency.buy / 2, "gpuSeconds": latency.gpus}
    said |= {name: str(max(0.0, round(float(said[name]) + seconds, 4))) for name, seconds in late.items()}
    return made


def _network(latency: MeasuredLatency) -> Latency:
    """Calls whose medians are those that were measured."""
    least = {method: seconds / (1 + _SPREAD / 2) for method, seconds in latency.calls.items()}
    return Latency(by_method=least, default=least["PATCH"], spread=_SPREAD, watch=latency.watch, each=latency.each)


def _kubelets(latency: MeasuredLatency) -> KubeletTimings:
    """KWOK's kubelets. They stop a pod as fast as they start one."""
    soon, late = DurationRange(latency.start, latency.start), DurationRange(latency.end, latency.end)
    return KubeletTimings(start=soon, stop=soon, end=late)


def outcome_of(world: World) -> OutcomeRecorder:
    """Recorder of what happens in a world from now on."""
    record = OutcomeRecorder()
    for manifest in world.hand.all_of(NODES):
        record.node(manifest)
    record.begin()

    def pod_changed(change: StoredChange) -> None:
        if not change.deleted:
            record.pod(change.after.obj, world.elapsed)

    def node_changed(change: StoredChange) -> None:
        record.node(change.after.obj, gone=change.deleted)

    world.server.listen(PODS.id, pod_changed)
    world.server.listen(NODES.id, node_changed)
    return record
