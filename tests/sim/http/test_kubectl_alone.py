"""kubectl on the simulated server where there is nothing to compare with: streams, refusals, TLS."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sim.http.cluster import in_a_thread
from tests.sim.http.kubectl import Kubectl
from tests.sim.http.write_sequence import kubectl_for
from ullage.sim.http import ListenAddress, ServeOptions
from ullage.testing.controlplane import GoProgram, MissingProgram
from ullage.testing.controlplane.binaries import find

pytestmark = pytest.mark.real

CLAIM = "apiVersion: gpu.scheduling/v1\nkind: GpuClaim\nmetadata: {name: train-0}\nspec: {devices: {count: 4}}\n"
NODE = """
apiVersion: v1
kind: Node
metadata: {name: node-a}
status: {capacity: {cpu: "8", memory: 8Gi, pods: "10"}, allocatable: {cpu: "8", memory: 8Gi, pods: "10"}}
---
apiVersion: v1
kind: Pod
metadata: {name: lone}
spec: {nodeName: node-a, terminationGracePeriodSeconds: 1, containers: [{name: c, image: "example.test/c:1"}]}
"""


@pytest.fixture(scope="module", autouse=True)
def program() -> None:
    try:
        find(GoProgram.KUBECTL)
    except MissingProgram as missing:
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(f"NO KUBECTL: {missing}", pytrace=False)
        pytest.skip(f"NO KUBECTL: {missing}")


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    folder = tmp_path_factory.mktemp("alone")
    with in_a_thread(ServeOptions(kubeconfig=folder / "kubeconfig"), actors=True) as served:
        yield kubectl_for(served.kubeconfig, folder / "home")


def test_the_command_of_the_tour(kubectl: Kubectl) -> None:
    assert kubectl.run("apply", "-f", "-", stdin=CLAIM).out == "gpuclaim.gpu.scheduling/train-0 created\n"
    said = kubectl.run("get", "pods,gpuclaims,nodeprovisioners")
    assert said.code == 0
    assert [line.split()[:2] for line in said.out.splitlines()] == [
        ["NAME", "PHASE"],
        ["gpuclaim.gpu.scheduling/train-0", "4"],
    ]


def test_a_watch_shows_changes_as_they_come(kubectl: Kubectl) -> None:
    command = kubectl.command("get", "configmaps", "--watch", "--output-watch-events")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=kubectl.environment()) as watching:
        assert watching.stdout is not None
        try:
            kubectl.run("create", "configmap", "first", "--from-literal=a=b")
            kubectl.run("delete", "configmap", "first")
            lines = [watching.stdout.readline().split()[:3] for _ in range(3)]
        finally:
            watching.terminate()
    assert lines == [["EVENT", "NAME", "DATA"], ["ADDED", "first", "1"], ["DELETED", "first", "1"]]


def test_what_needs_containers_is_refused_in_clear_words(kubectl: Kubectl) -> None:
    kubectl.run("apply", "-f", "-", stdin=NODE)
    assert kubectl.run("wait", "--for=condition=Ready", "pod/lone", "--timeout=40s").code == 0
    why = "this cluster is simulated: no containers run in its pods, so there is no"
    for words, part in (
        (("logs", "lone"), "log"),
        (("exec", "lone", "--", "ls"), "exec"),
        (("attach", "lone"), "attach"),
    ):
        said = kubectl.run(*words)
        assert (said.code != 0, f"{why} {part}" in said.err) == (True, True), said
    assert kubectl.run("top", "pods").err == "error: Metrics API not available\n"
    drained = kubectl.run("drain", "node-a", "--force", "--timeout=40s")
    assert (drained.code, "node/node-a drained" in drained.out) == (0, True), drained
    assert kubectl.run("get", "pods").err == "No resources found in default namespace.\n"


def test_kubectl_shows_its_token_where_one_is_needed(tmp_path: Path) -> None:
    how = ServeOptions(kubeconfig=tmp_path / "kubeconfig", address=ListenAddress("0.0.0.0", 0))
    with in_a_thread(how) as served:
        kubectl = kubectl_for(served.kubeconfig, tmp_path / "home")
        assert kubectl.run("get", "namespaces", "-o", "name").out.startswith("namespace/default\n")
        said = kubectl.run("get", "namespaces", "--token=wrong")
        assert (said.code, "Unauthorized" in said.err or "logged in" in said.err) == (1, True), said
