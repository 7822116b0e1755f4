"""The chart and `ullage install` make the same objects, whatever is asked for."""

from dataclasses import replace
from typing import Any

import pytest

from tests.deploy.chart import CHART, HelmFailed, helm, template
from ullage.deploy.component import Component, Feature
from ullage.deploy.components import COMPONENTS
from ullage.deploy.manifests import manifests
from ullage.deploy.options import InstallOptions
from ullage.kube.client.resource import JsonObject

pytestmark = pytest.mark.real

DEFAULT = InstallOptions()
SETTINGS = "scheduling: {profiles: {gpu-scheduler: packing}}\n"


def by_name(objects: list[JsonObject]) -> dict[tuple[str, str], JsonObject]:
    """Objects by kind and name. Helm makes no namespace, and notes on kinds that they stay."""
    found = {}
    for one in objects:
        if one["kind"] == "Namespace":
            continue
        meta = {key: value for key, value in one["metadata"].items() if key != "annotations"}
        found[one["kind"], meta["name"]] = {**one, "metadata": meta}
    return found


@pytest.mark.parametrize(
    ("values", "options"),
    [
        pytest.param({}, DEFAULT, id="as-usual"),
        pytest.param(
            {"agent": {"enabled": False}, "webhook": {"enabled": False}, "controller": {"enabled": False}},
            replace(DEFAULT, components=[Component.SCHEDULER]),
            id="the-scheduler-alone",
        ),
        pytest.param(
            {
                "features": {"karpenter": True, "clusterApi": True, "kwok": True, "vms": True},
                "dashboard": {"enabled": True},
                "vmAgent": {"enabled": True},
            },
            replace(DEFAULT, features=list(Feature), components=list(Component)),
            id="everything",
        ),
        pytest.param({"settings": SETTINGS}, replace(DEFAULT, settings=SETTINGS), id="settings"),
        pytest.param({"networkPolicy": {"enabled": True}}, replace(DEFAULT, network_policies=True), id="network"),
        pytest.param(
            {"monitoring": {part: {"enabled": True} for part in ("serviceMonitor", "alerts", "grafana")}},
            replace(DEFAULT, monitoring=True),
            id="monitoring",
        ),
        pytest.param(
            {"agent": {"simulate": "8xH100-SXM"}, "definitions": {"podGroup": True}, "image": {"tag": "9"}},
            replace(DEFAULT, simulate="8xH100-SXM", pod_group=True, image="ullage:9"),
            id="simulated",
        ),
        pytest.param(
            {"dashboard": {"enabled": True, "historyClaim": "past"}, "settings": SETTINGS},
            replace(
                DEFAULT, components=[*DEFAULT.components, Component.DASHBOARD], history_claim="past", settings=SETTINGS
            ),
            id="dashboard-with-a-history",
        ),
        pytest.param({"definitions": {"install": False}}, replace(DEFAULT, definitions=False), id="no-definitions"),
    ],
)
def test_helm_and_install_make_the_same(values: dict[str, Any], options: InstallOptions) -> None:
    ours, theirs = by_name(manifests(options)), by_name(template(values))
    assert theirs.keys() == ours.keys()
    for name, body in ours.items():
        assert theirs[name] == body, name


def test_network_policies_let_nobody_but_those_named_reach_the_webhook() -> None:
    api_servers: list[JsonObject] = [{"ipBlock": {"cidr": "192.0.2.1/32"}}]
    monitoring: list[JsonObject] = [{"namespaceSelector": {}}]
    policy = {"enabled": True, "webhookFrom": api_servers, "metricsFrom": monitoring}
    made = template({"networkPolicy": policy, "dashboard": {"enabled": True}})
    of_kind = {kind: {one["metadata"]["name"]: one["spec"] for one in made if one["kind"] == kind} for kind in KINDS}
    policies, workloads = of_kind["NetworkPolicy"], of_kind["Deployment"] | of_kind["DaemonSet"]
    assert policies.keys() == workloads.keys()
    let_in: dict[tuple[str, str], Any] = {}
    for name, spec in policies.items():
        labels = workloads[name]["template"]["metadata"]["labels"]
        assert spec["podSelector"]["matchLabels"].items() <= labels.items()
        assert spec["policyTypes"] == ["Ingress"]
        let_in |= {(port["port"], name): one.get("from") for one in spec["ingress"] for port in one["ports"]}
    assert let_in["https", "ullage-webhook"] == api_servers
    assert all(peers == monitoring for (port, _), peers in let_in.items() if port == "probes")
    assert {name for (port, name) in let_in if port == "https"} == {"ullage-webhook"}


KINDS = ("NetworkPolicy", "Deployment", "DaemonSet")


def test_another_namespace_is_named_everywhere() -> None:
    ours = by_name(manifests(replace(DEFAULT, namespace="gpus")))
    theirs = by_name(template(namespace="gpus"))
    assert theirs == ours
    assert "ullage-system" not in str(theirs)


def test_lint_is_strict_and_silent() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))


@pytest.mark.parametrize(
    ("values", "says"),
    [
        pytest.param({"schedular": {"enabled": True}}, "schedular", id="unknown-name"),
        pytest.param({"scheduler": {"replicas": 0}}, "replicas", id="no-replica"),
        pytest.param({"image": {"digest": "latest"}}, "digest", id="no-digest"),
        pytest.param({"agent": {"enabled": "yes"}}, "enabled", id="no-boolean"),
        pytest.param({"vmAgent": {"enabled": True}}, "needs features.vms", id="vm-agent-without-vms"),
    ],
)
def test_wrong_values_are_named(values: dict[str, Any], says: str) -> None:
    with pytest.raises(HelmFailed, match=says):
        template(values)


def test_no_hook_and_kinds_that_stay() -> None:
    """Argo CD and Flux apply what they see: nothing may happen by hooks, and no upgrade may delete claims."""
    for one in template({"features": {"karpenter": True}}):
        notes = one["metadata"].get("annotations") or {}
        assert not [key for key in notes if key.startswith("helm.sh/hook")]
        if one["kind"] == "CustomResourceDefinition":
            assert notes["helm.sh/resource-policy"] == "keep"


@pytest.mark.parametrize("component", Component)
def test_replicas_may_be_fewer(component: Component) -> None:
    if COMPONENTS[component].per_node:
        pytest.skip("one on every node: it has no replicas")
    made = by_name(template({component.value: {"enabled": True, "replicas": 1}}))
    assert made["Deployment", f"ullage-{component}"]["spec"]["replicas"] == 1
    assert ("PodDisruptionBudget", f"ullage-{component}") not in made
