"""Permissions of the controller that depend on where nodes come from: Karpenter, Cluster API, simulated nodes."""

from ullage.deploy.component import Feature, RbacRule, RuleScope
from ullage.deploy.roles.words import CLUSTER_API, FOLLOW, GPU, KARPENTER, LEASES

SMART_PODS = (
    RbacRule(
        group=KARPENTER,
        resources=("nodeclaims", "nodepools"),
        verbs=FOLLOW,
        feature=Feature.KARPENTER,
        why="Nodes Karpenter buys.",
    ),
    RbacRule(
        group=KARPENTER,
        resources=("nodepools",),
        verbs=("get",),
        feature=Feature.KARPENTER,
        why="Conditions of a NodePool, before one is added.",
        seldom="a NodePool does not protect the hand-over, or begins to",
    ),
    RbacRule(
        group=KARPENTER,
        resources=("nodepools/status",),
        verbs=("patch",),
        feature=Feature.KARPENTER,
        why="Condition HandoverUnprotected of a NodePool without the hand-over taint.",
        seldom="a NodePool does not protect the hand-over, or begins to",
    ),
    RbacRule(
        group="", resources=("pods",), verbs=("create", "patch", "delete"), feature=Feature.KARPENTER, why="Smart pods."
    ),
    RbacRule(
        group="",
        resources=("pods/status",),
        verbs=("update",),
        feature=Feature.KARPENTER,
        why="Condition of a waiting pod that says why Karpenter buys nothing for it.",
        seldom="Karpenter cannot serve a request",
    ),
    RbacRule(
        group="events.k8s.io",
        resources=("events",),
        verbs=FOLLOW,
        feature=Feature.KARPENTER,
        why="Karpenter says by Events why it buys nothing.",
    ),
    RbacRule(
        group="",
        resources=("namespaces",),
        verbs=("create",),
        feature=Feature.KARPENTER,
        why="The namespace of the smart pods.",
    ),
    RbacRule(
        group=LEASES,
        resources=("leases",),
        verbs=("update", "delete"),
        scope=RuleScope.NAMESPACE,
        feature=Feature.KARPENTER,
        why="GPUs of a new node are leased to the pods it was bought for: a Lease that is there is taken up or shared.",
        seldom="two pods share a GPU, or a hand-over failed halfway",
    ),
)
"""Smart pods, and the hand-over of the nodes bought for them."""

MACHINES = (
    RbacRule(
        group=CLUSTER_API,
        resources=("machinedeployments",),
        verbs=("get", "update"),
        feature=Feature.CLUSTER_API,
        why="Replicas of a MachineDeployment are the size of a pool.",
    ),
    RbacRule(
        group=CLUSTER_API,
        resources=("machines",),
        verbs=("get", "list", "patch"),
        feature=Feature.CLUSTER_API,
        why="The machine to delete is marked.",
    ),
)
"""Cluster API."""

SIMULATED_NODES = (
    RbacRule(
        group="",
        resources=("configmaps",),
        verbs=("get", "list", "create", "update"),
        feature=Feature.KWOK,
        why="Purchases of simulated nodes.",
    ),
    RbacRule(
        group="", resources=("namespaces",), verbs=("create",), feature=Feature.KWOK, why="The namespace of these."
    ),
    RbacRule(group="", resources=("nodes",), verbs=("create",), feature=Feature.KWOK, why="Simulated nodes."),
    RbacRule(group="", resources=("nodes/status",), verbs=("patch",), feature=Feature.KWOK, why="Simulated nodes."),
    RbacRule(
        group=GPU,
        resources=("gpunodestatuses",),
        verbs=("create", "patch"),
        feature=Feature.KWOK,
        why="The GPUs of simulated nodes.",
    ),
    RbacRule(
        group=GPU,
        resources=("gpunodestatuses/status",),
        verbs=("patch",),
        feature=Feature.KWOK,
        why="The GPUs of simulated nodes.",
    ),
    RbacRule(
        group=GPU,
        resources=("gpunodestatuses",),
        verbs=("delete",),
        feature=Feature.KWOK,
        why="Simulated nodes that go.",
    ),
)
"""Trying Ullage on a cluster without GPUs."""
