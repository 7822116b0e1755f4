"""Command line and readiness URL of each component, as data; nothing runs here.

Flags a cluster without kubelets needs are explained where they are set.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ullage.testing.controlplane.site import LOOPBACK, ControlPlaneSite
from ullage.testing.controlplane.spec import ControlPlaneSpec
from ullage.testing.controlplane.versions import GoProgram

STAGES = Path(__file__).parent / "stages"
KWOK_NODE_ANNOTATION = ("kwok.x-k8s.io/node", "fake")
"""KWOK plays the kubelet of nodes annotated so; Karpenter's kwok provider annotates the nodes it creates."""
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
CLIENT_RATE = ("--kube-api-qps=1000", "--kube-api-burst=2000")


@dataclass(frozen=True, slots=True)
class Launch:
    """Arguments after the program's name, environment on top of ours, and the address that says ready."""

    arguments: list[str]
    ready_url: str
    environment: dict[str, str] = field(default_factory=dict)


def launch_of(program: GoProgram, site: ControlPlaneSite, spec: ControlPlaneSpec) -> Launch:
    """Command line and readiness URL of this component; extra flags come last. Writes the scheduler's configuration."""
    launch = LAUNCHES[program](site, spec)
    launch.arguments.extend(spec.extra_flags.get(program, ()))
    return launch


def _etcd(site: ControlPlaneSite, spec: ControlPlaneSpec) -> Launch:
    peer = f"http://{LOOPBACK}:{site.ports.etcd_peer}"
    arguments = [
        "--name=default",
        f"--data-dir={site.folder / 'etcd'}",
        f"--listen-client-urls={site.etcd}",
        f"--advertise-client-urls={site.etcd}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--quota-backend-bytes=8589934592",
        "--log-level=warn",
    ]
    if not spec.fsync:
        arguments.append("--unsafe-no-fsync")
    return Launch(arguments, f"{site.etcd}/readyz")


def _apiserver(site: ControlPlaneSite, spec: ControlPlaneSpec) -> Launch:
    unwanted = []
    if not spec.service_accounts:
        # Without kube-controller-manager there is no default service account, which a pod would need.
        unwanted.append("ServiceAccount")
    if not spec.node_lifecycle:
        # It would taint every new node not-ready, and only a node controller takes that taint away.
        unwanted.append("TaintNodesByCondition")
    arguments = [
        f"--etcd-servers={site.etcd}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        f"--secure-port={site.ports.apiserver}",
        f"--tls-cert-file={site.server_certificate}",
        f"--tls-private-key-file={site.server_key}",
        f"--client-ca-file={site.ca}",
        f"--token-auth-file={site.token_file}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={site.service_account_key}",
        f"--service-account-signing-key-file={site.service_account_key}",
        "--service-cluster-ip-range=10.96.0.0/16",
        # No node can reach the API server's own address, so no endpoints are kept for it.
        "--endpoint-reconciler-type=none",
        "--allow-privileged=true",
        "--profiling=false",
    ]
    if spec.audit:
        site.audit_policy.write_text(json.dumps(AUDIT_POLICY))
        arguments += [f"--audit-policy-file={site.audit_policy}", f"--audit-log-path={site.audit_log}"]
    if unwanted:
        arguments.append(f"--disable-admission-plugins={','.join(unwanted)}")
    return Launch(arguments, f"{site.server}/readyz")


def _controller_manager(site: ControlPlaneSite, spec: ControlPlaneSpec) -> Launch:
    controllers = ["*"]
    if not spec.node_lifecycle:
        # Nodes made by a test have no heartbeat: these two would taint and empty them.
        controllers += ["-node-lifecycle-controller", "-taint-eviction-controller"]
    arguments = [
        *_secure_component(site, site.ports.controller_manager),
        f"--kubeconfig={site.admin_kubeconfig}",
        "--leader-elect=false",
        f"--service-account-private-key-file={site.service_account_key}",
        f"--root-ca-file={site.ca}",
        f"--controllers={','.join(controllers)}",
        *CLIENT_RATE,
        "--profiling=false",
    ]
    return Launch(arguments, f"https://{LOOPBACK}:{site.ports.controller_manager}/healthz")


def _scheduler(site: ControlPlaneSite, spec: ControlPlaneSpec) -> Launch:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(site.admin_kubeconfig), "qps": 10_000, "burst": 20_000},
        **spec.scheduler_config,
    }
    path = site.folder / "scheduler.json"
    path.write_text(json.dumps(config))
    arguments = [*_secure_component(site, site.ports.scheduler), f"--config={path}"]
    return Launch(arguments, f"https://{LOOPBACK}:{site.ports.scheduler}/readyz")


def _secure_component(site: ControlPlaneSite, port: int) -> list[str]:
    return [
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={site.server_certificate}",
        f"--tls-private-key-file={site.server_key}",
        f"--authentication-kubeconfig={site.admin_kubeconfig}",
        f"--authorization-kubeconfig={site.admin_kubeconfig}",
    ]


def _kwok(site: ControlPlaneSite, _: ControlPlaneSpec) -> Launch:
    address = f"{LOOPBACK}:{site.ports.kwok}"
    arguments = [
        f"--kubeconfig={site.admin_kubeconfig}",
        f"--server-address={address}",
        f"--manage-nodes-with-annotation-selector={'='.join(KWOK_NODE_ANNOTATION)}",
        "--node-lease-duration-seconds=40",
        *(f"--config={path}" for path in sorted(STAGES.glob("*.yaml"))),
    ]
    # Its own HOME: settings of a kwok the user runs elsewhere are not for us.
    return Launch(arguments, f"http://{address}/healthz", {"HOME": str(site.folder)})


def _karpenter(site: ControlPlaneSite, _: ControlPlaneSpec) -> Launch:
    environment = {
        "KUBECONFIG": str(site.admin_kubeconfig),
        "DISABLE_LEADER_ELECTION": "true",
        "SYSTEM_NAMESPACE": "kube-system",
        "KUBERNETES_MIN_VERSION": "1.26.0-0",
        "HEALTH_PROBE_PORT": str(site.ports.karpenter_health),
        "METRICS_PORT": str(site.ports.karpenter_metrics),
    }
    return Launch([], f"http://{LOOPBACK}:{site.ports.karpenter_health}/readyz", environment)


LAUNCHES: Mapping[GoProgram, Callable[[ControlPlaneSite, ControlPlaneSpec], Launch]] = {
    GoProgram.ETCD: _etcd,
    GoProgram.APISERVER: _apiserver,
    GoProgram.CONTROLLER_MANAGER: _controller_manager,
    GoProgram.SCHEDULER: _scheduler,
    GoProgram.KWOK: _kwok,
    GoProgram.KARPENTER: _karpenter,
}
