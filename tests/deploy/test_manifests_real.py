"""Every manifest on the real API server: taken without a warning, under the pod security standards it names."""

import pytest
import yaml

from tests.deploy.chart import template
from tests.deploy.cluster import CommandFailed, kubectl, ullage
from tests.deploy.operator_kinds import OPERATOR_KINDS
from ullage.deploy.component import Component, Feature
from ullage.deploy.components import COMPONENTS
from ullage.kube.client.resource import JsonObject
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec
from ullage.testing.controlplane.fixtures import StartControlPlane

pytestmark = pytest.mark.real

ALL = [part for name in Component for part in ("--only", name.value)]
FEATURES = [part for one in Feature for part in ("--feature", one.value)]
STRICT = ("apply", "--server-side", "--validate=strict", "-f", "-")
EVERYTHING = {
    "dashboard": {"enabled": True, "historyClaim": "past"},
    "vmAgent": {"enabled": True},
    "features": {"karpenter": True, "clusterApi": True, "kwok": True, "vms": True},
    "networkPolicy": {"enabled": True},
    "settings": "draining: {scanInterval: 5s}\n",
    "definitions": {"podGroup": True},
    "monitoring": {part: {"enabled": True} for part in ("serviceMonitor", "alerts", "grafana")},
}


@pytest.fixture
def plane(start_control_plane: StartControlPlane) -> ControlPlane:
    plane = start_control_plane(ControlPlaneSpec())
    kubectl(plane, *STRICT, stdin=OPERATOR_KINDS)
    kubectl(plane, "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    return plane


def test_what_install_prints_is_taken_as_it_is(plane: ControlPlane) -> None:
    text = ullage(plane, "install", *ALL, *FEATURES, "--network-policies", "--pod-group", "--monitoring")
    made = kubectl(plane, *STRICT, stdin=text)
    assert len(made.splitlines()) == len([one for one in yaml.safe_load_all(text) if one])
    assert "unchanged" not in made
    kubectl(plane, *STRICT, stdin=text)  # again, as an upgrade does


def test_what_helm_makes_is_taken_as_it_is(plane: ControlPlane) -> None:
    kubectl(plane, "create", "namespace", "ullage-system")
    kubectl(plane, *STRICT, stdin=yaml.safe_dump_all(template(EVERYTHING)))


@pytest.mark.parametrize("name", [pytest.param(name, id=str(name)) for name in COMPONENTS])
def test_pod_security(control_plane: ControlPlane, name: Component) -> None:
    """A pod of each component in a namespace that enforces `restricted`: taken, unless the component says why not."""
    namespace = f"restricted-{name}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    body: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}
    kubectl(control_plane, *STRICT, stdin=yaml.safe_dump(body))
    workload = next(
        one
        for one in template({COMPONENTS[name].value_name: {"enabled": True}, "features": {"vms": True}})
        if one["metadata"]["name"] == f"ullage-{name}" and one["kind"] in ("Deployment", "DaemonSet")
    )
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": namespace},
        "spec": workload["spec"]["template"]["spec"],
    }
    pod["spec"].pop("priorityClassName", None)
    if COMPONENTS[name].unrestricted:
        with pytest.raises(CommandFailed, match="violates PodSecurity"):
            kubectl(control_plane, *STRICT, stdin=yaml.safe_dump(pod))
    else:
        kubectl(control_plane, *STRICT, stdin=yaml.safe_dump(pod))
