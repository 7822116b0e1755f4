"""Installations that somebody edits, cuts off or repeats: what components say, and how it becomes whole again."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.cluster import NAMESPACE, PROGRAM, kubectl, ullage
from tests.deploy.test_check_real import check
from tests.deploy.test_story_real import NODE, STRICT, Story, claim, pod
from ullage.testing.builders import a_node
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec, GoProgram
from ullage.testing.controlplane.components import KWOK_NODE_ANNOTATION
from ullage.testing.controlplane.fixtures import prepare

pytestmark = [pytest.mark.real, pytest.mark.full, pytest.mark.timeout(600)]

PROGRAMS = (GoProgram.CONTROLLER_MANAGER, GoProgram.SCHEDULER, GoProgram.KWOK)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with prepare(ControlPlaneSpec(components=PROGRAMS)) as plane, ExitStack() as stack:
        story = Story(plane, tmp_path_factory.mktemp("edited"), stack)
        story.install()
        story.start_all()
        story.until("the agent's report", lambda: bool(story.get("gpunodestatuses")["items"]))
        yield story


class EditedRole:
    """A role with a verb less, until it is put back."""

    def __init__(self, story: Story, kind: str, component: str) -> None:
        self._story = story
        self._what = (kind, f"ullage-{component}", *(("-n", NAMESPACE) if kind == "role" else ()))
        self._whole = story.get(*self._what)
        del self._whole["metadata"]["resourceVersion"]

    def without(self, verb: str, resource: str) -> None:
        body = deepcopy(self._whole)
        for rule in (one for one in body["rules"] if resource in one["resources"]):
            rule["verbs"] = [one for one in rule["verbs"] if one != verb] or ["none"]
        self._replace(body)

    def whole(self) -> None:
        self._replace(self._whole)

    def _replace(self, body: Any) -> None:
        kubectl(self._story.plane, "replace", "-f", "-", stdin=yaml.safe_dump(body))


def _a_pod(story: Story) -> Callable[[], bool]:
    name = f"p{time.time_ns()}"
    story.apply(claim(name, 1), pod(name))
    return lambda: story.bound(name)


def _a_report(story: Story) -> Callable[[], bool]:
    """The report is gone: the agent makes it again."""
    kubectl(story.plane, "delete", "gpunodestatus", NODE)
    return lambda: any(one.get("status", {}).get("devices") for one in story.get("gpunodestatuses")["items"])


EDITED = [
    pytest.param("scheduler", "clusterrole", "create pods/binding", _a_pod, id="scheduler-binds"),
    pytest.param("scheduler", "role", "create leases.coordination.k8s.io", _a_pod, id="scheduler-leases"),
    pytest.param("scheduler", "clusterrole", "patch gpuclaims.gpu.scheduling", _a_pod, id="scheduler-protects-claims"),
    pytest.param("agent", "clusterrole", "patch gpunodestatuses/status.gpu.scheduling", _a_report, id="agent-reports"),
]


@pytest.mark.parametrize(("component", "kind", "right", "work"), EDITED)
def test_a_right_that_is_taken_away_is_named_and_taken_up_again(
    story: Story, component: str, kind: str, right: str, work: Callable[[Story], Callable[[], bool]]
) -> None:
    """The component says which right is missing, keeps running, and goes on when it is back; so does `ullage check`."""
    program, edited = story.running[component], EditedRole(story, kind, component)
    verb, _, resource = right.partition(" ")
    before = len(program.said())
    edited.without(verb, resource.partition(".")[0])
    try:
        done = work(story)
        story.until(f"{right} is missed", lambda: _lines(program.said()[before:], "right missing", right) == 1, 60)
        assert not done()
        code, found = check(story.plane)
        assert code == 1
        assert found["RightsMissing"] == (
            f"The {component} may not {right}: somebody changed its roles or their bindings."
        )
    finally:
        edited.whole()
    story.until("it goes on", done, 90)
    story.until("it says so", lambda: _lines(program.said()[before:], "right there again", right) == 1, 30)
    assert _lines(program.said()[before:], "right missing", right) == 1, "told once"
    assert "Traceback" not in program.said()
    assert "RightsMissing" not in check(story.plane)[1]


def _lines(log: str, event: str, right: str) -> int:
    said = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    return sum((one.get("event"), one.get("right")) == (event, right) for one in said)


def test_a_leader_without_the_right_to_lead_stands_by_until_it_is_back(story: Story) -> None:
    controller, edited = story.running["controller"], EditedRole(story, "role", "controller")
    before = len(controller.said())
    edited.without("update", "leases")
    try:
        words = 'cannot update resource "leases" in API group "coordination.k8s.io"'
        story.until("it cannot be elected", lambda: words in controller.said()[before:], 60)
    finally:
        edited.whole()
    story.until("it leads again", lambda: " leads\n" in controller.said()[before:].partition(words)[2], 60)


def test_keys_that_are_deleted_are_made_anew(story: Story) -> None:
    """The webhook's Secret goes: pods with a claim come in all the time, and a new Secret is made."""
    kubectl(story.plane, "delete", "secret", "ullage-webhook-tls", "-n", NAMESPACE)
    bound = _a_pod(story)
    there = ("secrets", "-n", NAMESPACE, "--field-selector=metadata.name=ullage-webhook-tls")
    story.until("there are keys again", lambda: bool(story.get(*there)["items"]), 60)
    story.until("the pod is bound", bound)
    story.until("another one is", _a_pod(story))


