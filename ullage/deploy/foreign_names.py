"""Names of other projects that Ullage reads or writes on objects; docs/generated/names.md lists them beside ours.

Kubernetes' own (`kubernetes.io/...`) are left out: they mean there what they mean everywhere. A test finds the keys of
these projects in the source and misses none here.
"""

from ullage.deploy.object_name import NameKind, ObjectName

_A, _L, _T = NameKind.ANNOTATION, NameKind.LABEL, NameKind.TAINT
_CA, _CAPI = "cluster-autoscaler.kubernetes.io/", "cluster.x-k8s.io/"
_NEON, _TF, _K = "autoscaling.neon.tech/", "tensor-fusion.ai/", "karpenter.sh/"

FOREIGN_NAMES = (
    ObjectName(
        f"{_CA}safe-to-evict", _A, "Pod", "you", "true: is evicted. false: stays. on-completion: is waited for."
    ),
    ObjectName(f"{_CA}safe-to-evict-local-volumes", _A, "Pod", "you", "Local volumes that may be lost, by name."),
    ObjectName(f"{_CA}daemonset-pod", _A, "Pod", "you", "true: counts as a DaemonSet's pod, and holds no node."),
    ObjectName(f"{_CA}scale-down-disabled", _A, "Node", "you", "true: the node stays."),
    ObjectName(f"{_K}do-not-disrupt", _A, "Pod, Node", "you, controller", "true: the pod stays; a hand-over is safe."),
    ObjectName(f"{_K}nodepool", _L, "Node, smart Pod", "Karpenter, controller", "NodePool of the node."),
    ObjectName(f"{_K}initialized", _L, "Node", "Karpenter", "true: the node is complete."),
    ObjectName(f"{_K}disrupted", _T, "Node", "Karpenter", "Karpenter takes the node away."),
    ObjectName(f"{_CAPI}deployment-name", _L, "Machine", "Cluster API", "MachineDeployment of the machine."),
    ObjectName(f"{_CAPI}delete-machine", _A, "Machine", "controller", "This machine goes first."),
    ObjectName(
        f"{_CAPI}cluster-api-autoscaler-node-group-max-size",
        _A,
        "MachineDeployment",
        "you",
        "Cluster Autoscaler scales it: Ullage does not.",
    ),
    ObjectName("vm.neon.tech/name", _L, "Pod of a VM", "the VM controller", "Its VirtualMachine."),
    ObjectName(f"{_NEON}enabled", _L, "VirtualMachine", "you", "true: it grows and shrinks by its load."),
    ObjectName(f"{_NEON}auto-migration-enabled", _L, "VirtualMachine", "you", "true: it may be moved."),
    ObjectName(f"{_NEON}created-by-scheduler", _L, "VirtualMachineMigration", "scheduler", "A migration of ours."),
    ObjectName("nvidia.com/gpu.present", _L, "Node", "GPU Feature Discovery", "true: the agent runs there."),
    ObjectName("nvidia.com/gpu", _T, "Node", "you", "Tolerated by pods with a claim: the webhook sees to it."),
    ObjectName("kwok.x-k8s.io/node", _A, "Node", "controller", "A simulated node, which KWOK plays."),
    ObjectName(f"{_TF}component", _L, "smart Pod", "controller", "smart-scheduler: it is no demand of its own."),
    ObjectName(f"{_TF}gpu-model", _L, "smart Pod", "controller", "Model that is asked for."),
    ObjectName(f"{_TF}pool", _L, "smart Pod", "controller", "Mapping of a NodePool that it is made by."),
    ObjectName(f"{_TF}trigger-type", _L, "smart Pod", "controller", "gpu-scaling."),
    ObjectName(f"{_TF}state", _L, "smart Pod", "controller", "State of the request (docs/karpenter.md)."),
    ObjectName(f"{_TF}created-by", _A, "smart Pod", "controller", "Who made it."),
    ObjectName(f"{_TF}purpose", _A, "smart Pod", "controller", "What it is for."),
    ObjectName(f"{_TF}original-request", _A, "smart Pod", "controller", "Pods that wait for its node."),
    ObjectName(f"{_TF}cleanup-after", _A, "smart Pod", "controller", "When it is deleted: node-ready."),
    ObjectName(f"{_TF}state-since", _A, "smart Pod", "controller", "Since when it is in its state."),
    ObjectName(f"{_TF}attempts", _A, "smart Pod", "controller", "How often the request was tried."),
    ObjectName(f"{_TF}node-claim", _A, "smart Pod", "controller", "NodeClaim that Karpenter made for it."),
)
