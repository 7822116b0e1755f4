"""Permissions of the dashboard. It reads only."""

from ullage.deploy.component import RbacRule, RuleScope
from ullage.deploy.roles.shared import SNAPSHOT
from ullage.deploy.roles.words import FOLLOW, GPU, KARPENTER, LEASES

DASHBOARD = (
    *SNAPSHOT,
    RbacRule(group=GPU, resources=("nodeprovisioners",), verbs=FOLLOW, why="The pools there are."),
    RbacRule(
        group=KARPENTER,
        resources=("nodeclaims",),
        verbs=("list",),
        why="Whether Karpenter runs, and what it buys.",
    ),
    RbacRule(
        group=KARPENTER,
        resources=("nodeclaims",),
        verbs=("watch",),
        why="Nodes that Karpenter buys.",
        seldom="Karpenter runs",
    ),
    RbacRule(
        group="karpenter.sh",
        resources=("nodepools",),
        verbs=FOLLOW,
        why="NodePools whose nodes are open to rivals before their hand-over.",
        seldom="Karpenter runs",
    ),
    RbacRule(group="events.k8s.io", resources=("events",), verbs=FOLLOW, why="Decisions, with their why."),
    RbacRule(
        group=LEASES,
        resources=("leases",),
        verbs=FOLLOW,
        scope=RuleScope.NAMESPACE,
        why="Who has which GPU.",
    ),
)
