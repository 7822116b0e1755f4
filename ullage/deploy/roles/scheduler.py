"""Permissions of the scheduler. Nobody else changes Leases of GPUs, but for the hand-over of Karpenter's nodes."""

from ullage.deploy.component import RbacRule, RuleScope
from ullage.deploy.roles.shared import EVENT_SERIES, EVENTS, SNAPSHOT
from ullage.deploy.roles.vm_system import VM_SYSTEM
from ullage.deploy.roles.words import DRA, GPU, LEASES, READ

SCHEDULER = (
    *SNAPSHOT,
    *VM_SYSTEM,
    RbacRule(
        group="",
        resources=("pods", "nodes"),
        verbs=("get",),
        why="A pod or node is read again before its Lease is freed, and after a bind without an answer.",
        seldom="a write got no answer, or a Lease outlived its pod",
    ),
    RbacRule(
        group=GPU,
        resources=("gpuclaims", "gpuquotas"),
        verbs=("get",),
        why="The latest status is read before it is written; templates of claims are read.",
    ),
    RbacRule(group="", resources=("pods/binding",), verbs=("create",), why="Binding pods."),
    RbacRule(
        group="",
        resources=("pods/eviction",),
        verbs=("create",),
        why="Preemption, through the Eviction API: disruption budgets hold.",
        seldom="a pod of higher priority needs the room",
    ),
    RbacRule(
        group="",
        resources=("pods/status",),
        verbs=("update",),
        why="The condition that says why a pod waits.",
    ),
    RbacRule(
        group="",
        resources=("pods/status",),
        verbs=("patch",),
        why="A bind without an answer is fenced off here.",
        seldom="a bind got no answer",
    ),
    RbacRule(
        group="",
        resources=("persistentvolumeclaims",),
        verbs=("get", "update"),
        why="Volumes that wait for their first consumer are given a node.",
        seldom="a pod has a volume that waits for it",
    ),
    RbacRule(
        group="",
        resources=("persistentvolumes",),
        verbs=("get", "patch"),
        why="A volume that is there is reserved for the claim of a pod.",
        seldom="a pod has a volume that waits for it",
    ),
    RbacRule(
        group=GPU,
        resources=("gpuclaims",),
        verbs=("patch",),
        why="The finalizer of claims in use.",
    ),
    RbacRule(
        group=GPU,
        resources=("gpuclaims",),
        verbs=("create",),
        why="Claims made from a template.",
        seldom="a pod names a claim template",
    ),
    RbacRule(
        group=GPU,
        resources=("gpuclaims/status", "gpuquotas/status"),
        verbs=("patch",),
        why="What claims and quotas hold.",
    ),
    EVENTS,
    EVENT_SERIES,
    RbacRule(
        group=LEASES,
        resources=("leases",),
        verbs=(*READ, "create", "update", "delete"),
        scope=RuleScope.NAMESPACE,
        why="Leases of GPUs, and the one of the election.",
    ),
    RbacRule(
        group=LEASES,
        resources=("leases",),
        verbs=("patch",),
        scope=RuleScope.NAMESPACE,
        why="A holder of a shared GPU is taken out of its Lease.",
        seldom="a share outlived its pod",
    ),
    RbacRule(
        group=DRA,
        resources=("resourceclaims",),
        verbs=("get", "create", "patch", "delete"),
        scope=RuleScope.NAMESPACE,
        why="Leased GPUs are withheld from Kubernetes' own device allocation.",
        seldom="a DRA driver publishes leased GPUs",
    ),
    RbacRule(
        group=DRA,
        resources=("resourceclaims/status",),
        verbs=("patch",),
        scope=RuleScope.NAMESPACE,
        why="The allocation of such a claim.",
        seldom="a DRA driver publishes leased GPUs",
    ),
    RbacRule(
        group=DRA,
        resources=("resourceclaims/binding",),
        verbs=("patch",),
        why="Kubernetes 1.36 asks for it, in all namespaces, of whoever writes an allocation.",
        seldom="a DRA driver publishes leased GPUs",
    ),
)
