"""The story of an installation, on the real API server with RBAC and an audit log.

Manifests are applied by the newcomer's commands, as docs/install.md has them; every component runs as a process with
its installed arguments and a token of its own account: claim, bind, scale up, drain, each component upgraded in the
middle of a gang, uninstall. Nothing was denied, and no role has a verb that nobody used.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.cluster import NAMESPACE, PROGRAM, Component, kubectl, run, ullage
from tests.deploy.newcomer import words_of
from tests.deploy.permissions import declared, denied, named, used
from tests.deploy.permissions import unused as unused_of
from tests.deploy.seldom import BY_THE_STORY
from tests.deploy.test_check_real import check
from tests.deploy.vm_story import VmPorts, agent_settings, grow_a_vm, metrics_served
from tests.kube.crds.bad_provisioners import with_fields
from tests.observe.collector import collecting
from ullage.deploy.component import Component as ComponentName
from ullage.deploy.component import Feature
from ullage.deploy.components import COMPONENTS
from ullage.kube.client.resources import DEPLOYMENTS, GPU_CLAIMS, NODE_PROVISIONERS, PODS
from ullage.kube.crds.catalog import VM_KINDS
from ullage.testing.builders import a_gpu_claim, a_node, a_pod, of_kind
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec, GoProgram
from ullage.testing.controlplane.components import KWOK_NODE_ANNOTATION
from ullage.testing.controlplane.fixtures import prepare

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

NODE = "gpu-1"
VM_NODE = "vms-1"
FEATURES = (Feature.KWOK, Feature.VMS)
DRAINING = {"unremovableRecheckTimeout": "1s", "nodeDeleteDelayAfterTaint": "1s", "scanInterval": "1s"}
STRICT = ("apply", "--server-side", "--validate=strict", "-f", "-")


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    programs = (GoProgram.CONTROLLER_MANAGER, GoProgram.SCHEDULER, GoProgram.KWOK)
    with prepare(ControlPlaneSpec(components=programs, audit=True)) as started:
        yield started


class Story:
    """Everything at work."""

    def __init__(self, plane: ControlPlane, folder: Path, stack: ExitStack) -> None:
        self.guest = stack.enter_context(metrics_served())
        self.collector = stack.enter_context(collecting())
        self.vm_ports = VmPorts()
        stack.callback(self.vm_ports.release)
        self.plane = plane
        self.folder = folder
        self.stack = stack
        self.running: dict[str, Component] = {}

    def install(self, *, draining: Mapping[str, Any] = DRAINING, **sections: Mapping[str, Any]) -> None:
        """Install with the command, into a cluster with one GPU node; KWOK plays the pods, processes here work.

        `sections` are further ones of the settings file.
        """
        for name in (NODE, VM_NODE):
            node = {"apiVersion": "v1", "kind": "Node", **a_node(name)}
            node["metadata"]["annotations"] = dict([KWOK_NODE_ANNOTATION])
            kubectl(self.plane, *STRICT, stdin=yaml.safe_dump(node))
        for kind in VM_KINDS:
            kubectl(self.plane, *STRICT, stdin=kind.text())
        settings = self.folder / "given.yaml"
        scheduling = {"traceEndpoint": self.collector.url}
        vm_agent = agent_settings(self.guest)
        given = {"draining": dict(draining), "scheduling": scheduling, "vmagent": vm_agent, **sections}
        settings.write_text(yaml.safe_dump(given))
        everything = [part for name in COMPONENTS for part in ("--only", str(name))]
        features = [part for one in FEATURES for part in ("--feature", str(one))]
        chosen = (*everything, *features, "--settings", str(settings))
        said = ullage(self.plane, *words_of("ullage", "install"), *chosen).splitlines()
        assert said[0] == "serves GpuClaim"
        deployed = [spec.name for spec in COMPONENTS.values() if not spec.per_node]
        assert {f"ready Deployment {name}" for name in deployed} <= set(said)
        assert said[-1].startswith("installed;")

    def start(self, name: str, **how: Any) -> Component:
        self.running[name] = self.stack.enter_context(Component(self.plane, name, self.folder, **how))
        return self.running[name]

    def start_all(self) -> None:
        self.start("agent", node=NODE, more=("--node-name", NODE))
        self.start("scheduler", more=self.vm_ports.arguments())
        self.start("controller")
        self._start_webhook()
        token = self.folder / "token"
        token.write_text("a-long-enough-token-for-tests")
        self.start("dashboard", more=("--token-file", str(token)))

    def _start_webhook(self) -> None:
        """API servers reach it by URL here: there is no network of Services."""
        webhook = Component(self.plane, "webhook", self.folder)
        address, url = f"127.0.0.1:{webhook.port()}", ""
        url = f"https://{address}"
        register = (PROGRAM, "webhook", "--install", "--url", url, "--kubeconfig", self.plane.kubeconfig)
        run(register)
        webhook.replace("--address", address)
        webhook.add("--url", url, "--drain", "0")
        self.running["webhook"] = self.stack.enter_context(webhook)

    def get(self, *what: str) -> Any:
        return json.loads(kubectl(self.plane, "get", *what, "-o", "json"))

    def apply(self, *bodies: dict[str, Any]) -> None:
        kubectl(self.plane, *STRICT, stdin=yaml.safe_dump_all(bodies))

    def until(self, what: str, holds: Callable[[], bool], seconds: float = 90) -> None:
        ends = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < ends, f"not within {seconds:g} s: {what}\n{self._explained()}"
            time.sleep(0.3)

    def _explained(self) -> str:
        waiting = [
            one["metadata"]["name"]
            for one in self.get("pods", "-n", "default")["items"]
            if not one["spec"].get("nodeName")
        ]
        words = [ullage(self.plane, "explain", f"pod/default/{name}") for name in waiting]
        return "\n".join([*words, ullage(self.plane, "plan", "drain")])

    def bound(self, *names: str) -> bool:
        pods = self.get("pods", "-n", "default")["items"]
        return set(names) <= {one["metadata"]["name"] for one in pods if one["spec"].get("nodeName")}

    def nodes(self) -> set[str]:
        return {one["metadata"]["name"] for one in self.get("nodes")["items"]}

    def web_nodes(self) -> list[str]:
        """Nodes of the Deployment's pods."""
        pods = self.get("pods", "-n", "default", "-l", "app=web")["items"]
        return [one["spec"]["nodeName"] for one in pods if one["spec"].get("nodeName")]

    def node_of(self, name: str) -> str:
        return str(self.get("pod", name, "-n", "default")["spec"].get("nodeName", ""))


