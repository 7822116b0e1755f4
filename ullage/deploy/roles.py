"""Permissions of each component: only the verbs it uses, each with its reason.

`tests/deploy` runs the components with tokens of these roles. A missing verb fails there, and an unused one is reported
from the API server's audit log.
"""

from ullage.deploy.component import Feature, RbacRule, RuleScope

_READ = ("get", "list", "watch")
_FOLLOW = ("list", "watch")
_GPU = "gpu.scheduling"
_LEASES = "coordination.k8s.io"
_DRA = "resource.k8s.io"
_CAPI = "cluster.x-k8s.io"

_EVENTS = RbacRule(
    group="events.k8s.io", resources=("events",), verbs=("create",), why="Events say what was decided and why."
)
_EVENT_SERIES = RbacRule(
    group="events.k8s.io",
    resources=("events",),
    verbs=("patch",),
    why="An Event that repeats is counted in the first one.",
    seldom="an Event repeats within its window",
)
_ELECTION = (
    RbacRule(
        group=_LEASES,
        resources=("leases",),
        verbs=("create",),
        scope=RuleScope.NAMESPACE,
        why="The Lease by which one replica leads. A create cannot be limited by name.",
    ),
    RbacRule(
        group=_LEASES,
        resources=("leases",),
        verbs=("get", "update"),
        names=("ullage-controller",),
        scope=RuleScope.NAMESPACE,
        why="The Lease by which one replica leads. Without Karpenter, no Lease of a GPU is changed.",
    ),
)

_VMS = "vm.neon.tech"

_SNAPSHOT = (
    RbacRule(
        group="", resources=("nodes", "pods", "namespaces"), verbs=_FOLLOW, why="The snapshot decisions are made on."
    ),
    RbacRule(
        group="",
        resources=("persistentvolumes", "persistentvolumeclaims"),
        verbs=_FOLLOW,
        why="Volumes limit the nodes of a pod.",
    ),
    RbacRule(group="storage.k8s.io", resources=("storageclasses",), verbs=_FOLLOW, why="Volumes that wait for a pod."),
    RbacRule(group="policy", resources=("poddisruptionbudgets",), verbs=_FOLLOW, why="Pods that may not be evicted."),
    RbacRule(
        group=_GPU, resources=("gpuclaims", "gpunodestatuses", "gpuquotas"), verbs=_FOLLOW, why="Claims, GPUs, quotas."
    ),
    RbacRule(
        group="scheduling.x-k8s.io",
        resources=("podgroups",),
        verbs=_FOLLOW,
        why="Gangs, in the dialect of the scheduler plugins.",
    ),
    RbacRule(
        group="scheduling.k8s.io",
        resources=("podgroups",),
        verbs=_FOLLOW,
        why="Gangs, in Kubernetes' own dialect.",
        seldom="the cluster serves Kubernetes' own PodGroup",
    ),
    RbacRule(
        group=_VMS,
        resources=("virtualmachines", "virtualmachinemigrations"),
        verbs=_FOLLOW,
        feature=Feature.VMS,
        why="VMs and what they may grow to.",
        seldom="the cluster has VMs",
    ),
    RbacRule(
        group=_DRA, resources=("resourceclaims", "resourceslices"), verbs=_FOLLOW, why="GPUs a DRA driver gives out."
    ),
    RbacRule(
        group="",
        resources=("configmaps",),
        verbs=_FOLLOW,
        scope=RuleScope.NAMESPACE,
        feature=Feature.VMS,
        why="Watermarks and compute units of VM nodes (ConfigMap vm-nodes).",
        seldom="the cluster has VMs",
    ),
)
"""Rules of everything that keeps a snapshot."""

