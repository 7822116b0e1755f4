"""The resources we know by name. A new kind is one line here and a struct in `objects`."""

from ullage.kube.objects.dra import ResourceClaim, ResourceSlice
from ullage.kube.objects.gpu import GpuClaim, GpuNodeStatus, GpuQuota, KubePodGroup, PodGroup
from ullage.kube.objects.meta import PartialObject
from ullage.kube.objects.node import Node
from ullage.kube.objects.pod import Pod
from ullage.kube.objects.policy import DisruptionBudget, Lease, Namespace
from ullage.kube.objects.provisioner import NodeProvisioner
from ullage.kube.objects.storage import StorageClass, Volume, VolumeClaim
from ullage.kube.objects.workload import Job, Workload
from ullage.kube.resource import JsonObject, Resource

PODS = Resource("", "v1", "pods", "Pod", True, Pod)
NODES = Resource("", "v1", "nodes", "Node", False, Node)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False, Namespace)
CONFIG_MAPS = Resource[JsonObject]("", "v1", "configmaps", "ConfigMap", True, dict)
SECRETS = Resource[JsonObject]("", "v1", "secrets", "Secret", True, dict)
SERVICES = Resource[JsonObject]("", "v1", "services", "Service", True, dict)
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", True, PartialObject)
PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", False, Volume)
VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, VolumeClaim)
EVENTS = Resource[JsonObject]("events.k8s.io", "v1", "events", "Event", True, dict)

LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", True, Lease)
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, DisruptionBudget)
PRIORITY_CLASSES = Resource[JsonObject]("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, dict)
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False, StorageClass)

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True, Workload)
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet", True, Workload)
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet", True, Workload)
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet", True, Workload)
JOBS = Resource("batch", "v1", "jobs", "Job", True, Job)

_DRA_VERSIONS = ("v1", "v1beta2", "v1beta1")
"""Those that servers have, the latest first."""
RESOURCE_CLAIMS = tuple(
    Resource("resource.k8s.io", version, "resourceclaims", "ResourceClaim", True, ResourceClaim)
    for version in _DRA_VERSIONS
)
RESOURCE_SLICES = tuple(
    Resource("resource.k8s.io", version, "resourceslices", "ResourceSlice", False, ResourceSlice)
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
POD_GROUPS = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", True, PodGroup)
KUBE_POD_GROUPS = Resource("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", True, KubePodGroup)
