"""Disruption budgets, leases, namespaces, events and CRDs: the small kinds."""

from msgspec import field

from ullage.kube.objects import KubeStruct
from ullage.kube.objects.meta import Condition, LabelSelector, ObjectMeta


class DisruptionBudgetSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str = ""


class DisruptionBudgetStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disrupted_pods: dict[str, str] = {}
    conditions: tuple[Condition, ...] = ()


class KubePodDisruptionBudget(KubeStruct, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: DisruptionBudgetSpec = field(default_factory=DisruptionBudgetSpec)
    status: DisruptionBudgetStatus = field(default_factory=DisruptionBudgetStatus)


class LeaseSpec(KubeStruct, frozen=True, gc=False, kw_only=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(KubeStruct, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: LeaseSpec = field(default_factory=LeaseSpec)


class NamespaceStatus(KubeStruct, frozen=True, gc=False, kw_only=True):
    phase: str = ""


class KubeNamespace(KubeStruct, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    status: NamespaceStatus = field(default_factory=NamespaceStatus)


class PriorityClass(KubeStruct, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    value: int = 0
    global_default: bool = False
