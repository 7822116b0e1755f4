"""The resources we know by name. A new kind is one line here and a struct in `objects`."""

from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.objects.config_map import KubeConfigMap
from ullage.kube.objects.dra import KubeResourceClaim, KubeResourceSlice
from ullage.kube.objects.gpu import CoschedulingPodGroup, GpuClaim, GpuNodeStatus, GpuQuota, KubePodGroup
from ullage.kube.objects.karpenter import KubeEvent, KubeNodeClaim, KubeNodePool
from ullage.kube.objects.meta import PartialObject
from ullage.kube.objects.node import KubeNode
from ullage.kube.objects.pod import KubePod
from ullage.kube.objects.policy import KubeNamespace, KubePodDisruptionBudget, Lease
from ullage.kube.objects.provisioner import NodeProvisioner
from ullage.kube.objects.storage import KubePersistentVolume, KubePersistentVolumeClaim, KubeStorageClass
from ullage.kube.objects.vm import KubeVirtualMachine, KubeVirtualMachineMigration
from ullage.kube.objects.workload import KubeJob, KubeWorkload

PODS = Resource("", "v1", "pods", "Pod", True, KubePod)
NODES = Resource("", "v1", "nodes", "Node", False, KubeNode)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False, KubeNamespace)
CONFIG_MAPS = Resource[JsonObject]("", "v1", "configmaps", "ConfigMap", True, dict)
CONFIG_MAPS_READ = Resource("", "v1", "configmaps", "ConfigMap", True, KubeConfigMap)
"""ConfigMaps, decoded for readers."""
SECRETS = Resource[JsonObject]("", "v1", "secrets", "Secret", True, dict)
SERVICES = Resource[JsonObject]("", "v1", "services", "Service", True, dict)
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", True, PartialObject)
PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", False, KubePersistentVolume)
VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, KubePersistentVolumeClaim)
EVENTS = Resource[JsonObject]("events.k8s.io", "v1", "events", "Event", True, dict)
EVENTS_READ = Resource("events.k8s.io", "v1", "events", "Event", True, KubeEvent)
"""Events, decoded for readers."""

LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", True, Lease)
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, KubePodDisruptionBudget)
PRIORITY_CLASSES = Resource[JsonObject]("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, dict)
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False, KubeStorageClass)

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True, KubeWorkload)
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet", True, KubeWorkload)
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet", True, KubeWorkload)
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet", True, KubeWorkload)
JOBS = Resource("batch", "v1", "jobs", "Job", True, KubeJob)

_DRA_VERSIONS = ("v1", "v1beta2", "v1beta1")
"""Those that servers have, the latest first."""
RESOURCE_CLAIMS = tuple(
    Resource("resource.k8s.io", version, "resourceclaims", "ResourceClaim", True, KubeResourceClaim)
    for version in _DRA_VERSIONS
)
RESOURCE_SLICES = tuple(
    Resource("resource.k8s.io", version, "resourceslices", "ResourceSlice", False, KubeResourceSlice)
    for version in _DRA_VERSIONS
)

CRDS = Resource[JsonObject](
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False, dict
)

MUTATING_WEBHOOKS = Resource[JsonObject](
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    False,
    dict,
)
VALIDATING_WEBHOOKS = Resource[JsonObject](
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    False,
    dict,
)

GPU_CLAIMS = Resource("gpu.scheduling", "v1", "gpuclaims", "GpuClaim", True, GpuClaim)
GPU_NODE_STATUSES = Resource("gpu.scheduling", "v1", "gpunodestatuses", "GpuNodeStatus", False, GpuNodeStatus)
GPU_QUOTAS = Resource("gpu.scheduling", "v1", "gpuquotas", "GpuQuota", True, GpuQuota)
NODE_PROVISIONERS = Resource("gpu.scheduling", "v1", "nodeprovisioners", "NodeProvisioner", False, NodeProvisioner)
NODE_CLAIMS = Resource("karpenter.sh", "v1", "nodeclaims", "NodeClaim", False, KubeNodeClaim)
NODE_POOLS = Resource("karpenter.sh", "v1", "nodepools", "NodePool", False, KubeNodePool)
VIRTUAL_MACHINES = Resource("vm.neon.tech", "v1", "virtualmachines", "VirtualMachine", True, KubeVirtualMachine)
VIRTUAL_MACHINE_MIGRATIONS = Resource(
    "vm.neon.tech", "v1", "virtualmachinemigrations", "VirtualMachineMigration", True, KubeVirtualMachineMigration
)
POD_GROUPS = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", True, CoschedulingPodGroup)
KUBE_POD_GROUPS = tuple(
    Resource("scheduling.k8s.io", version, "podgroups", "PodGroup", True, KubePodGroup)
    for version in ("v1beta1", "v1alpha3", "v1alpha2")
)
"""Kubernetes' own, newest version first: 1.37 serves the first two, 1.36 the last. What we read is the same in all."""
