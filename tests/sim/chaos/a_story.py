"""One chaos story, and a digest of everything that was stored in it. `python -m tests.sim.chaos.a_story` prints it."""

import hashlib
import sys

import msgspec

from ullage.sim.apiserver.storage.store import Listener, StoredChange
from ullage.sim.chaos import run
from ullage.sim.chaos.containers import ContainerTable
from ullage.sim.chaos.story import ChaosFault, ChaosJob, ChaosNode, ChaosPool, ChaosStory, FaultKind, JobKind
from ullage.sim.world.world import World

PLACES = (
    "pods",
    "nodes",
    "events",
    "leases.coordination.k8s.io",
    "gpuclaims.gpu.scheduling",
    "gpunodestatuses.gpu.scheduling",
    "nodeprovisioners.gpu.scheduling",
)
_KINDS = (JobKind.CLAIM, JobKind.SHARED, JobKind.GANG, JobKind.WHOLE, JobKind.TEMPLATE, JobKind.VM, JobKind.VOLUME)
STORY = ChaosStory(
    seed=11,
    nodes=(ChaosNode(gpus=2), ChaosNode(gpus=4, islands=2)),
    pools=(ChaosPool(name="emptied", most=2), ChaosPool(name="drained", most=2, drain=True)),
    jobs=tuple(ChaosJob(name=f"j{at}", at=5.0 + 10 * at, kind=kind, gpus=2) for at, kind in enumerate(_KINDS)),
    faults=tuple(
        ChaosFault(at=20.0 + 10 * number, kind=kind, pick=number, seconds=15.0, amount=0.5)
        for number, kind in enumerate((FaultKind.LOST, FaultKind.CONFLICT, FaultKind.STALE_WATCH, FaultKind.CRASH))
    ),
    replicas=2,
    real_agents=True,
    ends_at=150.0,
)


def digest(story: ChaosStory) -> str:
    """Digest of every stored change of some kinds, with its time, and of what the faults met."""
    told, watched = hashlib.sha256(), run._watched_containers

    def listened(world: World) -> ContainerTable:
        for place in PLACES:
            world.server.listen(place, _teller(world))
        return watched(world)

    def _teller(world: World) -> Listener:
        def tell(change: StoredChange) -> None:
            what = (world.elapsed, world.server.caller, change.deleted, change.after.obj)
            told.update(msgspec.json.encode(what, order="sorted"))

        return tell

    run._watched_containers = listened
    try:
        result = run.play(story)
    finally:
        run._watched_containers = watched
    met = sorted((*key, count) for key, count in result.coverage.faults.items())
    told.update(msgspec.json.encode((result.ended_at, result.failure, met, sorted(result.coverage.calls.items()))))
    return told.hexdigest()


if __name__ == "__main__":
    sys.stdout.write(digest(STORY))
