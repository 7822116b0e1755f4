"""Permissions of what runs on every node: the agent, and the VM agent."""

from ullage.deploy.component import RbacRule, RuleScope
from ullage.deploy.roles.words import DRA, FOLLOW, GPU, LEASES, READ, VMS

AGENT = (
    RbacRule(
        group=GPU, resources=("gpunodestatuses",), verbs=("get", "create", "patch"), why="The report on its node."
    ),
    RbacRule(group=GPU, resources=("gpunodestatuses/status",), verbs=("patch",), why="The report on its node."),
    RbacRule(
        group="",
        resources=("nodes",),
        verbs=(*READ, "update"),
        why="Its Node: kind and taint. An admission policy keeps it off other nodes.",
    ),
    RbacRule(group="", resources=("nodes/status",), verbs=("patch",), why="How many GPUs its Node has."),
    RbacRule(
        group="",
        resources=("pods",),
        verbs=FOLLOW,
        why="The pods on its node. RBAC knows no nodes: it could read all.",
    ),
    RbacRule(
        group=DRA,
        resources=("resourceslices",),
        verbs=FOLLOW,
        why="Whether a DRA driver publishes its GPUs.",
        seldom="mode auto, on a node with a kubelet",
    ),
    RbacRule(
        group="events.k8s.io",
        resources=("events",),
        verbs=("create", "patch"),
        why="Events say which GPU is unhealthy.",
        seldom="a GPU fails",
    ),
    RbacRule(
        group=LEASES,
        resources=("leases",),
        verbs=("get",),
        scope=RuleScope.NAMESPACE,
        why="Whether a process on a GPU has a Lease.",
        seldom="a process runs on a GPU",
    ),
)

VM_AGENT = (
    RbacRule(
        group="",
        resources=("pods",),
        verbs=FOLLOW,
        why="The VM pods on its node. RBAC knows no nodes: it could read all.",
    ),
    RbacRule(group=VMS, resources=("virtualmachines",), verbs=(*FOLLOW, "patch"), why="The size of VMs."),
)
