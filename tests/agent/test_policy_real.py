"""What an agent's token may do on the real API server: what `deploy/agent` says, of its own node."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.agent.test_agent_real import a_program
from tests.contract.expect import eventually
from ullage.errors import ApiError, Forbidden
from ullage.kube.auth.connect import connect
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.edit import edit
from ullage.kube.client.resources import GPU_NODE_STATUSES, NODES, PODS, SECRETS
from ullage.kube.objects.node import KubeNode, KubeTaint
from ullage.testing.builders import a_node
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec, GoProgram
from ullage.testing.controlplane.binaries import find
from ullage.testing.controlplane.fixtures import StartControlPlane

pytestmark = pytest.mark.real

PROGRAM = Path(sys.executable).with_name("ullage")
DEPLOY = Path(__file__).parents[2] / "deploy" / "agent"
MINE, OTHER = "gpu-1", "gpu-2"


@pytest.fixture
def plane(start_control_plane: StartControlPlane) -> ControlPlane:
    plane = start_control_plane(ControlPlaneSpec())
    subprocess.run(
        (PROGRAM, "install", "--definitions-only", "--apply", "--kubeconfig", plane.kubeconfig),
        check=True,
        capture_output=True,
    )
    kubectl(plane, "apply", "-f", str(DEPLOY))
    return plane


def kubectl(plane: ControlPlane, *arguments: str) -> str:
    command = (str(find(GoProgram.KUBECTL)), f"--kubeconfig={plane.kubeconfig}", *arguments)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
async def admin(plane: ControlPlane) -> AsyncIterator[KubeApi]:
    api = connect(plane.kubeconfig)
    for name in (MINE, OTHER):
        await api.create(NODES, a_node(name, labels={"zone": "a"}))
    yield api
    await api.close()


def as_agent(plane: ControlPlane, folder: Path, *bound: str) -> Path:
    """A kubeconfig with a token of the agent's service account, as kubelet gets one for a pod on a node."""
    token = kubectl(plane, "create", "token", "ullage-agent", "-n", "ullage-system", *bound)
    raw = json.loads(kubectl(plane, "config", "view", "--raw", "--flatten", "-o", "json"))
    raw["users"] = [{"name": "agent", "user": {"token": token}}]
    raw["contexts"] = [{"name": "agent", "context": {"cluster": raw["clusters"][0]["name"], "user": "agent"}}]
    raw["current-context"] = "agent"
    path = folder / f"agent-{len(bound)}.kubeconfig"
    path.write_text(json.dumps(raw))
    return path


def of_node(plane: ControlPlane, name: str) -> tuple[str, ...]:
    uid = kubectl(plane, "get", "node", name, "-o", "jsonpath={.metadata.uid}")
    return ("--bound-object-kind=Node", f"--bound-object-name={name}", f"--bound-object-uid={uid}")


async def test_an_agent_does_its_work_with_its_own_role(plane: ControlPlane, admin: KubeApi, tmp_path: Path) -> None:
    access = as_agent(plane, tmp_path, *of_node(plane, MINE))
    with a_program("agent", "--kubeconfig", access, "--node-name", MINE, "--simulate", "2xL4"):
        node = await eventually(
            lambda: admin.get(NODES, MINE), until=lambda now: "nvidia.com/gpu" in now.status.allocatable, seconds=20
        )
    assert node.metadata.labels["gpu.scheduling/node-kind"] == "leased"
    assert "gpu.scheduling/leased" in [taint.key for taint in node.spec.taints]
    assert (await admin.get(GPU_NODE_STATUSES, MINE)).status.total == 2


async def test_a_stolen_token_reaches_no_other_node(plane: ControlPlane, admin: KubeApi, tmp_path: Path) -> None:
    agent = connect(as_agent(plane, tmp_path, *of_node(plane, MINE)))
    await admin.create(GPU_NODE_STATUSES, {"metadata": {"name": OTHER}, "spec": {"nodeName": OTHER}})
    try:
        await eventually(lambda: _refusal(agent, OTHER), until=lambda said: "writes of the node it runs on" in said)
        gpus = MergePatch({"status": {"capacity": {"nvidia.com/gpu": "16"}}})
        with pytest.raises(Forbidden, match="writes of the node it runs on"):
            await agent.patch(NODES, OTHER, gpus, subresource="status")
        report = MergePatch({"status": {"total": 16}})
        with pytest.raises(Forbidden, match="writes of the node it runs on"):
            await agent.patch(GPU_NODE_STATUSES, OTHER, report, subresource="status")
        with pytest.raises(Forbidden, match="writes of the node it runs on"):
            await agent.create(GPU_NODE_STATUSES, {"metadata": {"name": "made-up"}, "spec": {"nodeName": "made-up"}})
        with pytest.raises(Forbidden, match="labels of a Node"):
            await edit(agent, NODES, MINE, "", lambda node: _labelled(node, "zone", "b"))
        with pytest.raises(Forbidden, match="taints of a Node"):
            await edit(agent, NODES, MINE, "", lambda node: _tainted(node, "mine"))
        await edit(agent, NODES, MINE, "", lambda node: _labelled(node, "gpu.scheduling/node-kind", "counted"))
        await edit(agent, NODES, MINE, "", lambda node: _tainted(node, "gpu.scheduling/leased"))
        with pytest.raises(Forbidden):
            await agent.patch(PODS, "p", MergePatch({}), "default")
        with pytest.raises(Forbidden):
            await agent.list(SECRETS, "ullage-system")
    finally:
        await agent.close()


async def test_a_token_of_no_node_writes_nothing(plane: ControlPlane, admin: KubeApi, tmp_path: Path) -> None:
    agent = connect(as_agent(plane, tmp_path))
    try:
        said = await eventually(lambda: _refusal(agent, MINE), until=bool)
        assert "writes of the node it runs on ()" in said
    finally:
        await agent.close()
    assert "x" not in (await admin.get(NODES, MINE)).metadata.labels


async def _refusal(api: KubeApi, node: str) -> str:
    """Why a label of an agent's own cannot be written there; nothing if it can: policies are heard of late."""
    try:
        for kind in ("leased", "counted"):  # the second write changes something whatever the first did
            await edit(api, NODES, node, "", partial(_labelled, key="gpu.scheduling/node-kind", value=kind))
    except ApiError as error:
        return error.message
    return ""


def _labelled(node: KubeNode, key: str, value: str) -> KubeNode:
    return replace(node, metadata=replace(node.metadata, labels={**node.metadata.labels, key: value}))


def _tainted(node: KubeNode, key: str) -> KubeNode:
    taints = (*node.spec.taints, KubeTaint(key=key, value="true", effect="NoSchedule"))
    return replace(node, spec=replace(node.spec, taints=taints))
