"""Contention: a fleet that cannot grow.

Small jobs are packed, gangs are placed whole or wait, an urgent job preempts.
"""

from ullage.sim.demo import manifests as make
from ullage.sim.demo.story import CreateManifest, DeleteManifest, ScaleDeployment, Story, StoryStep
from ullage.sim.world.spec import WorldSpec

_FLEET = make.pool("fleet", make.H100, least=4, most=4)

_URGENT = "urgent"


def _world(seed: int) -> WorldSpec:
    return WorldSpec(
        seed=seed,
        nodes=make.nodes_of(_FLEET, 4),
        objects=(_FLEET, make.priority_class(_URGENT, 1000)),
    )


_STEPS = (
    StoryStep(
        at=0,
        name="beginning",
        caption="Four nodes of eight H100 in two NVLink islands each. The pool is at its maximum: nothing can be "
        "bought.",
    ),
    StoryStep(
        at=45,
        name="small",
        caption="Ten notebooks of one GPU. Spread over the nodes they would leave no island whole; packed they do.",
        steps=(
            CreateManifest(make.claim("notebook", 1, "H100")),
            CreateManifest(make.deployment("notebook", 10, template="notebook")),
        ),
    ),
    StoryStep(
        at=240,
        name="islands",
        caption="Two jobs that need four GPUs in one island each: there are whole islands for both.",
        steps=(
            CreateManifest(make.claim("tune-1", 4, "H100", island=True)),
            CreateManifest(make.pod("tune-1")),
            CreateManifest(make.claim("tune-2", 4, "H100", island=True)),
            CreateManifest(make.pod("tune-2")),
        ),
    ),
    StoryStep(
        at=480,
        name="waiting",
        caption="A gang of two workers with eight GPUs each. Fourteen GPUs are free, but not on two whole nodes: the "
        "gang waits, and holds none of them.",
        steps=(
            CreateManifest(make.claim("pair", 8, "H100", gang="pair", members=2)),
            CreateManifest(make.job("pair", 2, 600, template="pair")),
        ),
    ),
    StoryStep(
        at=720,
        name="between",
        caption="Small work still gets in while the gang waits: two more GPUs, right away.",
        steps=(CreateManifest(make.claim("quick", 2, "H100")), CreateManifest(make.pod("quick"))),
    ),
    StoryStep(
        at=960,
        name="room",
        caption="Most notebooks go home, and both tuning jobs are done. As soon as two nodes are whole, both workers "
        "of the gang are bound, all sixteen GPUs at once.",
        steps=(
            ScaleDeployment("notebook", 2),
            DeleteManifest(make.pod("tune-1")),
            DeleteManifest(make.pod("tune-2")),
            DeleteManifest(make.pod("quick")),
        ),
    ),
    StoryStep(
        at=1500,
        name="urgent",
        caption="A gang of three whole nodes of high priority. Who is of lower priority makes room: as few as "
        "possible, and the other gang whole or not at all.",
        steps=(
            CreateManifest(make.claim("release", 8, "H100", gang="release", members=3)),
            CreateManifest(make.job("release", 3, 400, template="release", priority=_URGENT)),
        ),
    ),
    StoryStep(
        at=2250,
        name="yours",
        caption="That was the story. The cluster goes on: apply a claim of your own with the command in the "
        "terminal, and watch it land. Ctrl-C ends it and leaves nothing behind.",
    ),
)

CROWDING = Story(
    name="crowding",
    summary="a fleet that cannot grow: packing against fragmentation, gangs, preemption",
    world=_world,
    story_steps=_STEPS,
)
