"""The quick start of docs/karpenter.md, block by block, on a real Karpenter; each component with its own token.

KWOK stands in for AWS, and processes here for the containers: nothing else is changed in what the page says.
"""

import json
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from tests.deploy.cluster import NAMESPACE, PROGRAM, Component, kubectl, run
from tests.deploy.permissions import declared, denied, used
from ullage.deploy.component import Component as ComponentName
from ullage.deploy.component import Feature
from ullage.deploy.components import COMPONENTS
from ullage.model.lifecycles import IN_FLIGHT
from ullage.testing.builders import a_node
from ullage.testing.controlplane import ControlPlane, GoProgram
from ullage.testing.controlplane.components import KWOK_NODE_ANNOTATION
from ullage.testing.controlplane.fixtures import prepare, program
from ullage.testing.karpenter_cluster import karpenter_spec

pytestmark = [pytest.mark.real, pytest.mark.full, pytest.mark.timeout(280)]

ROOT = Path(__file__).parents[3]
HERE = (
    ("nodepool-aws", "nodepool-kwok"),
    ("gpu-a100", "gpu-h100"),
    ("NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"),
    ("labels: {karpenter.k8s.aws/instance-gpu-name: a100}", "labels: {}"),
    ("model: A100", "model: H100"),
)
"""What differs between the page's cloud and this one."""
NODE_CLASS = {
    "apiVersion": "karpenter.kwok.sh/v1alpha1",
    "kind": "KWOKNodeClass",
    "metadata": {"name": "default"},
    "spec": {"nodeRegistrationDelay": "2s"},
}


def blocks(kind: str) -> list[str]:
    """Fenced blocks of the page's quick start."""
    page = (ROOT / "docs" / "karpenter.md").read_text()
    start = page.split("## Quick start", 1)[1].split("\n## ", 1)[0]
    found = [dedent(one) for one in re.findall(rf"```{kind}\n(.*?)```", start, re.DOTALL)]
    for theirs, ours in HERE:
        found = [one.replace(theirs, ours) for one in found]
    return found


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    with prepare(replace(karpenter_spec(tmp_path), audit=True)) as started:
        yield started


