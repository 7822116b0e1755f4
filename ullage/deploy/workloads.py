"""Deployments, DaemonSets, Services, disruption budgets and network policies of components."""

from ullage.deploy.component import Component, ComponentPort, ComponentSpec
from ullage.deploy.components import (
    COMPONENTS,
    DASHBOARD_HISTORY,
    DASHBOARD_TOKEN,
    NAMESPACE_VARIABLE,
    SCHEDULER_CA,
    SCHEDULER_TOKEN,
    SETTINGS_FILE,
)
from ullage.deploy.labels import labels, metadata, selector
from ullage.deploy.options import InstallOptions
from ullage.kube.client.resource import JsonObject

SETTINGS_NAME = "ullage-settings"
SCHEDULER_CA_MAP = "ullage-scheduler-ca"
"""ConfigMap with the authority of the port that VM agents call; the scheduler writes it."""
DASHBOARD_SECRET = "ullage-dashboard-token"
GPU_NODES = {"nvidia.com/gpu.present": "true"}
"""Label that GPU Feature Discovery puts on nodes with GPUs."""
RESTRICTED: JsonObject = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}
ROOT: JsonObject = {**RESTRICTED, "runAsNonRoot": False, "runAsUser": 0}
"""For what reads files of the host that belong to root. Everything else of `restricted` holds."""


def workload_objects(spec: ComponentSpec, options: InstallOptions) -> list[JsonObject]:
    """Objects that run a component, beside its access."""
    found = [_service(spec, options.namespace), _workload(spec, options)]
    if spec.replicas > 1:
        found.append(_budget(spec, options.namespace))
    if options.network_policies:
        found.append(_network_policy(spec, options.namespace))
    return found


def settings_object(options: InstallOptions) -> JsonObject:
    """ConfigMap with the settings file."""
    meta = metadata(SETTINGS_NAME, "settings", options.namespace)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"settings.yaml": options.settings}}


def arguments(spec: ComponentSpec, options: InstallOptions) -> list[str]:
    """Arguments of the program."""
    given = list(spec.arguments)
    if spec.takes_settings and options.settings:
        given += ["--settings", SETTINGS_FILE]
    if spec.component is Component.SCHEDULER and Component.VM_AGENT in options.components:
        given += ["--vm-agent-account", f"{NAMESPACE_VARIABLE}/{COMPONENTS[Component.VM_AGENT].name}"]
    if _has_history(spec, options):
        given += ["--history-file", DASHBOARD_HISTORY]
    if spec.component is Component.AGENT and options.simulate:
        given += ["--simulate", options.simulate]
    return given


def _workload(spec: ComponentSpec, options: InstallOptions) -> JsonObject:
    body: JsonObject = {
        "selector": {"matchLabels": selector(spec.component)},
        "template": {"metadata": {"labels": labels(spec.component)}, "spec": _pod(spec, options)},
    }
    if spec.per_node:
        body["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}}
    else:
        body["replicas"] = spec.replicas
        # A new replica is ready before an old one goes: reviews are answered and leaders followed at every moment.
        body["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    if _has_history(spec, options):
        body["strategy"] = {"type": "Recreate"}  # its file is written by one pod at a time
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet" if spec.per_node else "Deployment",
        "metadata": metadata(spec.name, spec.component, options.namespace),
        "spec": body,
    }


def _pod(spec: ComponentSpec, options: InstallOptions) -> JsonObject:
    volumes = _volumes(spec, options)
    pod: JsonObject = {
        "serviceAccountName": spec.name,
        "terminationGracePeriodSeconds": spec.grace_seconds,
        "containers": [_container(spec, options)],
    }
    if spec.priority_class:
        pod["priorityClassName"] = spec.priority_class
    if volumes:
        pod["volumes"] = volumes
    if _has_history(spec, options):
        pod["securityContext"] = {"fsGroup": RESTRICTED["runAsUser"]}
    if spec.per_node:
        if spec.component is Component.AGENT and not options.simulate:
            pod["nodeSelector"] = dict(GPU_NODES)
        pod["tolerations"] = [{"operator": "Exists"}]
    elif spec.replicas > 1:
        pod["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": selector(spec.component)},
            }
        ]
    return pod


