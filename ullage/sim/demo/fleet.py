"""Fleet: two hundred nodes of four models. Services, shares, gangs, a purchase of many nodes, and a quiet night."""

from ullage.sim.demo import manifests as make
from ullage.sim.demo.story import BreakGpu, CreateManifest, RepairGpus, ScaleDeployment, Story, StoryStep
from ullage.sim.world.spec import WorldSpec

_H100 = make.pool("h100", make.H100, least=80, most=100)
_A100 = make.pool("a100", make.A100, least=50, most=60)
_L40S = make.pool("l40s", make.L40S, least=20, most=30)
_L4 = make.pool("l4", make.L4, least=15, most=60)
_SIZES = ((_H100, 80), (_A100, 50), (_L40S, 20), (_L4, 50))

_EVALUATIONS = ("eval-1", "eval-2", "eval-3")


def _world(seed: int) -> WorldSpec:
    return WorldSpec(
        seed=seed,
        nodes=tuple(node for pool, count in _SIZES for node in make.nodes_of(pool, count)),
        objects=tuple(pool for pool, _ in _SIZES),
        settings=make.VISIBLE_DRAINING,
    )


def _gang(name: str, model: str, members: int, seconds: int) -> tuple[CreateManifest, CreateManifest]:
    """A gang whose members have whole nodes."""
    return (
        CreateManifest(make.claim(name, 8, model, gang=name, members=members)),
        CreateManifest(make.job(name, members, seconds, template=name)),
    )


def _evaluation(name: str) -> tuple[CreateManifest, CreateManifest]:
    return CreateManifest(make.claim(name, 2, "A100")), CreateManifest(make.pod(name))


_STEPS = (
    StoryStep(
        at=0,
        name="beginning",
        caption="Two hundred nodes, 1,400 GPUs, four pools: H100 and A100 for training, L40S and L4 for serving. Each "
        "sign of the map is a node: the higher, the fuller.",
    ),
    StoryStep(
        at=30,
        name="services",
        caption="Three services start: chat with 190 replicas of one L4, embed with 120 quarters of an L40S that share "
        "GPUs, and 40 notebooks of one A100. Each is packed, so that whole nodes stay free.",
        steps=(
            CreateManifest(make.claim("one-l4", 1, "L4")),
            CreateManifest(make.shared_claim("quarter", "12Gi", "L40S")),
            CreateManifest(make.claim("notebook", 1, "A100")),
            CreateManifest(make.budget("chat", unavailable=20)),
            CreateManifest(make.deployment("chat", 190, template="one-l4")),
            CreateManifest(make.deployment("embed", 120, template="quarter")),
            CreateManifest(make.deployment("notebook", 40, template="notebook")),
        ),
    ),
    StoryStep(
        at=300,
        name="gangs",
        caption="Three training jobs, all or nothing: 48 nodes of H100, and twice 16 of A100. Each comes in one go.",
        steps=(
            *_gang("pretrain", "H100", 48, 1500),
            *_gang("tune-a", "A100", 16, 900),
            *_gang("tune-b", "A100", 16, 1200),
            *(step for name in _EVALUATIONS for step in _evaluation(name)),
        ),
    ),
    StoryStep(
        at=600,
        name="large",
        caption="One more gang, of 44 nodes of H100. 32 are free: it waits, holds nothing, and the twelve that are "
        "missing are bought at once.",
        steps=_gang("second", "H100", 44, 700),
    ),
    StoryStep(
        at=1020,
        name="deaths",
        caption="Three GPUs die at the same moment, one under each of three evaluations. Their owners are told; "
        "everybody else works on.",
        steps=tuple(BreakGpu(name) for name in _EVALUATIONS),
    ),
    StoryStep(
        at=1200,
        name="night",
        caption="Night: chat keeps 40 replicas, scattered over all L4 nodes. Those with least on them become "
        "candidates, and four minutes later many are drained at once, as fast as the budget allows.",
        steps=(ScaleDeployment("chat", 40),),
    ),
    StoryStep(
        at=1800,
        name="empty",
        caption="The training jobs are over, one by one. What was bought for them, and what nobody needs, goes back.",
        steps=(RepairGpus(),),
    ),
    StoryStep(
        at=2400,
        name="yours",
        caption="That was the story. The cluster goes on: apply a claim of your own with the command in the "
        "terminal, break something, and watch. Ctrl-C ends it and leaves nothing behind.",
    ),
)

FLEET = Story(
    name="fleet",
    summary="two hundred nodes of four models: services, shares, large gangs, a night",
    world=_world,
    story_steps=_STEPS,
)
