"""Rules that several components have: the snapshot, and Events."""

from ullage.deploy.component import Feature, RbacRule, RuleScope
from ullage.deploy.roles.words import DRA, FOLLOW, GPU, VMS

SNAPSHOT = (
    RbacRule(
        group="", resources=("nodes", "pods", "namespaces"), verbs=FOLLOW, why="The snapshot decisions are made on."
    ),
    RbacRule(
        group="",
        resources=("persistentvolumes", "persistentvolumeclaims"),
        verbs=FOLLOW,
        why="Volumes limit the nodes of a pod.",
    ),
    RbacRule(group="storage.k8s.io", resources=("storageclasses",), verbs=FOLLOW, why="Volumes that wait for a pod."),
    RbacRule(group="policy", resources=("poddisruptionbudgets",), verbs=FOLLOW, why="Pods that may not be evicted."),
    RbacRule(
        group=GPU, resources=("gpuclaims", "gpunodestatuses", "gpuquotas"), verbs=FOLLOW, why="Claims, GPUs, quotas."
    ),
    RbacRule(
        group="scheduling.x-k8s.io",
        resources=("podgroups",),
        verbs=FOLLOW,
        why="Gangs, in the dialect of the scheduler plugins.",
    ),
    RbacRule(
        group="scheduling.k8s.io",
        resources=("podgroups",),
        verbs=FOLLOW,
        why="Gangs, in Kubernetes' own dialect.",
        seldom="the cluster serves Kubernetes' own PodGroup",
    ),
    RbacRule(
        group=VMS,
        resources=("virtualmachines", "virtualmachinemigrations"),
        verbs=FOLLOW,
        feature=Feature.VMS,
        why="VMs and what they may grow to.",
        seldom="the cluster has VMs",
    ),
    RbacRule(
        group=DRA, resources=("resourceclaims", "resourceslices"), verbs=FOLLOW, why="GPUs a DRA driver gives out."
    ),
    RbacRule(
        group="",
        resources=("configmaps",),
        verbs=FOLLOW,
        scope=RuleScope.NAMESPACE,
        feature=Feature.VMS,
        why="Watermarks and compute units of VM nodes (ConfigMap vm-nodes).",
        seldom="the cluster has VMs",
    ),
)
"""Rules of everything that keeps a snapshot."""

EVENTS = RbacRule(
    group="events.k8s.io", resources=("events",), verbs=("create",), why="Events say what was decided and why."
)
EVENT_SERIES = RbacRule(
    group="events.k8s.io",
    resources=("events",),
    verbs=("patch",),
    why="An Event that repeats is counted in the first one.",
    seldom="an Event repeats within its window",
)
