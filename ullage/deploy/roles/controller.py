"""Permissions of the controller: pools, draining, election. What it buys nodes with is in `purchase`."""

from ullage.deploy.component import Feature, RbacRule, RuleScope
from ullage.deploy.roles.purchase import MACHINES, SIMULATED_NODES, SMART_PODS
from ullage.deploy.roles.shared import EVENT_SERIES, EVENTS, SNAPSHOT
from ullage.deploy.roles.words import FOLLOW, GPU, LEASES, READ, VMS

ELECTION = (
    RbacRule(
        group=LEASES,
        resources=("leases",),
        verbs=("create",),
        scope=RuleScope.NAMESPACE,
        why="The Lease by which one replica leads. A create cannot be limited by name.",
    ),
    RbacRule(
        group=LEASES,
        resources=("leases",),
        verbs=("get", "update"),
        names=("ullage-controller",),
        scope=RuleScope.NAMESPACE,
        why="The Lease by which one replica leads. Without Karpenter, no Lease of a GPU is changed.",
    ),
)

CONTROLLER = (
    *SNAPSHOT,
    RbacRule(group="", resources=("nodes",), verbs=("get",), why="A node is read again before it is given back."),
    RbacRule(
        group="",
        resources=("pods",),
        verbs=("get",),
        why="A pod is read again before it is evicted or its node given back.",
        seldom="an eviction got no answer, or a pod is on its way to a node",
    ),
    RbacRule(group=GPU, resources=("nodeprovisioners",), verbs=FOLLOW, why="The pools there are."),
    RbacRule(
        group=GPU,
        resources=("nodeprovisioners",),
        verbs=("get",),
        why="The latest status is read before it is written again.",
        seldom="a status changed between decision and write",
    ),
    RbacRule(
        group=GPU, resources=("nodeprovisioners/status",), verbs=("patch",), why="Size, conditions, last decision."
    ),
    RbacRule(
        group="apps",
        resources=("replicasets", "statefulsets", "daemonsets"),
        verbs=FOLLOW,
        why="Pods without a controller are not evicted.",
    ),
    RbacRule(group="batch", resources=("jobs",), verbs=FOLLOW, why="Pods without a controller are not evicted."),
    RbacRule(group="", resources=("nodes",), verbs=("update",), why="Taints of nodes that are to go."),
    RbacRule(
        group="",
        resources=("nodes",),
        verbs=("patch",),
        why="Labels of nodes that joined for a pool.",
        seldom="a provider's nodes join without the labels of their pool",
    ),
    RbacRule(group="", resources=("nodes",), verbs=("delete",), why="Nodes whose instance was given back."),
    RbacRule(group="", resources=("pods/eviction",), verbs=("create",), why="Draining, through the Eviction API."),
    RbacRule(
        group=VMS,
        resources=("virtualmachines",),
        verbs=("get", "patch"),
        feature=Feature.VMS,
        why="The time of a VM's last migration is noted; where it runs is read when that is over.",
        seldom="a node with VMs is drained",
    ),
    RbacRule(
        group=VMS,
        resources=("virtualmachinemigrations",),
        verbs=("get", "create", "delete"),
        feature=Feature.VMS,
        why="VMs leave drained nodes by live migration.",
        seldom="a node with VMs is drained",
    ),
    EVENTS,
    EVENT_SERIES,
    *ELECTION,
    RbacRule(
        group=LEASES,
        resources=("leases",),
        verbs=READ,
        scope=RuleScope.NAMESPACE,
        why="Leases of GPUs: a node with an incoming pod stays. They are read again before a node goes.",
    ),
    *SMART_PODS,
    *MACHINES,
    *SIMULATED_NODES,
)