_VM_SYSTEM = (
    RbacRule(
        group=_VMS,
        resources=("virtualmachines",),
        verbs=("get", "patch"),
        feature=Feature.VMS,
        why="The size of a VM is read again before its approval shrinks; its last migration is noted.",
        seldom="the cluster has VMs",
    ),
    RbacRule(
        group=_VMS,
        resources=("virtualmachinemigrations",),
        verbs=("get", "create", "delete"),
        feature=Feature.VMS,
        why="VMs leave nodes under pressure.",
        seldom="a node with VMs is under pressure",
    ),
    RbacRule(
        group="authentication.k8s.io",
        resources=("tokenreviews",),
        verbs=("create",),
        feature=Feature.VMS,
        why="VM agents and readers of /state show tokens.",
        seldom="the cluster has VMs",
    ),
    RbacRule(
        group="authorization.k8s.io",
        resources=("subjectaccessreviews",),
        verbs=("create",),
        feature=Feature.VMS,
        why="Who may get /state.",
        seldom="somebody gets /state",
    ),
    RbacRule(
        group="",
        resources=("secrets",),
        verbs=("create",),
        scope=RuleScope.NAMESPACE,
        feature=Feature.VMS,
        why="The certificate that VM agents are shown. A create cannot be limited by name.",
        seldom="the cluster has VMs",
    ),
    RbacRule(
        group="",
        resources=("secrets",),
        verbs=(*_READ, "update"),
        names=("ullage-scheduler-tls",),
        scope=RuleScope.NAMESPACE,
        feature=Feature.VMS,
        why="The certificate is renewed, and shared by replicas.",
        seldom="the cluster has VMs",
    ),
    RbacRule(
        group="",
        resources=("configmaps",),
        verbs=("create", "patch"),
        scope=RuleScope.NAMESPACE,
        feature=Feature.VMS,
        why="The CA that VM agents trust (ConfigMap ullage-scheduler-ca).",
        seldom="the cluster has VMs",
    ),
)

SCHEDULER = (
    *_SNAPSHOT,
    *_VM_SYSTEM,
    RbacRule(
        group="",
        resources=("pods", "nodes"),
        verbs=("get",),
        why="A pod or node is read again before its Lease is freed, and after a bind without an answer.",
        seldom="a write got no answer, or a Lease outlived its pod",
    ),
    RbacRule(
        group=_GPU,
        resources=("gpuclaims", "gpuquotas"),
        verbs=("get",),
        why="The latest status is read before it is written again.",
        seldom="a status changed between decision and write",
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
        resources=("persistentvolumeclaims", "persistentvolumes"),
        verbs=("get", "update", "patch"),
        why="Volumes that wait for their first consumer are given a node.",
        seldom="a pod has a volume that waits for it",
    ),
    RbacRule(
        group=_GPU,
        resources=("gpuclaims",),
        verbs=("patch",),
        why="The finalizer of claims in use.",
    ),
    RbacRule(
        group=_GPU,
        resources=("gpuclaims",),
        verbs=("create",),
        why="Claims made from a template.",
        seldom="a pod names a claim template",
    ),
    RbacRule(
        group=_GPU,
        resources=("gpuclaims/status", "gpuquotas/status"),
        verbs=("patch",),
        why="What claims and quotas hold.",
    ),
    _EVENTS,
    _EVENT_SERIES,
    RbacRule(
        group=_LEASES,
        resources=("leases",),
        verbs=(*_READ, "create", "update", "delete"),
        scope=RuleScope.NAMESPACE,
        why="Leases of GPUs, and the one of the election.",
    ),
    RbacRule(
        group=_LEASES,
        resources=("leases",),
        verbs=("patch",),
        scope=RuleScope.NAMESPACE,
        why="A holder of a shared GPU is taken out of its Lease.",
        seldom="a share outlived its pod",
    ),
    RbacRule(
        group=_DRA,
        resources=("resourceclaims",),
        verbs=("get", "create", "patch", "delete"),
        scope=RuleScope.NAMESPACE,
        why="Leased GPUs are withheld from Kubernetes' own device allocation.",
        seldom="a DRA driver publishes leased GPUs",
    ),
    RbacRule(
        group=_DRA,
        resources=("resourceclaims/status",),
        verbs=("patch",),
        scope=RuleScope.NAMESPACE,
        why="The allocation of such a claim.",
        seldom="a DRA driver publishes leased GPUs",
    ),
    RbacRule(
        group=_DRA,
        resources=("resourceclaims/binding",),
        verbs=("patch",),
        why="Kubernetes 1.36 asks for it, in all namespaces, of whoever writes an allocation.",
        seldom="a DRA driver publishes leased GPUs",
    ),
)

