"""Words of the rules: verbs that go together, API groups."""

READ = ("get", "list", "watch")
FOLLOW = ("list", "watch")
GPU = "gpu.scheduling"
LEASES = "coordination.k8s.io"
DRA = "resource.k8s.io"
CLUSTER_API = "cluster.x-k8s.io"
VMS = "vm.neon.tech"
WEBHOOKS = "admissionregistration.k8s.io"
KARPENTER = "karpenter.sh"
