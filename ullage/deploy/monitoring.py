"""Monitoring: ServiceMonitors, alert rules and a Grafana dashboard, for clusters with the Prometheus operator.

Alerts and panels are data. A test checks that every metric they name exists, with the labels they use.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ullage.deploy.components import COMPONENTS
from ullage.deploy.labels import NAME_LABEL, PART, metadata, selector
from ullage.deploy.options import InstallOptions
from ullage.kube.client.resource import JsonObject


@dataclass(frozen=True, slots=True)
class AlertRule:
    """One alert: when, how bad, and the first thing to look at."""

    name: str
    expression: str
    minutes: int
    severity: str
    summary: str
    look: str


@dataclass(frozen=True, slots=True)
class GraphPanel:
    """One graph of the dashboard."""

    title: str
    unit: str
    queries: Sequence[tuple[str, str]]
    """PromQL and the legend of its lines."""


ALERTS = (
    AlertRule(
        "UllageNothingIsPlaced",
        'increase(ullage_scheduler_attempts_total{result="placed"}[15m]) == 0 '
        'and on() sum(ullage_scheduler_queue_pods{place="active"}) > 0',
        15,
        "critical",
        "Pods wait in the active queue and none was placed for 15 minutes.",
        "Logs of the leading scheduler; `ullage check`; `ullage explain pod/NAMESPACE/NAME` of one of the pods.",
    ),
    AlertRule(
        "UllageSlowBinds",
        "histogram_quantile(0.99, sum by (le) (rate(ullage_scheduler_bind_seconds_bucket[10m]))) > 5",
        15,
        "warning",
        "One bind in a hundred takes longer than 5 seconds.",
        "Latency of the API server and etcd; the webhook's ullage_admission_review_seconds.",
    ),
    AlertRule(
        "UllageErrors",
        'sum(rate(ullage_scheduler_attempts_total{result="error"}[10m])) > 0.1',
        10,
        "warning",
        "Attempts to place pods end with errors.",
        "Logs of the leading scheduler: `placement failed` says what the API server answered.",
    ),
    AlertRule(
        "UllageGpusUnhealthy",
        'sum by (model) (ullage_gpus{state="unhealthy"}) > 0',
        10,
        "warning",
        "GPUs are unhealthy and get no pods.",
        "`kubectl get gpunodestatuses`; Xids of the node in ullage_agent_xids_total.",
    ),
    AlertRule(
        "UllageReportsStale",
        'sum(ullage_gpus{state="stale"}) > 0',
        10,
        "warning",
        "Agents have not reported GPUs for too long; those GPUs get no pods.",
        "`kubectl get pods -l app.kubernetes.io/component=agent -o wide`; logs of the agent on the node.",
    ),
    AlertRule(
        "UllageClockSkew",
        "max(abs(ullage_clock_skew_seconds)) > 30",
        10,
        "warning",
        "A node's clock differs from the scheduler's by more than 30 seconds.",
        "NTP on the node the scheduler's log names.",
    ),
    AlertRule(
        "UllageStrayProcesses",
        "sum(ullage_agent_stray_processes) > 0",
        15,
        "warning",
        "Processes use GPUs that were not given to their pod.",
        "`kubectl get gpunodestatuses -o yaml`; pods with privileged containers on the node.",
    ),
    AlertRule(
        "UllagePoolBackedOff",
        "max by (provisioner) (ullage_pool_backed_off) == 1",
        30,
        "warning",
        "A pool has bought nothing for 30 minutes because of a failure.",
        "`kubectl describe nodeprovisioner NAME`: condition CapacityBlocked.",
    ),
    AlertRule(
        "UllagePodsNoPoolServes",
        "sum(ullage_pool_unmet_pods) > 0",
        30,
        "warning",
        "Pods wait and no pool can buy a node for them.",
        "`ullage explain pod/NAMESPACE/NAME` of one of the pods.",
    ),
    AlertRule(
        "UllageDrainsFail",
        "sum by (reason) (increase(ullage_failed_scale_downs_total[1h])) > 3",
        5,
        "warning",
        "Removals of nodes were given up several times within an hour.",
        "docs/draining.md for the reason; `ullage plan drain`.",
    ),
    AlertRule(
        "UllageVmPressure",
        'max(ullage_vm_nodes{state="unrelieved"}) > 0',
        15,
        "warning",
        "VMs of a node want more than it has for 15 minutes, and none of them can be migrated for it.",
        "Events VmPressure name the nodes; `GET /state`; `ullage explain vm/NAMESPACE/NAME`; docs/vms.md.",
    ),
    AlertRule(
        "UllageVmConfigRefused",
        "max(ullage_vm_config_refused) == 1",
        5,
        "warning",
        "The node configuration of VMs is wrong; an older one is in force.",
        "`kubectl -n ullage-system get events`: VmConfigRefused names the field.",
    ),
    AlertRule(
        "UllageWebhookCertificateEnds",
        "min(ullage_admission_certificate_expiry_seconds) - time() < 86400",
        10,
        "critical",
        "The webhook's certificate ends within a day and was not renewed.",
        "Logs of the webhook; its right to update Secret ullage-webhook-tls.",
    ),
    AlertRule(
        "UllageWebhookRefuses",
        'sum(rate(ullage_admission_reviews_total{outcome!~"Patched|AsItIs"}[10m])) > 1',
        15,
        "info",
        "More than one write in a second is refused by the webhook.",
        "Logs of the webhook: each refusal names its reason.",
    ),
)

PANELS = (
    GraphPanel("GPUs by state", "short", (("sum by (state) (ullage_gpus)", "{{state}}"),)),
    GraphPanel("Pods in the queue", "short", (("sum by (place) (ullage_scheduler_queue_pods)", "{{place}}"),)),
    GraphPanel(
        "Pods placed and refused",
        "ops",
        (("sum by (result) (rate(ullage_scheduler_attempts_total[5m]))", "{{result}}"),),
    ),
    GraphPanel(
        "Why pods are refused",
        "ops",
        (('topk(8, sum by (reason) (rate(ullage_scheduler_attempts_total{result="refused"}[5m])))', "{{reason}}"),),
    ),
    GraphPanel(
        "Wait of placed pods",
        "s",
        (
            ("histogram_quantile(0.5, sum by (le) (rate(ullage_scheduler_queue_wait_seconds_bucket[5m])))", "p50"),
            ("histogram_quantile(0.99, sum by (le) (rate(ullage_scheduler_queue_wait_seconds_bucket[5m])))", "p99"),
        ),
    ),
    GraphPanel(
        "Time to decide and to bind",
        "s",
        (
            (
                "histogram_quantile(0.99, sum by (le) (rate(ullage_scheduler_decision_seconds_bucket[5m])))",
                "decide p99",
            ),
            ("histogram_quantile(0.99, sum by (le) (rate(ullage_scheduler_bind_seconds_bucket[5m])))", "bind p99"),
        ),
    ),
    GraphPanel("Gangs that wait", "short", (("sum(ullage_scheduler_gangs_waiting)", "gangs"),)),
    GraphPanel("Leases of GPUs", "short", (("sum(ullage_gpu_leases)", "leases"),)),
    GraphPanel(
        "Nodes of pools", "short", (("sum by (provisioner, state) (ullage_pool_nodes)", "{{provisioner}} {{state}}"),)
    ),
    GraphPanel("GPUs requested in pools", "percent", (("ullage_pool_gpu_utilisation_percent", "{{provisioner}}"),)),
    GraphPanel(
        "Nodes removed", "short", (("sum by (reason) (increase(ullage_scaled_down_nodes_total[1h]))", "{{reason}}"),)
    ),
    GraphPanel("Nodes that stay, by reason", "short", (("sum by (reason) (ullage_unremovable_nodes)", "{{reason}}"),)),
    GraphPanel(
        "Webhook reviews", "ops", (("sum by (outcome) (rate(ullage_admission_reviews_total[5m]))", "{{outcome}}"),)
    ),
    GraphPanel(
        "GPU utilisation on nodes",
        "percent",
        (("avg by (instance) (ullage_agent_gpu_utilisation_percent)", "{{instance}}"),),
    ),
)

_OPERATOR = "monitoring.coreos.com/v1"


def monitoring_objects(options: InstallOptions) -> list[JsonObject]:
    """ServiceMonitors of the chosen components, the alert rules, and the dashboard as a ConfigMap."""
    watched = [COMPONENTS[one] for one in COMPONENTS if one in options.components]
    monitors: list[JsonObject] = [
        {
            "apiVersion": _OPERATOR,
            "kind": "ServiceMonitor",
            "metadata": metadata(spec.name, spec.component, options.namespace),
            "spec": {
                "selector": {"matchLabels": selector(spec.component)},
                "endpoints": [{"port": "probes", "path": "/metrics", "interval": "30s"}],
            },
        }
        for spec in watched
        if any(port.name == "probes" for port in spec.ports)
    ]
    return [*monitors, alert_object(options.namespace), dashboard_object(options.namespace)]


def alert_object(namespace: str) -> JsonObject:
    """PrometheusRule with all alerts."""
    rules = [
        {
            "alert": one.name,
            "expr": one.expression,
            "for": f"{one.minutes}m",
            "labels": {"severity": one.severity},
            "annotations": {"summary": one.summary, "look": one.look},
        }
        for one in ALERTS
    ]
    meta = metadata("ullage", "monitoring", namespace)
    body = {"groups": [{"name": PART, "rules": rules}]}
    return {"apiVersion": _OPERATOR, "kind": "PrometheusRule", "metadata": meta, "spec": body}


def dashboard_object(namespace: str) -> JsonObject:
    """ConfigMap with the dashboard, as Grafana's sidecar finds it."""
    meta = metadata("ullage-grafana", "monitoring", namespace)
    meta["labels"]["grafana_dashboard"] = "1"
    text = json.dumps(grafana_dashboard(), indent=1, sort_keys=True)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"ullage.json": text}}


