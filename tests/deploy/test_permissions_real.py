"""Who may say who holds a GPU: the scheduler alone, in its own namespace."""

import pytest
import yaml

from tests.deploy.cluster import NAMESPACE, CommandFailed, kubectl, ullage
from ullage.testing.builders import a_lease
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec
from ullage.testing.controlplane.fixtures import StartControlPlane

pytestmark = pytest.mark.real

STRICT = ("apply", "--server-side", "-f", "-")
TEAM = "team-a"
EDITOR = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "alice", "namespace": TEAM},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
    "subjects": [{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}],
}
COMPONENTS = ("scheduler", "controller", "webhook", "agent", "vm-agent", "dashboard")
MAY_WRITE = {"scheduler", "controller"}
"""The controller writes the Lease of its own election, in the same namespace."""


@pytest.fixture
def plane(start_control_plane: StartControlPlane) -> ControlPlane:
    plane = start_control_plane(ControlPlaneSpec())
    everything = [part for name in COMPONENTS for part in ("--only", name)]
    kubectl(plane, *STRICT, stdin=ullage(plane, "install", *everything, "--feature", "vms"))
    kubectl(plane, "create", "namespace", TEAM)
    kubectl(plane, *STRICT, stdin=yaml.safe_dump(EDITOR))
    return plane


def lease(namespace: str) -> str:
    """A Lease that says that a pod of alice's holds a GPU."""
    body = a_lease("gpu-1-0", "alice/p")
    meta = {**body["metadata"], "namespace": namespace, "labels": {"gpu.scheduling/managed": "true"}}
    return yaml.safe_dump({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **body, "metadata": meta})


def test_who_may_write_leases(plane: ControlPlane) -> None:
    """An editor of another namespace cannot forge a holder, the scheduler cannot write outside of its own, and only it
    can change a Lease that is there."""
    alice = plane.kubeconfig_for("alice")
    with pytest.raises(CommandFailed, match=r"leases.*forbidden"):
        kubectl(plane, "create", "-f", "-", stdin=lease(NAMESPACE), kubeconfig=alice)
    for name in COMPONENTS:
        access = plane.kubeconfig_of_account(f"ullage-{name}", NAMESPACE)
        with pytest.raises(CommandFailed, match=r"leases.*forbidden"):
            kubectl(plane, "create", "-f", "-", stdin=lease(TEAM), kubeconfig=access)
        if name not in MAY_WRITE:
            with pytest.raises(CommandFailed, match=r"leases.*forbidden"):
                kubectl(plane, "create", "-f", "-", stdin=lease(NAMESPACE), kubeconfig=access)
    assert "created" in kubectl(plane, "create", "-f", "-", stdin=lease(NAMESPACE))
    forged = lease(NAMESPACE).replace("alice/p", "mallory/p")
    for name in COMPONENTS:
        if name == "scheduler":
            continue
        access = plane.kubeconfig_of_account(f"ullage-{name}", NAMESPACE)
        with pytest.raises(CommandFailed, match=r"leases.*forbidden"):
            kubectl(plane, "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=forged, kubeconfig=access)
        with pytest.raises(CommandFailed, match=r"leases.*forbidden"):
            kubectl(plane, "replace", "-f", "-", stdin=forged, kubeconfig=access)
    with pytest.raises(CommandFailed, match=r"leases.*forbidden"):
        kubectl(plane, "replace", "-f", "-", stdin=forged, kubeconfig=alice)
    kubectl(plane, "delete", "-f", "-", stdin=forged)
    scheduler = plane.kubeconfig_of_account("ullage-scheduler", NAMESPACE)
    assert "created" in kubectl(plane, "create", "-f", "-", stdin=lease(NAMESPACE), kubeconfig=scheduler)


def test_no_account_reads_secrets_of_others(plane: ControlPlane) -> None:
    for name in COMPONENTS:
        access = plane.kubeconfig_of_account(f"ullage-{name}", NAMESPACE)
        with pytest.raises(CommandFailed, match=r"secrets.*forbidden"):
            kubectl(plane, "get", "secrets", "--all-namespaces", kubeconfig=access)
