"""Workload controllers: Deployments, ReplicaSets, StatefulSets, Jobs, DaemonSets."""

from msgspec import field

from ullage.kube.client.resource import JsonObject
from ullage.kube.objects import KubeStruct
from ullage.kube.objects.meta import Condition, LabelSelector, ObjectMeta


class WorkloadSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    """Spec of a ReplicaSet, Deployment, StatefulSet or DaemonSet: replicas and template. Templates stay plain JSON."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: JsonObject = {}
    strategy: JsonObject = {}
    update_strategy: JsonObject = {}
    pod_management_policy: str = ""
    service_name: str = ""
    min_ready_seconds: int = 0
    paused: bool = False


class WorkloadStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    updated_replicas: int = 0
    fully_labeled_replicas: int = 0
    current_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class KubeWorkload(KubeStruct, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: WorkloadSpec = field(default_factory=WorkloadSpec)
    status: WorkloadStatus = field(default_factory=WorkloadStatus)


class JobSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    parallelism: int | None = None
    completions: int | None = None
    backoff_limit: int = 6
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    completion_mode: str = "NonIndexed"
    suspend: bool = False
    selector: LabelSelector | None = None
    template: JsonObject = {}


class JobStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    start_time: str | None = None
    completion_time: str | None = None
    conditions: tuple[Condition, ...] = ()


class KubeJob(KubeStruct, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: JobSpec = field(default_factory=JobSpec)
    status: JobStatus = field(default_factory=JobStatus)