def claim(name: str, count: int, **spec: Any) -> dict[str, Any]:
    return of_kind(GPU_CLAIMS, a_gpu_claim(name, count, **spec))


def pod(name: str, claim: str = "", **spec: Any) -> dict[str, Any]:
    """A pod as a user writes it: it names its claim, and the webhook does the rest."""
    notes = {"gpu.scheduling/claim": claim or name}
    body = a_pod(name, annotations=notes, requests={"cpu": "1"}, **{"terminationGracePeriodSeconds": 0, **spec})
    return of_kind(PODS, body)


def web(name: str) -> dict[str, Any]:
    """A Deployment of one pod, whose claim is made from a template."""
    made = pod("x", claim=name)
    notes = {"gpu.scheduling/claim-template": name}
    template = {"metadata": {"labels": {"app": name}, "annotations": notes}, "spec": made["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
    return of_kind(DEPLOYMENTS, {"metadata": {"name": name}, "spec": spec})


def pool(name: str) -> dict[str, Any]:
    spec = with_fields(
        {
            "provider": {"name": "kwok", "parameters": {"bootSeconds": "1", "gpuSeconds": "1"}},
            "template.gpus.count": 8,
            "maxSize": 4,
            "scaleDownDelay": "2s",
            "scaleUpBatch": "1s",
            "consolidation": {"policy": "Drain", "unneededTime": "1s"},
        }
    )
    return of_kind(NODE_PROVISIONERS, {"metadata": {"name": name}, "spec": spec})


def test_the_story_of_an_installation(plane: ControlPlane, tmp_path: Path) -> None:
    with ExitStack() as stack:
        story = Story(plane, tmp_path, stack)
        story.install()
        story.start_all()
        _claim_and_bind(story)
        assert check(plane) == (0, {}), "a healthy cluster: nothing is missing or in the way"
        assert ullage(plane, *words_of("ullage", "check")).splitlines()[-1] == "all is well"
        grow_a_vm(story, story.guest, story.vm_ports, VM_NODE)
        _grow_and_drain(story)
        _upgrade_in_the_middle_of_a_gang(story)
        for one in reversed(list(story.running.values())):
            one.terminate()
            assert "Traceback" not in one.said(), f"{one.name} ended with a traceback:\n{one.said()[-4000:]}"
        _placements_were_traced(story)
        _nothing_was_denied(plane)
        _no_verb_is_unused(plane)
        _uninstall(story)


def _claim_and_bind(story: Story) -> None:
    story.until("the agent's report", lambda: bool(story.get("gpunodestatuses")["items"]))
    quota = {
        "apiVersion": "gpu.scheduling/v1",
        "kind": "GpuQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"gpus": 64},
    }
    story.apply(quota)
    kubectl(story.plane, *words_of("kubectl", "apply"))
    story.until("the first claim is bound", lambda: "Bound" in kubectl(story.plane, *words_of("kubectl", "get")))
    assert story.node_of("first") == NODE
    found = story.get("pod", "first", "-n", "default")
    variables = {one["name"] for one in found["spec"]["containers"][0]["env"]}
    assert "NVIDIA_VISIBLE_DEVICES" in variables, "the webhook shows it its GPUs"
    assert len(story.get("leases", "-n", NAMESPACE, "-l", "gpu.scheduling/managed")["items"]) == 1


def _grow_and_drain(story: Story) -> None:
    """A pod finds no room: a pool buys a node. Room comes elsewhere: the node is drained, and the pod moves."""
    story.apply(pool("pool"), claim("filler", 7), pod("filler"))
    story.until("the node is full", lambda: story.bound("filler"))
    story.apply(claim("web", 2), web("web"))
    story.until("a node is bought", lambda: story.web_nodes() not in ([], [NODE]), 60)
    bought = story.web_nodes()[0]
    kubectl(story.plane, "delete", "pod", "filler", "-n", "default", "--wait=true")
    story.until("the node is drained and given back", lambda: bought not in story.nodes(), 60)
    story.until("the pod has moved", lambda: story.web_nodes() == [NODE], 60)


def _upgrade_in_the_middle_of_a_gang(story: Story) -> None:
    """Half of a gang is there when each component is stopped and started again, one at a time; then the rest comes."""
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "gang", "namespace": "default"},
        "spec": {"minMember": 4},
    }
    members = [f"g{number}" for number in range(4)]
    story.apply(group, *(claim(name, 1, gangRef="gang") for name in members))
    story.apply(*(pod(name) for name in members[:2]))
    assert story.running.keys() == {str(name) for name in COMPONENTS}
    for name in story.running:
        story.running[name].terminate()
        story.running[name].start()
        assert not any(story.bound(one) for one in members), "a gang comes whole or not at all"
    story.apply(*(pod(name) for name in members[2:]))
    story.until("the gang is bound", lambda: story.bound(*members))


