"""Tour: every part of the control plane in about ninety seconds of real time, at thirty times speed."""

from ullage.sim.demo import manifests as make
from ullage.sim.demo.story import (
    BreakGpu,
    CreateManifest,
    DeleteManifest,
    ForbiddenWrite,
    RepairGpus,
    ScaleDeployment,
    Story,
    StoryStep,
)
from ullage.sim.world.spec import WorldSpec

_TRAIN = make.pool("train", make.H100, least=2, most=6)
_SERVE = make.pool("serve", make.L4, least=2, most=8)

_FINE_TUNE = make.pod("fine-tune")
_FORGED = (("gpu.scheduling/allocated", "train-a:0,1,2,3,4,5,6,7"),)


def _world(seed: int) -> WorldSpec:
    return WorldSpec(
        seed=seed,
        nodes=(*make.nodes_of(_TRAIN, 2), *make.nodes_of(_SERVE, 2)),
        objects=(_TRAIN, _SERVE),
        settings=make.VISIBLE_DRAINING,
    )


_STEPS = (
    StoryStep(
        at=0,
        name="beginning",
        caption="Two pools: train has nodes of eight H100 in two NVLink islands of four, serve has nodes of four L4. "
        "Nobody asks for anything yet.",
    ),
    StoryStep(
        at=45,
        name="claims",
        caption="Three people ask for GPUs through claims: one, two, and four that must be in one NVLink island. The "
        "webhook fills in what their pods need, the scheduler leases them exact GPUs, and what is small is packed "
        "together.",
        steps=(
            CreateManifest(make.claim("notebook", 1, "H100")),
            CreateManifest(make.pod("notebook")),
            CreateManifest(make.claim("evaluate", 2, "H100")),
            CreateManifest(make.pod("evaluate")),
            CreateManifest(make.claim("fine-tune", 4, "H100", island=True)),
            CreateManifest(_FINE_TUNE),
        ),
    ),
    StoryStep(
        at=240,
        name="serving",
        caption="A Deployment of six replicas, one L4 each: every replica gets a claim of its own from a template. "
        "Its disruption budget lets three be missing at a time.",
        steps=(
            CreateManifest(make.claim("one-l4", 1, "L4")),
            CreateManifest(make.budget("chat", unavailable=3)),
            CreateManifest(make.deployment("chat", 6, template="one-l4")),
        ),
    ),
    StoryStep(
        at=420,
        name="forgery",
        caption="Somebody writes an allocation on a pod by hand. The webhook does not let it in: only the scheduler "
        "says who has which GPU.",
        steps=(ForbiddenWrite("notebook", _FORGED),),
    ),
    StoryStep(
        at=570,
        name="gang",
        caption="A training job of four workers with eight GPUs each, all or nothing. There are not enough whole "
        "nodes: the gang waits, holds nothing meanwhile, and the provisioner buys what is missing, in one go.",
        steps=(
            CreateManifest(make.claim("pretrain", 8, "H100", gang="pretrain", members=4)),
            CreateManifest(make.job("pretrain", 4, 450, template="pretrain")),
        ),
    ),
    StoryStep(
        at=900,
        name="rush",
        caption="Evening: chat grows, and two more services start. The serve pool grows with them, by as many nodes as "
        "are missing.",
        steps=(
            CreateManifest(make.budget("embed", unavailable=3)),
            ScaleDeployment("chat", 10),
            CreateManifest(make.deployment("embed", 8, template="one-l4")),
            CreateManifest(make.deployment("search", 8, template="one-l4")),
        ),
    ),
    StoryStep(
        at=1260,
        name="over",
        caption="The training job is done and its nodes are empty. They become candidates at once, and go together "
        "when nobody has needed them for four minutes.",
    ),
    StoryStep(
        at=1410,
        name="death",
        caption="A GPU of fine-tune falls off the bus. Its agent says so within seconds, the pod gets an Event, and "
        "nobody is placed on that GPU any more.",
        steps=(BreakGpu("fine-tune"),),
    ),
    StoryStep(
        at=1560,
        name="restart",
        caption="fine-tune is started again. Three of the four GPUs it had are well, but that island is not whole: it "
        "gets four GPUs of another one.",
        steps=(DeleteManifest(_FINE_TUNE), CreateManifest(_FINE_TUNE)),
    ),
    StoryStep(
        at=1740,
        name="ebb",
        caption="Night: search goes, chat shrinks. What is left is scattered over many nodes: those with least on them "
        "become candidates, and four minutes later they are tainted and drained in parallel. Pods move, budgets are "
        "kept, nothing is bought for it.",
        steps=(DeleteManifest(make.deployment("search", 8, template="one-l4")), ScaleDeployment("chat", 5)),
    ),
    StoryStep(
        at=2250,
        name="repair",
        caption="The broken GPU was replaced: its node offers eight again.",
        steps=(RepairGpus(),),
    ),
    StoryStep(
        at=2400,
        name="yours",
        caption="That was the story. The cluster goes on: apply a claim of your own with the command in the "
        "terminal, and watch it land. Ctrl-C ends it and leaves nothing behind.",
    ),
)

TOUR = Story(
    name="tour",
    summary="claims, a gang that waits, nodes bought and drained, a GPU that dies",
    world=_world,
    story_steps=_STEPS,
)
