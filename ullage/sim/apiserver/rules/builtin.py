"""Kinds a server serves without any CustomResourceDefinition."""

from dataclasses import replace

from ullage.sim.apiserver.kinds.kind import KindRules, ScalePaths, ServedKind
from ullage.sim.apiserver.rules import config, plumbing, small
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


def _kind(names: str, rules: KindRules, *, namespaced: bool = True, parts: str = "") -> ServedKind:
    """`names` is the resource's id, its kind, and its short names."""
    id_, kind, *short = names.split()
    plural, _, group = id_.partition(".")
    return ServedKind(
        group,
        "v1",
        plural,
        kind,
        namespaced,
        rules,
        subresources=tuple(parts.split()),
        short_names=tuple(short),
        categories=_CATEGORIES.get(plural, ()),
        singular=kind.lower(),
        scale=_SCALE if "scale" in parts else None,
        verbs=tuple(verb for verb in _VERBS if (plural, verb) != ("namespaces", "deletecollection")),
    )


_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_ALL, _EXTENSIONS = ("all",), ("api-extensions",)
_CATEGORIES = {
    **dict.fromkeys(("pods", "services", "deployments", "replicasets", "statefulsets", "daemonsets", "jobs"), _ALL),
    "mutatingwebhookconfigurations": _EXTENSIONS,
    "validatingwebhookconfigurations": _EXTENSIONS,
    "customresourcedefinitions": _EXTENSIONS,
}


def builtin_kinds() -> list[ServedKind]:
    """One instance per server: rules are shared, they have no state."""
    return [
        _kind("pods Pod po", PodRules(), parts="attach binding eviction exec log portforward status"),
        _kind("nodes Node no", NodeRules(), namespaced=False, parts="status"),
        _kind("namespaces Namespace ns", small.NamespaceRules(), namespaced=False, parts="finalize status"),
        _kind("configmaps ConfigMap cm", config.ConfigRules()),
        _kind("secrets Secret", config.SecretRules()),
        _kind("services Service svc", plumbing.ServiceRules(), parts="status"),
        _kind("endpoints Endpoints ep", small.PlainRules()),
        _kind("serviceaccounts ServiceAccount sa", plumbing.ServiceAccountRules()),
        _kind(
            "persistentvolumes PersistentVolume pv",
            plumbing.VolumeRules(),
            namespaced=False,
            parts="status",
        ),
        _kind("persistentvolumeclaims PersistentVolumeClaim pvc", plumbing.ClaimRules(), parts="status"),
        _kind("resourcequotas ResourceQuota quota", small.PlainRules(), parts="status"),
        _kind("limitranges LimitRange limits", small.PlainRules()),
        _kind("events Event ev", EventRules()),
        replace(
            _kind("events.events.k8s.io Event ev", EventRules(strict=True)),
            shelf="events",
            stored_version="v1",
            inward=event_inward,
            outward=event_outward,
        ),
        _kind("deployments.apps Deployment deploy", DeploymentRules(), parts="scale status"),
        _kind("replicasets.apps ReplicaSet rs", ReplicaSetRules(), parts="scale status"),
        _kind("statefulsets.apps StatefulSet sts", StatefulSetRules(), parts="scale status"),
        _kind("daemonsets.apps DaemonSet ds", DaemonSetRules(), parts="status"),
        _kind("controllerrevisions.apps ControllerRevision", small.PlainRules()),
        _kind("jobs.batch Job", JobRules(), parts="status"),
        _kind("leases.coordination.k8s.io Lease", small.LeaseRules()),
        _kind("poddisruptionbudgets.policy PodDisruptionBudget pdb", small.BudgetRules(), parts="status"),
        *_cluster_kinds(),
        *_questions(),
    ]


def _questions() -> list[ServedKind]:
    """Kinds that are answered when they are posted, and not kept."""
    access, who = "authorization.k8s.io", "authentication.k8s.io"
    asked = [
        _kind(f"localsubjectaccessreviews.{access} LocalSubjectAccessReview", small.PlainRules()),
        _kind(f"selfsubjectaccessreviews.{access} SelfSubjectAccessReview", small.PlainRules(), namespaced=False),
        _kind(f"selfsubjectrulesreviews.{access} SelfSubjectRulesReview", small.PlainRules(), namespaced=False),
        _kind(f"subjectaccessreviews.{access} SubjectAccessReview", small.PlainRules(), namespaced=False),
        _kind(f"selfsubjectreviews.{who} SelfSubjectReview", small.PlainRules(), namespaced=False),
    ]
    return [replace(kind, verbs=("create",)) for kind in asked]


def _cluster_kinds() -> list[ServedKind]:
    plain, counted, devices = small.PlainRules(), small.GenerationRules(), small.OpaqueDeviceRules()
    return [
        _kind("priorityclasses.scheduling.k8s.io PriorityClass pc", small.PriorityClassRules(), namespaced=False),
        _kind("storageclasses.storage.k8s.io StorageClass sc", plumbing.StorageClassRules(), namespaced=False),
        _kind("csinodes.storage.k8s.io CSINode", plain, namespaced=False),
        _kind("roles.rbac.authorization.k8s.io Role", plain),
        _kind("rolebindings.rbac.authorization.k8s.io RoleBinding", plain),
        _kind("clusterroles.rbac.authorization.k8s.io ClusterRole", plain, namespaced=False),
        _kind("clusterrolebindings.rbac.authorization.k8s.io ClusterRoleBinding", plain, namespaced=False),
        _kind(
            "mutatingwebhookconfigurations.admissionregistration.k8s.io MutatingWebhookConfiguration",
            counted,
            namespaced=False,
        ),
        _kind(
            "validatingwebhookconfigurations.admissionregistration.k8s.io ValidatingWebhookConfiguration",
            counted,
            namespaced=False,
        ),
        _kind("resourceclaims.resource.k8s.io ResourceClaim", devices, parts="status"),
        _kind("resourceclaimtemplates.resource.k8s.io ResourceClaimTemplate", devices),
        _kind("resourceslices.resource.k8s.io ResourceSlice", small.SliceRules(), namespaced=False),
        _kind("deviceclasses.resource.k8s.io DeviceClass", devices, namespaced=False),
        _kind(
            "customresourcedefinitions.apiextensions.k8s.io CustomResourceDefinition crd crds",
            DefinitionRules(),
            namespaced=False,
            parts="status",
        ),
    ]
