"""Ebb: load leaves a large pool. Nodes go in parallel, budgets are kept, and whoever must stay says why."""

from ullage.sim.demo import manifests as make
from ullage.sim.demo.story import Create, Moment, Remove, Scale, Story
from ullage.sim.world.spec import WorldSpec

_POOL = make.pool("serve", make.L4, least=2, most=14, unneeded="3m")
_STUBBORN = make.budget("ledger", unavailable=0)


def _world(seed: int) -> WorldSpec:
    return WorldSpec(seed=seed, nodes=make.nodes_of(_POOL, 12), objects=(_POOL,))


_MOMENTS = (
    Moment(
        at=0,
        name="beginning",
        caption="Twelve nodes of four L4, all in one pool that is drained when it is not needed.",
    ),
    Moment(
        at=20,
        name="load",
        caption="Two services fill them: chat with 36 replicas, of which five may be missing at a time, and ledger "
        "with 4, of which none may.",
        steps=(
            Create(make.claim("one", 1, "L4")),
            Create(make.budget("chat", unavailable=5)),
            Create(make.deployment("chat", 36, template="one")),
            Create(_STUBBORN),
            Create(make.deployment("ledger", 4, template="one")),
        ),
    ),
    Moment(
        at=300,
        name="ebb",
        caption="Half of chat is not needed any more. What is left is scattered: nodes with few pods become candidates "
        "(soft taint). When they have been for three minutes they are tainted and drained, several at a time.",
        steps=(Scale("chat", 16),),
    ),
    Moment(
        at=1050,
        name="stubborn",
        caption="What is left: nodes that are used well, and those of ledger, whose budget allows nothing. Now its "
        "owner takes the budget away, and its pods are moved together, too.",
        steps=(Remove(_STUBBORN), Scale("chat", 8)),
    ),
    Moment(
        at=1800,
        name="flood",
        caption="Morning: chat is back at 36. Nodes that are about to go are kept first, then others are bought.",
        steps=(Scale("chat", 36),),
    ),
    Moment(
        at=2250,
        name="yours",
        caption="That was the story. The cluster goes on: apply a claim of your own with the command above, and watch "
        "it land. Ctrl-C ends it and leaves nothing behind.",
    ),
)

EBB = Story(
    name="ebb",
    summary="load leaves a large pool: nodes are drained in parallel, budgets are kept",
    world=_world,
    moments=_MOMENTS,
)
