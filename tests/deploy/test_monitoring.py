"""Alerts and graphs name only metrics that exist, with labels they have."""

import importlib
import pkgutil
import re
import subprocess
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from tests.promtool import promtool
from ullage import observe
from ullage.deploy.monitoring import ALERTS, PANELS, grafana_dashboard
from ullage.observe.admission_metrics import AdmissionMetrics
from ullage.observe.agent_metrics import AgentMetrics
from ullage.observe.draining_metrics import DrainMetrics
from ullage.observe.karpenter_metrics import KarpenterMetrics
from ullage.observe.provisioning_metrics import ProvisioningMetrics
from ullage.observe.scheduler_metrics import SchedulerMetrics
from ullage.observe.settings_metrics import SettingsMetrics
from ullage.observe.vm_agent_metrics import VmAgentMetrics

FAMILIES = (
    SchedulerMetrics,
    AdmissionMetrics,
    AgentMetrics,
    ProvisioningMetrics,
    DrainMetrics,
    KarpenterMetrics,
    VmAgentMetrics,
    SettingsMetrics,
)
QUERIES = [pytest.param(one.expression, id=one.name) for one in ALERTS] + [
    pytest.param(query, id=panel.title) for panel in PANELS for query, _ in panel.queries
]
ADDED_BY_PROMETHEUS = {"le", "instance", "job", "namespace", "pod"}


class Kept(CollectorRegistry):
    """A registry that keeps each collector with its labels."""

    def __init__(self) -> None:
        super().__init__()
        self.labels: dict[str, set[str]] = {}

    def register(self, collector: Collector) -> None:
        super().register(collector)
        for name in self._collector_to_names[collector]:
            self.labels[name] = set(getattr(collector, "_labelnames", ()))


@pytest.fixture(scope="module")
def known() -> dict[str, set[str]]:
    registry = Kept()
    for family in FAMILIES:
        family(registry)
    return registry.labels


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_names_what_exists(query: str, known: dict[str, set[str]]) -> None:
    names = re.findall(r"\b(?:ullage|tensor_fusion)_[a-z_]+", query)
    assert names
    missing = [name for name in names if name not in known]
    assert not missing
    labels = set().union(*(known[name] for name in names)) | ADDED_BY_PROMETHEUS
    used = set(re.findall(r"[{,]\s*([a-z_]+)\s*(?:=~|!~|!=|=)", query))
    for group in re.findall(r"\b(?:by|without)\s*\(([^)]*)\)", query):
        used |= {one.strip() for one in group.split(",")}
    assert used <= labels


def test_every_family_of_metrics_is_looked_at(known: dict[str, set[str]]) -> None:
    """A family that is not in the list would escape the bounds of its labels."""
    modules = [
        importlib.import_module(f"{observe.__name__}.{one.name}") for one in pkgutil.iter_modules(observe.__path__)
    ]
    found = {value for one in modules for name, value in vars(one).items() if name.endswith("Metrics")}
    assert found > set(FAMILIES)
    for family in found:
        kept = Kept()
        family(kept)
        assert kept.labels.keys() <= known.keys(), family.__name__


def test_each_alert_says_what_to_look_at() -> None:
    assert all(one.summary and one.look and one.severity in ("info", "warning", "critical") for one in ALERTS)
    assert len({one.name for one in ALERTS}) == len(ALERTS)


def test_prometheus_takes_the_rules() -> None:
    rules = Path(__file__).parents[2] / "deploy" / "helm" / "ullage" / "files" / "alerts.yaml"
    done = subprocess.run((promtool(), "check", "rules", str(rules)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout


def test_graphs_stand_side_by_side() -> None:
    places = [(one["gridPos"]["x"], one["gridPos"]["y"]) for one in grafana_dashboard()["panels"]]
    assert len(set(places)) == len(places)


BOUNDS = {
    "action": "closed list: PoolAction",
    "code": "HTTP status codes that are answered",
    "direction": "up, down",
    "fate": "closed list: EventFate",
    "field": "closed list: fields of the VM ledger",
    "function": "phases of a drain plan",
    "gpu": "GPUs of one node, on its own agent",
    "health": "closed list: DeviceHealth",
    "kind": "closed list: kinds of removals",
    "model": "models of GPUs in the cluster",
    "nodepool": "NodePools in the cluster",
    "of": "agents, schedulers",
    "outcome": "closed lists: reviews, reports, requests, binds",
    "path": "paths of the webhook",
    "place": "places of the queue",
    "pool": "NodePools in the cluster",
    "provisioner": "NodeProvisioners in the cluster",
    "reason": "closed lists of reasons",
    "resource": "cpu, memory",
    "result": "closed lists of results",
    "state": "closed lists of states",
    "type": "closed list: types of NodeClaim events",
    "why": "closed list: ReleaseReason",
    "window": "closed list: windows of error counters",
    "xid": "error codes of the driver",
}
"""Every label with what bounds it. None takes the name of a pod, claim, node or user."""


def test_every_label_has_a_bound(known: dict[str, set[str]]) -> None:
    """A label that takes the name of a pod, claim or node would make a series of each."""
    used = set().union(*known.values())
    assert used == BOUNDS.keys()