CONTROLLER = (
    *_SNAPSHOT,
    RbacRule(group="", resources=("nodes",), verbs=("get",), why="A node is read again before it is given back."),
    RbacRule(
        group="",
        resources=("pods",),
        verbs=("get",),
        why="A pod is read again before it is evicted or its node given back.",
        seldom="an eviction got no answer, or a pod is on its way to a node",
    ),
    RbacRule(group=_GPU, resources=("nodeprovisioners",), verbs=_FOLLOW, why="The pools there are."),
    RbacRule(
        group=_GPU,
        resources=("nodeprovisioners",),
        verbs=("get",),
        why="The latest status is read before it is written again.",
        seldom="a status changed between decision and write",
    ),
    RbacRule(
        group=_GPU, resources=("nodeprovisioners/status",), verbs=("patch",), why="Size, conditions, last decision."
    ),
    RbacRule(
        group="apps",
        resources=("replicasets", "statefulsets", "daemonsets"),
        verbs=_FOLLOW,
        why="Pods without a controller are not evicted.",
    ),
    RbacRule(group="batch", resources=("jobs",), verbs=_FOLLOW, why="Pods without a controller are not evicted."),
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
        group=_VMS,
        resources=("virtualmachines",),
        verbs=("get", "patch"),
        feature=Feature.VMS,
        why="The time of a VM's last migration is noted; where it runs is read when that is over.",
        seldom="a node with VMs is drained",
    ),
    RbacRule(
        group=_VMS,
        resources=("virtualmachinemigrations",),
        verbs=("get", "create", "delete"),
        feature=Feature.VMS,
        why="VMs leave drained nodes by live migration.",
        seldom="a node with VMs is drained",
    ),
    _EVENTS,
    _EVENT_SERIES,
    *_ELECTION,
    RbacRule(
        group=_LEASES,
        resources=("leases",),
        verbs=_READ,
        scope=RuleScope.NAMESPACE,
        why="Leases of GPUs: a node with an incoming pod stays. They are read again before a node goes.",
    ),
    # Karpenter: smart pods, the hand-over of nodes bought for them.
    RbacRule(
        group="karpenter.sh",
        resources=("nodeclaims", "nodepools"),
        verbs=_FOLLOW,
        feature=Feature.KARPENTER,
        why="Nodes Karpenter buys.",
    ),
    RbacRule(
        group="karpenter.sh",
        resources=("nodepools",),
        verbs=("get",),
        feature=Feature.KARPENTER,
        why="Conditions of a NodePool, before one is added.",
        seldom="a NodePool does not protect the hand-over, or begins to",
    ),
    RbacRule(
        group="karpenter.sh",
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
        verbs=_FOLLOW,
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
        group=_LEASES,
        resources=("leases",),
        verbs=("update", "delete"),
        scope=RuleScope.NAMESPACE,
        feature=Feature.KARPENTER,
        why="GPUs of a new node are leased to the pods it was bought for: a Lease that is there is taken up or shared.",
        seldom="two pods share a GPU, or a hand-over failed halfway",
    ),
    # Cluster API.
    RbacRule(
        group=_CAPI,
        resources=("machinedeployments",),
        verbs=("get", "update"),
        feature=Feature.CLUSTER_API,
        why="Replicas of a MachineDeployment are the size of a pool.",
    ),
    RbacRule(
        group=_CAPI,
        resources=("machines",),
        verbs=("get", "list", "patch"),
        feature=Feature.CLUSTER_API,
        why="The machine to delete is marked.",
    ),
    # Simulated nodes: trying Ullage on a cluster without GPUs.
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
        group=_GPU,
        resources=("gpunodestatuses",),
        verbs=("create", "patch"),
        feature=Feature.KWOK,
        why="The GPUs of simulated nodes.",
    ),
    RbacRule(
        group=_GPU,
        resources=("gpunodestatuses/status",),
        verbs=("patch",),
        feature=Feature.KWOK,
        why="The GPUs of simulated nodes.",
    ),
    RbacRule(
        group=_GPU,
        resources=("gpunodestatuses",),
        verbs=("delete",),
        feature=Feature.KWOK,
        why="Simulated nodes that go.",
    ),
)