def _placements_were_traced(story: Story) -> None:
    """The collector of traces has that of the first pod: decide, lease, bind; and that of the gang."""
    traces = story.collector.traces()
    (first,) = [one for one in traces if one["placement"][0].attributes.get("k8s.pod.name") == "first"]
    decide, lease, bind = (first[step][0] for step in ("decide", "lease", "bind"))
    assert decide.ended <= lease.began < lease.ended <= bind.began
    assert first["placement"][0].attributes["k8s.node.name"] == NODE
    assert any(one["placement"][0].attributes.get("ullage.gang") == "default/gang" for one in traces)


def _nothing_was_denied(plane: ControlPlane) -> None:
    assert denied(plane.audit(), NAMESPACE) == []


def _no_verb_is_unused(plane: ControlPlane) -> None:
    log = plane.audit()
    assert not unused_of(log, named(*BY_THE_STORY), NAMESPACE), "rules that `seldom` says the story shows in use"
    unused: dict[str, list[str]] = {}
    for name, spec in COMPONENTS.items():
        left = declared(spec, FEATURES, seldom=False) - used(log, spec.name, NAMESPACE)
        if left:
            unused[str(name)] = [f"{one.verb} {one.resource}.{one.group} ({one.scope})" for one in sorted(left)]
    assert not unused, f"verbs nobody used: {json.dumps(unused, indent=1)}"


def _uninstall(story: Story) -> None:
    """Everything goes, webhook configurations first; pods that run keep running."""
    before = len(story.plane.audit())
    said = ullage(story.plane, "uninstall", "--yes").splitlines()
    assert said[-1] == "uninstalled"
    deleted = [line.removeprefix("deleted ") for line in said if line.startswith("deleted ")]
    assert all("WebhookConfiguration" in line for line in deleted[:2]), deleted
    kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations,validatingadmissionpolicies,clusterroles,"
    kinds += "clusterrolebindings,crds,priorityclasses"
    left = [
        line
        for line in kubectl(story.plane, "get", kinds, "-o", "name").splitlines()
        if "ullage" in line or "gpu.scheduling" in line
    ]
    assert left == []
    assert NAMESPACE not in kubectl(story.plane, "get", "namespaces", "-o", "name")
    node = story.get("node", NODE)
    marks = [*node["metadata"].get("labels", {}), *(taint["key"] for taint in node["spec"].get("taints", ()))]
    assert not [one for one in marks if one.startswith("gpu.scheduling/")]
    assert "nvidia.com/gpu" not in node["status"]["capacity"]
    assert story.bound("first", "g0")
    groups = "CustomResourceDefinition podgroups.scheduling.x-k8s.io"
    assert f"kept {groups}: there are PodGroups" in said
    kubectl(story.plane, "delete", "podgroups.scheduling.x-k8s.io", "gang", "-n", "default")
    assert ullage(story.plane, "uninstall", "--yes").splitlines() == [f"deleted {groups}", "uninstalled"]
    assert ullage(story.plane, "uninstall", "--yes").splitlines() == ["uninstalled"], "there is nothing left to do"
    assert len(story.plane.audit()) > before


def test_every_declared_component_is_in_the_story() -> None:
    assert set(COMPONENTS) == set(ComponentName)
