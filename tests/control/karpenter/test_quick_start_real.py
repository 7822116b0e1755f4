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
from tests.deploy.permissions import declared, denied, named, unused, used
from tests.deploy.seldom import BY_KARPENTER
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
OK = 200
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

    def pod(self, name: str) -> Any:
        return self.get("pod", name, "-n", "default")

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


def set_up(shell: Shell) -> None:
    """A node for the components, and the page's first commands."""
    system = {"apiVersion": "v1", "kind": "Node", **a_node("system-1", gpus=0)}
    system["metadata"]["annotations"] = dict([KWOK_NODE_ANNOTATION])
    kubectl(shell.plane, "apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all([NODE_CLASS, system]))
    for line in blocks("sh")[0].strip().splitlines():
        if line.startswith("ullage check"):
            continue  # below, once the components run
        shell.run(f"{line} --simulate 1xH100-SXM" if "install" in line else line)


def test_the_quick_start_ends_with_a_pod_on_a_node_that_was_bought_for_it(plane: ControlPlane, tmp_path: Path) -> None:
    asking = blocks("sh")[1]
    shell = Shell(plane, tmp_path)
    set_up(shell)
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
    left = {f"{one.verb} {one.resource}.{one.group}" for one in mine - used(log, controller.name, NAMESPACE)}
    seldom = {"delete leases.coordination.k8s.io", "update pods/status."}
    assert left == seldom, "of the feature's rights: a hand-over that fails halfway, and a request that fails"
    _uninstall(shell)


def _uninstall(shell: Shell) -> None:
    """Nothing of ours is left, but for the NodePool, which is the user's, and the pod that runs."""
    assert shell.run("ullage uninstall --yes").splitlines()[-1] == "uninstalled"
    left = kubectl(shell.plane, "get", "namespaces,priorityclasses,nodepools,nodeclaims,crds", "-o", "name").split()
    ours = [one for one in left if "ullage" in one or "tensor-fusion" in one or "gpu.scheduling" in one]
    assert ours == []
    assert "nodepool.karpenter.sh/gpu-h100" in left
    (bought,) = shell.get("nodes", "-l", "karpenter.sh/nodepool")["items"]
    marks = bought["metadata"]["labels"] | bought["metadata"].get("annotations", {})
    assert not [one for one in marks if one.startswith(("gpu.scheduling/", "tensor-fusion.ai/"))]
    assert "karpenter.sh/do-not-disrupt" not in marks
    assert shell.pod("train")["spec"]["nodeName"] == bought["metadata"]["name"]


SHARES = """
apiVersion: gpu.scheduling/v1
kind: GpuClaim
metadata: {name: NAME}
spec: {devices: {count: 1, model: H100, exclusivity: Shared, memory: 20Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: NAME, annotations: {gpu.scheduling/claim: NAME}}
spec:
  containers: [{name: main, image: example.com/serve, resources: {requests: {cpu: "1", memory: 1Gi}}}]
---
"""


def test_the_controllers_own_token_suffices_for_failures_and_for_shared_gpus(
    plane: ControlPlane, tmp_path: Path
) -> None:
    """The condition of a pod that Karpenter cannot serve, which goes with its bind; and a Lease that two pods share."""
    shell = Shell(plane, tmp_path)
    settings = tmp_path / "settings.yaml"
    settings.write_text(settings.read_text().replace("enabled: true", "enabled: true\n  batchWindow: 4s"))
    limit = '{"spec": {"limits": {"nvidia.com/gpu": "0"}}}'
    set_up(shell)
    kubectl(plane, "patch", "nodepool", "gpu-h100", "--type=merge", "-p", limit)
    with ExitStack() as stack:
        for name in ("scheduler", "controller"):
            stack.enter_context(Component(plane, name, tmp_path))
        stack.enter_context(start_webhook(plane, tmp_path))
        kubectl(plane, "apply", "-n", "default", "-f", "-", stdin="".join(SHARES.replace("NAME", one) for one in "ab"))
        until("the condition", lambda: _conditions(shell, "a").get("gpu.scheduling/CapacityAvailable"))
        assert _conditions(shell, "a")["gpu.scheduling/CapacityAvailable"]["reason"] == "NodePoolLimit"
        kubectl(plane, "patch", "nodepool", "gpu-h100", "--type=merge", "-p", limit.replace("0", "8"))
        until("a node joins", shell.bought)
        (node,) = shell.bought()
        stack.enter_context(Component(plane, "agent", tmp_path, node=node, more=("--node-name", node)))
        until("both are bound", lambda: all(shell.pod(one)["spec"].get("nodeName") for one in "ab"))
        until("the conditions go", lambda: not _failures(shell))
    log = plane.audit()
    assert denied(log, NAMESPACE) == [], "every request of ours was allowed by its own role"
    mine = [one for one in log if one.user.endswith(":ullage-controller") and one.allowed and one.code == OK]
    updated = {one.name for one in mine if (one.verb, one.resource) == ("update", "leases")}
    assert f"gpu-{node}-0" in updated, f"the Lease of the GPU that both share: {updated}"
    assert {one.name for one in mine if (one.verb, one.resource) == ("update", "pods/status")} == {"a", "b"}


TWO = """
apiVersion: gpu.scheduling/v1
kind: GpuClaim
metadata: {name: two}
spec: {devices: {count: 2, model: H100}}
---
apiVersion: v1
kind: Pod
metadata: {name: two, annotations: {gpu.scheduling/claim: two}}
spec:
  containers: [{name: main, image: example.com/train, resources: {requests: {cpu: "1", memory: 1Gi}}}]
"""


def test_a_hand_over_that_fails_halfway_gives_back_what_it_took(plane: ControlPlane, tmp_path: Path) -> None:
    """The second GPU of the new node has a Lease that lost its label: nobody's books know it. When it is gone, the
    hand-over goes on."""
    shell = Shell(plane, tmp_path)
    set_up(shell)
    with ExitStack() as stack:
        for name in ("scheduler", "controller"):
            stack.enter_context(Component(plane, name, tmp_path))
        stack.enter_context(start_webhook(plane, tmp_path))
        kubectl(plane, "apply", "-n", "default", "-f", "-", stdin=TWO)
        until("a node joins", shell.bought)
        (node,) = shell.bought()
        meta = {"name": f"gpu-{node}-1", "namespace": NAMESPACE}
        stray = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta}
        stray["spec"] = {"holderIdentity": "somebody"}
        kubectl(plane, "apply", "-f", "-", stdin=yaml.safe_dump(stray))
        agent = Component(plane, "agent", tmp_path, node=node, more=("--node-name", node))
        agent.replace("--simulate", "8xH100-SXM")
        stack.enter_context(agent)
        until("the first GPU's Lease is given back", lambda: f"gpu-{node}-0" in _deleted_leases(plane))
        kubectl(plane, "delete", "lease", meta["name"], "-n", NAMESPACE)
        until("the pod is bound", lambda: shell.pod("two")["spec"].get("nodeName") == node)
        assert shell.pod("two")["metadata"]["annotations"]["gpu.scheduling/allocated"] == f"{node}:0,1"
    log = plane.audit()
    assert denied(log, NAMESPACE) == [], "every request of ours was allowed by its own role"
    assert not unused(log, named(*BY_KARPENTER[-1:]), NAMESPACE)


def _deleted_leases(plane: ControlPlane) -> set[str]:
    return {
        one.name
        for one in plane.audit()
        if one.user.endswith(":ullage-controller") and (one.verb, one.resource) == ("delete", "leases")
    }


def _conditions(shell: Shell, pod: str) -> dict[str, Any]:
    return {one["type"]: one for one in shell.pod(pod)["status"].get("conditions", [])}


def _failures(shell: Shell) -> list[str]:
    """Pods on which a failure is recorded, by the condition or by the annotation."""
    noted = [pod for pod in "ab" if "gpu.scheduling/CapacityAvailable" in _conditions(shell, pod)]
    return noted + [
        pod for pod in "ab" if "gpu.scheduling/capacity-failure" in shell.pod(pod)["metadata"]["annotations"]
    ]


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
    until("the pod is bound", lambda: shell.pod("train")["spec"].get("nodeName"))
    assert shell.pod("train")["spec"]["nodeName"] == node
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