def _container(spec: ComponentSpec, options: InstallOptions) -> JsonObject:
    container: JsonObject = {
        "name": str(spec.component),
        "image": options.image,
        "imagePullPolicy": "IfNotPresent",
        "args": arguments(spec, options),
        "env": _environment(spec),
        "ports": [{"name": port.name, "containerPort": port.number} for port in spec.ports],
        "readinessProbe": {"httpGet": {"path": spec.ready_path, "port": spec.probe_port}, "periodSeconds": 2},
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": spec.probe_port},
            "initialDelaySeconds": 10,
            "failureThreshold": 6,
        },
        "resources": {
            "requests": {"cpu": spec.cpu, "memory": spec.memory},
            "limits": {"memory": spec.memory_limit},
        },
        "securityContext": ROOT if spec.unrestricted else RESTRICTED,
    }
    mounts = [
        {"name": volume["name"], "mountPath": MOUNTS[volume["name"]], "readOnly": volume["name"] != HISTORY_VOLUME}
        for volume in _volumes(spec, options)
    ]
    if mounts:
        container["volumeMounts"] = mounts
    return container


def _environment(spec: ComponentSpec) -> list[JsonObject]:
    found = [{"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}]
    if spec.per_node:
        found.append({"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}})
    if spec.component is Component.AGENT:
        # The container toolkit gives it the driver's library, and every GPU to read.
        found.append({"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"})
        found.append({"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"})
    return found


HISTORY_VOLUME = "history"
MOUNTS = {
    HISTORY_VOLUME: DASHBOARD_HISTORY.rpartition("/")[0],
    "settings": SETTINGS_FILE.rpartition("/")[0],
    "dashboard-token": DASHBOARD_TOKEN.rpartition("/")[0],
    "pod-resources": "/var/lib/kubelet/pod-resources",
    "host-proc": "/host/proc",
    "scheduler-ca": SCHEDULER_CA,
    "scheduler-token": SCHEDULER_TOKEN,
}
"""Place of each volume in the container. All but the history are read-only."""


def _has_history(spec: ComponentSpec, options: InstallOptions) -> bool:
    return spec.component is Component.DASHBOARD and bool(options.history_claim)


def _volumes(spec: ComponentSpec, options: InstallOptions) -> list[JsonObject]:
    if spec.component is Component.AGENT:
        # The folder may be missing where there is no kubelet that serves it yet: then it is made.
        kubelet = {"path": "/var/lib/kubelet/pod-resources", "type": "DirectoryOrCreate"}
        return [
            {"name": "pod-resources", "hostPath": kubelet},
            {"name": "host-proc", "hostPath": {"path": "/proc", "type": "Directory"}},
        ]
    found: list[JsonObject] = []
    if spec.component is Component.DASHBOARD:
        found.append({"name": "dashboard-token", "secret": {"secretName": DASHBOARD_SECRET}})
    if _has_history(spec, options):
        found.append({"name": HISTORY_VOLUME, "persistentVolumeClaim": {"claimName": options.history_claim}})
    if spec.component is Component.VM_AGENT:
        # The pod starts once the leading scheduler has published its authority.
        found.append({"name": "scheduler-ca", "configMap": {"name": SCHEDULER_CA_MAP}})
        token = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}
        found.append({"name": "scheduler-token", "projected": {"sources": [token]}})
    if spec.takes_settings and options.settings:
        found.append({"name": "settings", "configMap": {"name": SETTINGS_NAME}})
    return found


def _service(spec: ComponentSpec, namespace: str) -> JsonObject:
    """Service of all ports: of the webhook for API servers, of others for whoever collects metrics."""
    body: JsonObject = {
        "selector": selector(spec.component),
        "ports": [_service_port(port) for port in spec.ports],
    }
    if spec.component not in (Component.WEBHOOK, Component.DASHBOARD):
        body["clusterIP"] = "None"
    meta = metadata(spec.name, spec.component, namespace)
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": body}


def _service_port(port: ComponentPort) -> JsonObject:
    return {"name": port.name, "port": 443 if port.name == "https" else port.number, "targetPort": port.name}


def _budget(spec: ComponentSpec, namespace: str) -> JsonObject:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(spec.name, spec.component, namespace),
        "spec": {"minAvailable": 1, "selector": {"matchLabels": selector(spec.component)}},
    }


def _network_policy(spec: ComponentSpec, namespace: str) -> JsonObject:
    """Ingress on the declared ports only. API servers are no pods in most clusters, so no address is named here."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(spec.name, spec.component, namespace),
        "spec": {
            "podSelector": {"matchLabels": selector(spec.component)},
            "policyTypes": ["Ingress"],
            "ingress": [{"ports": [{"port": port.name} for port in spec.ports]}],
        },
    }
