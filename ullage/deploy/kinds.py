"""Kinds of installed objects, in the order of applying. Uninstalling finds objects of each by label."""

from collections.abc import Mapping

from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import (
    BUDGETS,
    CONFIG_MAPS,
    CRDS,
    DAEMON_SETS,
    DEPLOYMENTS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PRIORITY_CLASSES,
    SERVICE_ACCOUNTS,
    SERVICES,
    VALIDATING_WEBHOOKS,
)

_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"


def _kind(group: str, plural: str, kind: str, *, namespaced: bool, version: str = "v1") -> Resource[JsonObject]:
    return Resource[JsonObject](group, version, plural, kind, namespaced, dict)


CLUSTER_ROLES = _kind(_RBAC, "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = _kind(_RBAC, "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
ROLES = _kind(_RBAC, "roles", "Role", namespaced=True)
ROLE_BINDINGS = _kind(_RBAC, "rolebindings", "RoleBinding", namespaced=True)
NETWORK_POLICIES = _kind("networking.k8s.io", "networkpolicies", "NetworkPolicy", namespaced=True)
ADMISSION_POLICIES = _kind(_ADMISSION, "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False)
ADMISSION_BINDINGS = _kind(
    _ADMISSION, "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", namespaced=False
)
SERVICE_MONITORS = _kind("monitoring.coreos.com", "servicemonitors", "ServiceMonitor", namespaced=True)
PROMETHEUS_RULES = _kind("monitoring.coreos.com", "prometheusrules", "PrometheusRule", namespaced=True)

ADMISSION: tuple[Resource[JsonObject], ...] = (
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    ADMISSION_BINDINGS,
    ADMISSION_POLICIES,
)
"""Kinds that stand between users and the API server: deleted before anything else."""
WORKLOADS = (DEPLOYMENTS.whole(), DAEMON_SETS.whole())
ACCESS: tuple[Resource[JsonObject], ...] = (
    ROLE_BINDINGS,
    CLUSTER_ROLE_BINDINGS,
    ROLES,
    CLUSTER_ROLES,
    SERVICE_ACCOUNTS.whole(),
)
REST: tuple[Resource[JsonObject], ...] = (
    BUDGETS.whole(),
    NETWORK_POLICIES,
    SERVICES,
    CONFIG_MAPS,
    SERVICE_MONITORS,
    PROMETHEUS_RULES,
    PRIORITY_CLASSES,
)

KINDS: Mapping[str, Resource[JsonObject]] = {
    one.kind: one for one in (CRDS, NAMESPACES.whole(), *ADMISSION, *WORKLOADS, *ACCESS, *REST)
}
"""Resources by kind."""


def resource_of(body: JsonObject) -> Resource[JsonObject]:
    """Resource of a manifest."""
    return KINDS[str(body["kind"])]