_WEBHOOKS = "admissionregistration.k8s.io"

WEBHOOK = (
    RbacRule(group=_GPU, resources=("gpuclaims",), verbs=_FOLLOW, why="The claims pods name."),
    RbacRule(
        group=_GPU,
        resources=("gpuclaims",),
        verbs=("get",),
        why="A claim that the watch has not delivered yet.",
        seldom="a pod comes before its claim is seen",
    ),
    RbacRule(
        group="",
        resources=("pods",),
        verbs=("list",),
        why="Whether a pod holds GPUs by a claim that is about to change.",
        seldom="somebody edits a claim in use",
    ),
    # RBAC knows no fields, and no admission policy is asked about these kinds: whoever has this token can also change
    # the rules of these two.
    RbacRule(
        group=_WEBHOOKS,
        resources=("mutatingwebhookconfigurations",),
        names=("ullage-pods",),
        verbs=(*_READ, "patch"),
        why="API servers are told which authority to trust (caBundle).",
    ),
    RbacRule(
        group=_WEBHOOKS,
        resources=("validatingwebhookconfigurations",),
        names=("ullage-guard",),
        verbs=(*_READ, "patch"),
        why="API servers are told which authority to trust (caBundle).",
    ),
    RbacRule(
        group="",
        resources=("secrets",),
        verbs=("create",),
        scope=RuleScope.NAMESPACE,
        why="The keys its replicas share.",
    ),
    RbacRule(
        group="",
        resources=("secrets",),
        names=("ullage-webhook-tls",),
        verbs=_READ,
        scope=RuleScope.NAMESPACE,
        why="The keys its replicas share.",
    ),
    RbacRule(
        group="",
        resources=("secrets",),
        names=("ullage-webhook-tls",),
        verbs=("update",),
        scope=RuleScope.NAMESPACE,
        why="Keys are renewed.",
        seldom="a certificate is near its end",
    ),
)

AGENT = (
    RbacRule(
        group=_GPU, resources=("gpunodestatuses",), verbs=("get", "create", "patch"), why="The report on its node."
    ),
    RbacRule(group=_GPU, resources=("gpunodestatuses/status",), verbs=("patch",), why="The report on its node."),
    RbacRule(
        group="",
        resources=("nodes",),
        verbs=(*_READ, "update"),
        why="Its Node: kind and taint. An admission policy keeps it off other nodes.",
    ),
    RbacRule(group="", resources=("nodes/status",), verbs=("patch",), why="How many GPUs its Node has."),
    RbacRule(
        group="",
        resources=("pods",),
        verbs=_FOLLOW,
        why="The pods on its node. RBAC knows no nodes: it could read all.",
    ),
    RbacRule(
        group=_DRA,
        resources=("resourceslices",),
        verbs=_FOLLOW,
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
        group=_LEASES,
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
        verbs=_FOLLOW,
        why="The VM pods on its node. RBAC knows no nodes: it could read all.",
    ),
    RbacRule(group=_VMS, resources=("virtualmachines",), verbs=(*_FOLLOW, "patch"), why="The size of VMs."),
)

DASHBOARD = (
    *_SNAPSHOT,
    RbacRule(group=_GPU, resources=("nodeprovisioners",), verbs=_FOLLOW, why="The pools there are."),
    RbacRule(
        group="karpenter.sh",
        resources=("nodeclaims",),
        verbs=("list",),
        why="Whether Karpenter runs, and what it buys.",
    ),
    RbacRule(
        group="karpenter.sh",
        resources=("nodeclaims",),
        verbs=("watch",),
        why="Nodes that Karpenter buys.",
        seldom="Karpenter runs",
    ),
    RbacRule(group="events.k8s.io", resources=("events",), verbs=_FOLLOW, why="Decisions, with their why."),
    RbacRule(
        group=_LEASES,
        resources=("leases",),
        verbs=_FOLLOW,
        scope=RuleScope.NAMESPACE,
        why="Who has which GPU.",
    ),
)
