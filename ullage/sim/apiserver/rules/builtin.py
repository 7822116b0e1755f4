"""The kinds a server serves before anybody defines more."""

from ullage.sim.apiserver.kinds import Kind, Rules, ScalePaths
from ullage.sim.apiserver.rules import small
from ullage.sim.apiserver.rules.definitions import DefinitionRules
from ullage.sim.apiserver.rules.events import EventRules, event_inward, event_outward
from ullage.sim.apiserver.rules.jobs import JobRules
from ullage.sim.apiserver.rules.nodes import NodeRules
from ullage.sim.apiserver.rules.pods import PodRules
from ullage.sim.apiserver.rules.workloads import (
    DaemonSetRules,
    DeploymentRules,
    ReplicaSetRules,
    StatefulSetRules,
)

_SCALE = ScalePaths()
_RBAC = "rbac.authorization.k8s.io"
_HOOKS = "admissionregistration.k8s.io"
_DEVICES = "resource.k8s.io"


def _core(plural: str, kind: str, rules: Rules, short: str = "", *, namespaced: bool = True, subs: str = "") -> Kind:
    return _kind("", plural, kind, rules, short, namespaced=namespaced, subs=subs)


def _kind(
    group: str, plural: str, kind: str, rules: Rules, short: str = "", *, namespaced: bool = True, subs: str = ""
) -> Kind:
    parts = tuple(subs.split())
    return Kind(
        group,
        "v1",
        plural,
        kind,
        namespaced,
        rules,
        subresources=parts,
        short_names=tuple(short.split()),
        categories=("all",) if plural in _SHOWN_BY_ALL else (),
        singular=kind.lower(),
        scale=_SCALE if "scale" in parts else None,
    )


_SHOWN_BY_ALL = ("pods", "services", "deployments", "replicasets", "statefulsets", "daemonsets", "jobs")


def builtin_kinds() -> list[Kind]:
    """One instance per server: rules are shared, they have no state."""
    return [
        _core("pods", "Pod", PodRules(), "po", subs="binding eviction status"),
        _core("nodes", "Node", NodeRules(), "no", namespaced=False, subs="status"),
        _core("namespaces", "Namespace", small.NamespaceRules(), "ns", namespaced=False, subs="finalize status"),
        _core("configmaps", "ConfigMap", small.ConfigRules(), "cm"),
        _core("secrets", "Secret", small.SecretRules()),
        _core("services", "Service", small.ServiceRules(), "svc", subs="status"),
        _core("endpoints", "Endpoints", small.PlainRules(), "ep"),
        _core("serviceaccounts", "ServiceAccount", small.ServiceAccountRules(), "sa"),
        _core("persistentvolumes", "PersistentVolume", small.VolumeRules(claims=False), "pv", namespaced=False, subs="status"),
        _core("persistentvolumeclaims", "PersistentVolumeClaim", small.VolumeRules(claims=True), "pvc", subs="status"),
        _core("resourcequotas", "ResourceQuota", small.PlainRules(), "quota", subs="status"),
        _core("limitranges", "LimitRange", small.PlainRules(), "limits"),
        _core("events", "Event", EventRules(), "ev"),
        Kind(
            "events.k8s.io", "v1", "events", "Event", True, EventRules(strict=True), short_names=("ev",), singular="event",
            shelf="events", stored_version="v1", inward=event_inward, outward=event_outward,
        ),
        _kind("apps", "deployments", "Deployment", DeploymentRules(), "deploy", subs="scale status"),
        _kind("apps", "replicasets", "ReplicaSet", ReplicaSetRules(), "rs", subs="scale status"),
        _kind("apps", "statefulsets", "StatefulSet", StatefulSetRules(), "sts", subs="scale status"),
        _kind("apps", "daemonsets", "DaemonSet", DaemonSetRules(), "ds", subs="status"),
        _kind("apps", "controllerrevisions", "ControllerRevision", small.PlainRules()),
        _kind("batch", "jobs", "Job", JobRules(), subs="status"),
        _kind("coordination.k8s.io", "leases", "Lease", small.LeaseRules()),
        _kind("policy", "poddisruptionbudgets", "PodDisruptionBudget", small.BudgetRules(), "pdb", subs="status"),
        *_cluster_kinds(),
    ]  # fmt: skip


def _cluster_kinds() -> list[Kind]:
    plain, counted, devices = small.PlainRules(), small.GenerationRules(), small.OpaqueDeviceRules()
    return [
        _kind("scheduling.k8s.io", "priorityclasses", "PriorityClass", small.PriorityClassRules(), "pc", namespaced=False),
        _kind("storage.k8s.io", "storageclasses", "StorageClass", small.StorageClassRules(), "sc", namespaced=False),
        _kind("storage.k8s.io", "csinodes", "CSINode", plain, namespaced=False),
        _kind(_RBAC, "roles", "Role", plain),
        _kind(_RBAC, "rolebindings", "RoleBinding", plain),
        _kind(_RBAC, "clusterroles", "ClusterRole", plain, namespaced=False),
        _kind(_RBAC, "clusterrolebindings", "ClusterRoleBinding", plain, namespaced=False),
        _kind(_HOOKS, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", counted, namespaced=False),
        _kind(_HOOKS, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", counted, namespaced=False),
        _kind(_DEVICES, "resourceclaims", "ResourceClaim", devices, subs="status"),
        _kind(_DEVICES, "resourceclaimtemplates", "ResourceClaimTemplate", devices),
        _kind(_DEVICES, "resourceslices", "ResourceSlice", devices, namespaced=False),
        _kind(_DEVICES, "deviceclasses", "DeviceClass", devices, namespaced=False),
        _kind(
            "apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", DefinitionRules(), "crd crds",
            namespaced=False, subs="status",
        ),
    ]  # fmt: skip
