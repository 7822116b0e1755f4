"""Catalogue of components: arguments, ports, probes, size, pod security. Permissions are in `roles`."""

from collections.abc import Mapping

from ullage.deploy import roles
from ullage.deploy.component import (
    DASHBOARD_PORT,
    PERMITS_PORT,
    PROBES_PORT,
    STATE_PORT,
    WEBHOOK_PORT,
    Component,
    ComponentPort,
    ComponentSpec,
    Feature,
)

NAMESPACE_VARIABLE = "$(NAMESPACE)"
"""Place of the installation's namespace in arguments. Kubernetes fills it in from the pod's own namespace."""
DASHBOARD_TOKEN = "/etc/ullage/dashboard/token"
DASHBOARD_HISTORY = "/var/lib/ullage/history/history.jsonl"
SCHEDULER_CA = "/etc/ullage/scheduler-ca"
SCHEDULER_TOKEN = "/var/run/secrets/ullage/scheduler"
SETTINGS_FILE = "/etc/ullage/settings/settings.yaml"

_PROBES = ComponentPort("probes", PROBES_PORT)
_LISTEN = ("--listen", f"0.0.0.0:{PROBES_PORT}")
_HERE = ("--namespace", NAMESPACE_VARIABLE)

_SPECS = (
    ComponentSpec(
        component=Component.SCHEDULER,
        summary="Places pods on exact GPUs.",
        arguments=("scheduler", *_HERE, *_LISTEN),
        ports=(_PROBES, ComponentPort("permits", PERMITS_PORT), ComponentPort("state", STATE_PORT)),
        rules=roles.SCHEDULER,
        cpu="500m",
        memory="256Mi",
        memory_limit="2Gi",
        takes_settings=True,
    ),
    ComponentSpec(
        component=Component.CONTROLLER,
        summary="Buys, drains and gives back GPU nodes.",
        arguments=("controller", *_HERE, *_LISTEN),
        ports=(_PROBES,),
        rules=roles.CONTROLLER,
        cpu="200m",
        memory="256Mi",
        memory_limit="2Gi",
        takes_settings=True,
    ),
    ComponentSpec(
        component=Component.WEBHOOK,
        summary="Shows pods exactly their GPUs, and guards what the scheduler says.",
        arguments=(
            "webhook",
            *_HERE,
            "--address",
            f"0.0.0.0:{WEBHOOK_PORT}",
            *_LISTEN,
            "--identity",
            f"system:serviceaccount:{NAMESPACE_VARIABLE}:ullage-scheduler",
            "--controller-identity",
            f"system:serviceaccount:{NAMESPACE_VARIABLE}:ullage-controller",
        ),
        ports=(ComponentPort("https", WEBHOOK_PORT), _PROBES),
        rules=roles.WEBHOOK,
        cpu="50m",
        memory="96Mi",
        memory_limit="384Mi",
    ),
    ComponentSpec(
        component=Component.AGENT,
        summary="Reports the GPUs of its node.",
        arguments=("agent", *_HERE, "--proc", "/host/proc", *_LISTEN),
        ports=(_PROBES,),
        rules=roles.AGENT,
        replicas=0,
        cpu="20m",
        memory="64Mi",
        memory_limit="256Mi",
        priority_class="system-node-critical",
        unrestricted="It reads the kubelet's PodResources socket and the host's /proc by hostPath; both are root's.",
    ),
    ComponentSpec(
        component=Component.VM_AGENT,
        summary="Resizes the VMs of its node by their load.",
        arguments=(
            "vm-agent",
            "--scheduler",
            f"https://ullage-scheduler.{NAMESPACE_VARIABLE}.svc:{PERMITS_PORT}",
            "--scheduler-ca",
            f"{SCHEDULER_CA}/ca.crt",
            "--token-file",
            f"{SCHEDULER_TOKEN}/token",
            *_LISTEN,
        ),
        ports=(_PROBES,),
        rules=roles.VM_AGENT,
        replicas=0,
        cpu="20m",
        memory="64Mi",
        memory_limit="256Mi",
        priority_class="system-node-critical",
        takes_settings=True,
        by_default=False,
        needs=Feature.VMS,
    ),
    ComponentSpec(
        component=Component.DASHBOARD,
        summary="The cluster live in a browser. Reads only.",
        arguments=("dashboard", *_HERE, "--listen", f"0.0.0.0:{DASHBOARD_PORT}", "--token-file", DASHBOARD_TOKEN),
        ports=(ComponentPort("http", DASHBOARD_PORT),),
        rules=roles.DASHBOARD,
        replicas=1,
        probe_port="http",
        ready_path="/healthz",
        memory_limit="1Gi",
        priority_class="",
        takes_settings=True,
        by_default=False,
    ),
)

COMPONENTS: Mapping[Component, ComponentSpec] = {spec.component: spec for spec in _SPECS}
"""Every component, in the order of installation."""
