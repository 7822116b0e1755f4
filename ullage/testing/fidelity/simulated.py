"""Plays a fidelity story in the simulator. Blocks; needs no loop."""

from ullage.kube.client.resources import NODES, PODS
from ullage.sim.apiserver.storage.store import StoredChange
from ullage.sim.controllers.wiring import ControllerManagerSettings
from ullage.sim.fidelity.outcome import OutcomeRecorder, StoryOutcome
from ullage.sim.kubelet.timings import DurationRange, KubeletTimings
from ullage.sim.virtual_time import run_virtual
from ullage.sim.world.run import unlogged
from ullage.sim.world.spec import CloudSpec, WorldSpec
from ullage.sim.world.step_player import play_steps
from ullage.sim.world.world import World, started_world
from ullage.testing.fidelity.stories import FidelityStory

KWOK = KubeletTimings(start=DurationRange(0.0, 0.05), stop=DurationRange(0.0, 0.05))
"""Kubelets of KWOK start and stop pods at once."""


def play_simulated(story: FidelityStory, seed: int = 0) -> StoryOutcome:
    """Outcome in the simulator."""

    async def live() -> StoryOutcome:
        async with started_world(simulated_spec(story, seed)) as world:
            record = outcome_of(world)
            await play_steps(world, story.steps)
            await world.sleep_until(story.seconds)
            return record.outcome()

    with unlogged():
        return run_virtual(live())


def simulated_spec(story: FidelityStory, seed: int = 0) -> WorldSpec:
    """World in which the story begins."""
    return WorldSpec(
        seed=seed,
        objects=tuple(story.objects),
        cloud=CloudSpec(latency=0.02),
        actors=ControllerManagerSettings(seed=seed, behaviour=KWOK),
    )


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
