"""Scale-down: load leaves a large pool.

Nodes are removed in parallel, budgets are kept, nodes that stay give a reason.
"""

from ullage.sim.demo import manifests as make
from ullage.sim.demo.story import CreateManifest, DeleteManifest, ScaleDeployment, Story, StoryStep
from ullage.sim.world.spec import WorldSpec

_POOL = make.pool("serve", make.L4, least=2, most=12, unneeded="3m")
_NEVER = make.budget("ledger", unavailable=0)
_SEARCH = make.deployment("search", 20, template="one-l4")


def _world(seed: int) -> WorldSpec:
    return WorldSpec(seed=seed, nodes=make.nodes_of(_POOL, 10), objects=(_POOL,), settings=make.VISIBLE_DRAINING)


_STEPS = (
    StoryStep(
        at=0,
        name="beginning",
        caption="Ten nodes of four L4, all in one pool that is drained when it is not needed.",
    ),
    StoryStep(
        at=20,
        name="load",
        caption="Three services fill them: chat, of which four may be missing at a time, ledger, of which none may, "
        "and search, which nobody has limited.",
        steps=(
            CreateManifest(make.claim("one-l4", 1, "L4")),
            CreateManifest(make.budget("chat", unavailable=4)),
            CreateManifest(_NEVER),
            CreateManifest(make.deployment("chat", 14, template="one-l4")),
            CreateManifest(_SEARCH),
            CreateManifest(make.deployment("ledger", 6, template="one-l4")),
        ),
    ),
    StoryStep(
        at=300,
        name="ebb",
        caption="search is not needed any more. What is left is scattered: nodes with few pods become candidates (a "
        "soft taint). When they have been for three minutes they are tainted and drained, several at a time.",
        steps=(DeleteManifest(_SEARCH),),
    ),
    StoryStep(
        at=900,
        name="stubborn",
        caption="What is left: nodes that are used well, and those of ledger, whose budget allows nothing. Now its "
        "owner takes the budget away, and chat shrinks: pods of both are moved, and more nodes go.",
        steps=(DeleteManifest(_NEVER), ScaleDeployment("chat", 6)),
    ),
    StoryStep(
        at=1500,
        name="flood",
        caption="Morning: chat grows to 30. The pool grows with it, by as many nodes as are missing.",
        steps=(ScaleDeployment("chat", 30),),
    ),
    StoryStep(
        at=1950,
        name="yours",
        caption="That was the story. The cluster goes on: apply a claim of your own with the command in the "
        "terminal, and watch it land. Ctrl-C ends it and leaves nothing behind.",
    ),
)

EBB = Story(
    name="ebb",
    summary="load leaves a large pool: nodes are drained in parallel, budgets are kept",
    world=_world,
    story_steps=_STEPS,
)