def grafana_dashboard() -> JsonObject:
    """The dashboard, two graphs in a row."""
    return {
        "uid": PART,
        "title": "Ullage",
        "tags": [NAME_LABEL, PART],
        "schemaVersion": 39,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]},
        "panels": [_panel(place, panel) for place, panel in enumerate(PANELS)],
    }


def monitoring_page() -> str:
    """Every query of the dashboard and of the alerts, as Markdown."""
    lines = ["# Graphs and alerts", "", "Generated by `make format`; do not edit.", "", "## Graphs", ""]
    lines += ["| graph | unit | query |", "|---|---|---|"]
    lines += [f"| {one.title} | {one.unit} | {_queries(one)} |" for one in PANELS]
    lines += ["", "## Alerts", "", "| alert | severity | for | query |", "|---|---|---|---|"]
    lines += [f"| `{one.name}` | {one.severity} | {one.minutes}m | `{_cell(one.expression)}` |" for one in ALERTS]
    return "\n".join(lines) + "\n"


def _queries(panel: GraphPanel) -> str:
    return "<br>".join(f"`{_cell(query)}`" for query, _ in panel.queries)


def _cell(query: str) -> str:
    return query.replace("|", "\\|")


def _panel(place: int, panel: GraphPanel) -> JsonObject:
    return {
        "id": place + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {"h": 8, "w": 12, "x": 12 * (place % 2), "y": 8 * (place // 2)},
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "expr": query, "legendFormat": legend}
            for number, (query, legend) in enumerate(panel.queries)
        ],
    }