class Shell:
    """A user with a kubeconfig, in a folder with the two files of the page."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self._folder = folder
        for name, text in zip(("settings.yaml", "train.yaml"), blocks("yaml"), strict=True):
            (folder / name).write_text(text)

    def run(self, line: str) -> str:
        """Run one line of the page; the repository's files are meant by `deploy/`."""
        words = [str(ROOT / one) if one.startswith("deploy/") else one for one in shlex.split(line)]
        tools: dict[str, Path] = {"kubectl": program(GoProgram.KUBECTL), "ullage": PROGRAM}
        where = ("--kubeconfig", self.plane.kubeconfig)
        done = subprocess.run(
            (tools[words[0]], *words[1:], *where), cwd=self._folder, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def bought(self) -> list[str]:
        """Nodes that Karpenter made for a request."""
        return [one["metadata"]["name"] for one in self.get("nodes", "-l", "gpu.scheduling/request")["items"]]

    def get(self, *what: str) -> Any:
        return json.loads(kubectl(self.plane, "get", *what, "-o", "json"))


def until(what: str, holds: Callable[[], Any], seconds: float = 90.0) -> None:
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends, f"not within {seconds:g} s: {what}"
        time.sleep(0.2)


def start_webhook(plane: ControlPlane, folder: Path) -> Component:
    """API servers reach it by URL here: there is no network of Services."""
    webhook = Component(plane, "webhook", folder)
    address = f"127.0.0.1:{webhook.port()}"
    run((PROGRAM, "webhook", "--install", "--url", f"https://{address}", "--kubeconfig", plane.kubeconfig))
    webhook.replace("--address", address)
    webhook.add("--url", f"https://{address}", "--drain", "0")
    return webhook


def test_the_quick_start_ends_with_a_pod_on_a_node_that_was_bought_for_it(plane: ControlPlane, tmp_path: Path) -> None:
    setting_up, asking = blocks("sh")
    shell = Shell(plane, tmp_path)
    system = {"apiVersion": "v1", "kind": "Node", **a_node("system-1", gpus=0)}
    system["metadata"]["annotations"] = dict([KWOK_NODE_ANNOTATION])
    kubectl(plane, "apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all([NODE_CLASS, system]))
    for line in setting_up.strip().splitlines():
        if line.startswith("ullage check"):
            continue  # below, once the components run
        shell.run(f"{line} --simulate 1xH100-SXM" if "install" in line else line)
    with ExitStack() as stack:
        for name in ("scheduler", "controller"):
            stack.enter_context(Component(plane, name, tmp_path))
        stack.enter_context(start_webhook(plane, tmp_path))
        shell.run("ullage check")
        _ask(shell, asking.strip().splitlines(), tmp_path, stack)
        _condition(shell)
    log = plane.audit()
    assert denied(log, NAMESPACE) == [], "every request of ours was allowed by its own role"
    controller = COMPONENTS[ComponentName.CONTROLLER]
    mine = declared(controller, (Feature.KARPENTER,), seldom=True) - declared(controller, (), seldom=True)
    unused = [f"{one.verb} {one.resource}.{one.group}" for one in sorted(mine - used(log, controller.name, NAMESPACE))]
    assert unused == ["delete leases.coordination.k8s.io"], "of the feature's rights; a hand-over that fails halfway"


def _ask(shell: Shell, lines: list[str], folder: Path, stack: ExitStack) -> None:
    apply, describe, smart_pods, claims, explain = lines
    shell.run(apply)
    until("the smart pod has a state", lambda: "Launched" in shell.run(smart_pods) or shell.bought())
    assert "insufficient GPU resources in pool a100, auto-scaling triggered" in shell.run(describe)
    (claim,) = shell.get("nodeclaims")["items"]
    request = claim["metadata"]["labels"]["gpu.scheduling/request"]
    assert request in shell.run(claims)
    (smart,) = shell.get("pods", "-n", "tensor-fusion-system")["items"]
    assert smart["metadata"]["labels"]["gpu.scheduling/request"] == request
    row = next(one for one in shell.run(smart_pods).splitlines() if one.startswith("smart-gpu-scheduler-h100-"))
    assert row.split()[-1] == "H100"
    assert row.split()[-2] in {one.value for one in IN_FLIGHT}
    assert f"NodeClaim {claim['metadata']['name']} of NodePool gpu-h100 is coming for it" in shell.run(explain)
    until("its node joins", shell.bought)
    (node,) = shell.bought()
    stack.enter_context(Component(shell.plane, "agent", folder, node=node, more=("--node-name", node)))
    until("the pod is bound", lambda: shell.get("pod", "train", "-n", "default")["spec"].get("nodeName"))
    assert shell.get("pod", "train", "-n", "default")["spec"]["nodeName"] == node
    until("the smart pod is gone", lambda: not shell.get("pods", "-n", "tensor-fusion-system")["items"])
    until("the node is open", lambda: "handover" not in json.dumps(shell.get("node", node)["spec"].get("taints", [])))
    assert [one["metadata"]["name"] for one in shell.get("nodeclaims")["items"]] == [claim["metadata"]["name"]]


def _condition(shell: Shell) -> None:
    """A NodePool that loses its startup taint gets our condition, which Karpenter leaves alone."""
    taints = shell.get("nodepool", "gpu-h100")["spec"]["template"]["spec"]["startupTaints"]

    def patch(value: Any, limit: int) -> None:
        spec = {"template": {"spec": {"startupTaints": value}}, "limits": {"nvidia.com/gpu": limit}}
        body = json.dumps({"spec": spec})
        kubectl(shell.plane, "patch", "nodepool", "gpu-h100", "--type=merge", "-p", body)

    def told() -> bool:
        said = shell.get("nodepool", "gpu-h100")["status"]["conditions"]
        return any(one["type"] == "HandoverUnprotected" and one["status"] == "True" for one in said)

    patch([], 64)
    until("the condition", told, 20.0)
    assert "[HandoverUnprotected]" in shell.run("ullage check")
    patch([], 32)  # Karpenter writes the status again
    time.sleep(12.0)
    assert told(), "Karpenter does not take it away"
    ready = {one["type"] for one in shell.get("nodepool", "gpu-h100")["status"]["conditions"]}
    assert "Ready" in ready, "nor do we take away what is Karpenter's"
    patch(taints, 64)
    until("the condition goes", lambda: not told(), 20.0)