def test_uninstalling_while_a_scheduler_still_runs(story: Story) -> None:
    """Processes outside of the cluster do not go with its pods: a scheduler protects its claims again and again."""
    story.until("a pod has its claim", _a_pod(story))
    assert ullage(story.plane, "uninstall", "--yes").splitlines()[-1] == "uninstalled"


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """A cluster whose pods KWOK plays, with a GPU node, and nothing of ours."""
    with prepare(ControlPlaneSpec(components=PROGRAMS)) as started:
        node = {"apiVersion": "v1", "kind": "Node", **a_node(NODE, gpus=8)}
        node["metadata"]["annotations"] = dict([KWOK_NODE_ANNOTATION])
        kubectl(started, *STRICT, stdin=yaml.safe_dump(node))
        yield started


def _cut_off(plane: ControlPlane, verb: str, *options: str, at: str) -> None:
    """The command, killed when it says this."""
    command: tuple[str | Path, ...] = (PROGRAM, verb, *options, "--kubeconfig", plane.kubeconfig)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdout is not None
        try:
            assert any(at in line for line in process.stdout), f"{verb} did not say {at!r}"
        finally:
            process.kill()


def _get(plane: ControlPlane, *what: str) -> Any:
    return json.loads(kubectl(plane, "get", *what, "-o", "json"))


def _objects(plane: ControlPlane) -> list[str]:
    """Names of objects of ours that are not in the namespace."""
    kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations,validatingadmissionpolicies,clusterroles,"
    found = kubectl(plane, "get", f"{kinds}clusterrolebindings,crds,namespaces", "-o", "name").splitlines()
    return [one for one in found if "ullage" in one or "gpu.scheduling" in one]


def test_installing_again_with_other_values(plane: ControlPlane, tmp_path: Path) -> None:
    """Twice the same changes nothing; what somebody edited is set back; what is not named stays, and can go on."""
    command = ("install", "--apply", "--only", "scheduler", "--only", "agent", "--only", "webhook")
    first = ullage(plane, *command)
    versions = {one: _get(plane, *one)["metadata"]["generation"] for one in _workloads("scheduler", "webhook")}
    again = ullage(plane, *command)
    assert sorted(again.splitlines()) == sorted(first.splitlines()), "the last lines come as components get ready"
    assert versions == {one: _get(plane, *one)["metadata"]["generation"] for one in versions}, "no pod is replaced"

    kubectl(plane, "scale", "deployment", "ullage-scheduler", "-n", NAMESPACE, "--replicas=5")
    kubectl(plane, "patch", "clusterrole", "ullage-scheduler", "--type=merge", "-p", '{"rules": []}')
    settings = tmp_path / "settings.yaml"
    settings.write_text("draining: {scanInterval: 9s}\n")
    ullage(plane, "install", "--apply", "--only", "scheduler", "--settings", str(settings))
    assert _get(plane, *_workloads("scheduler")[0])["spec"]["replicas"] == 2
    assert _get(plane, "clusterrole", "ullage-scheduler")["rules"]
    assert "9s" in _get(plane, "configmap", "ullage-settings", "-n", NAMESPACE)["data"]["settings.yaml"]
    assert "RightsMissing" not in check(plane)[1]
    labels = _get(plane, "namespace", NAMESPACE)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged", "the agent is still there, and needs it"

    settings.write_text("draining: {scanIntervall: 9s}\n")
    misspelt = (PROGRAM, "install", "--apply", "--settings", settings, "--kubeconfig", plane.kubeconfig)
    done = subprocess.run(misspelt, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "scanIntervall" in done.stderr
    assert not done.stdout, "nothing was written"


def _workloads(*names: str) -> list[tuple[str, ...]]:
    return [("deployment", f"ullage-{name}", "-n", NAMESPACE) for name in names]


def test_half_an_uninstallation(plane: ControlPlane) -> None:
    """Cut off early, it is installed over, or uninstalled again: both become whole."""
    ullage(plane, "install", "--apply")
    whole = _objects(plane)
    _cut_off(plane, "uninstall", "--yes", at="deleted Deployment")
    code, found = check(plane)
    assert code == 1
    assert "WebhookUnregistered" in found, "admission goes first"
    ullage(plane, "install", "--apply")
    assert _objects(plane) == whole

    _cut_off(plane, "uninstall", "--yes", at="deleted CustomResourceDefinition")
    assert ullage(plane, "uninstall", "--yes").splitlines()[-1] == "uninstalled"
    assert _objects(plane) == []


def test_installing_while_the_last_installation_still_goes(plane: ControlPlane) -> None:
    """The namespace is held by a finalizer of somebody's: the installation says so, and waits."""
    ullage(plane, "install", "--apply", "--only", "scheduler")
    held = {"name": "held", "namespace": NAMESPACE, "finalizers": ["example.com/held"]}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": held}
    kubectl(plane, *STRICT, stdin=yaml.safe_dump(body))
    _cut_off(plane, "uninstall", "--yes", at=f"deleted Namespace {NAMESPACE}")
    command = (PROGRAM, "install", "--apply", "--only", "scheduler", "--kubeconfig", plane.kubeconfig)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1) as process:
        assert process.stdout is not None
        try:
            first = process.stdout.readline()
            assert first == f"waiting until Namespace {NAMESPACE} of an earlier installation is gone\n"
            patch = '{"metadata": {"finalizers": null}}'
            kubectl(plane, "patch", "configmap", "held", "-n", NAMESPACE, "--type=merge", "-p", patch)
            said = process.stdout.read()
        finally:
            process.kill()
    assert said.splitlines()[-1].startswith("installed;"), said
