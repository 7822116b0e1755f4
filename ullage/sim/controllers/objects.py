"""Fields that only the stand-ins for kubelet and controllers read, on top of what `ullage.kube.objects` reads.

Reading only; no behaviour.
"""

from typing import Any

from msgspec import field

from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.objects import KubeStruct
from ullage.kube.objects.meta import ObjectMeta
from ullage.kube.objects.node import KubeNode, NodeStatus
from ullage.kube.objects.pod import ContainerStatus, KubePod, PodSpec, PodStatus
from ullage.kube.objects.workload import JobSpec, JobStatus, KubeJob, KubeWorkload, WorkloadSpec, WorkloadStatus


class ActorContainerStatus(ContainerStatus, frozen=True, gc=False, kw_only=True):
    ready: bool = False
    restart_count: int = 0
    state: JsonObject = field(default_factory=dict)


class ActorPodSpec(PodSpec, frozen=True, gc=False, kw_only=True):
    active_deadline_seconds: int | None = None


class ActorPodStatus(PodStatus, frozen=True, gc=False, kw_only=True):
    container_statuses: tuple[ActorContainerStatus, ...] = ()
    init_container_statuses: tuple[ActorContainerStatus, ...] = ()
    pod_ip: str = field(default="", name="podIP")


class ActorPod(KubePod, frozen=True, gc=False, kw_only=True):
    spec: ActorPodSpec = field(default_factory=ActorPodSpec)
    status: ActorPodStatus = field(default_factory=ActorPodStatus)


class NodeAddress(KubeStruct, frozen=True, gc=False, kw_only=True):
    type: str = ""
    address: str = ""


class ActorNodeStatus(NodeStatus, frozen=True, gc=False, kw_only=True):
    addresses: tuple[NodeAddress, ...] = ()


class ActorNode(KubeNode, frozen=True, gc=False, kw_only=True):
    status: ActorNodeStatus = field(default_factory=ActorNodeStatus)


class DeploymentSpec(WorkloadSpec, frozen=True, gc=False, kw_only=True):
    revision_history_limit: int = 10
    progress_deadline_seconds: int = 600


class ProgressCondition(KubeStruct, frozen=True, gc=False, kw_only=True):
    """A Deployment's condition: beside the change of status it keeps the last sign of progress."""

    type: str = ""
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_update_time: str | None = None
    last_transition_time: str | None = None


class DeploymentStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    updated_replicas: int = 0
    collision_count: int = 0
    observed_generation: int = 0
    conditions: tuple[ProgressCondition, ...] = ()


class Deployment(KubeStruct, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: DeploymentSpec = field(default_factory=DeploymentSpec)
    status: DeploymentStatus = field(default_factory=DeploymentStatus)


class Ordinals(KubeStruct, frozen=True, gc=False, kw_only=True):
    start: int = 0


class StatefulSetSpec(WorkloadSpec, frozen=True, gc=False, kw_only=True):
    revision_history_limit: int = 10
    ordinals: Ordinals = field(default_factory=Ordinals)
    volume_claim_templates: tuple[JsonObject, ...] = ()


class StatefulSetStatus(WorkloadStatus, frozen=True, gc=False, kw_only=True):
    collision_count: int = 0


class StatefulSet(KubeWorkload, frozen=True, gc=False, kw_only=True):
    spec: StatefulSetSpec = field(default_factory=StatefulSetSpec)
    status: StatefulSetStatus = field(default_factory=StatefulSetStatus)


class ControllerRevision(KubeStruct, frozen=True, gc=False, kw_only=True):
    """A template as it once was; `revision` orders them."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    data: JsonObject = field(default_factory=dict)
    revision: int = 0


class DaemonSetStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    number_ready: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    observed_generation: int = 0


class DaemonSet(KubeStruct, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: WorkloadSpec = field(default_factory=WorkloadSpec)
    status: DaemonSetStatus = field(default_factory=DaemonSetStatus)


class UncountedPods(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Pods that have ended and still carry the Job's finalizer: seen, not yet in the sums."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class ActorJobSpec(JobSpec, frozen=True, gc=False, kw_only=True):
    pod_replacement_policy: str = "TerminatingOrFailed"
    managed_by: str = ""


class ActorJobStatus(JobStatus, frozen=True, gc=False, kw_only=True):
    completed_indexes: str = ""
    uncounted_terminated_pods: UncountedPods = field(default_factory=UncountedPods)


class ActorJob(KubeJob, frozen=True, gc=False, kw_only=True):
    spec: ActorJobSpec = field(default_factory=ActorJobSpec)
    status: ActorJobStatus = field(default_factory=ActorJobStatus)


class NamespaceSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    finalizers: tuple[str, ...] = ()


class ActorNamespace(KubeStruct, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: NamespaceSpec = field(default_factory=NamespaceSpec)


PODS = Resource("", "v1", "pods", "Pod", True, ActorPod)
NODES = Resource("", "v1", "nodes", "Node", False, ActorNode)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False, ActorNamespace)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True, Deployment)
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet", True, StatefulSet)
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet", True, DaemonSet)
REVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision", True, ControllerRevision)
JOBS = Resource("batch", "v1", "jobs", "Job", True, ActorJob)

AnyResource = Resource[Any]
