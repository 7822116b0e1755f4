"""`ullage check` and `ullage top` on a bare cluster, a half-installed one and a healthy one."""

import json
import subprocess

import pytest
import yaml

from tests.deploy.cluster import PROGRAM, kubectl, ullage
from ullage.testing.builders import a_node
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec, GoProgram
from ullage.testing.controlplane.components import KWOK_NODE_ANNOTATION
from ullage.testing.controlplane.fixtures import StartControlPlane

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


def check(plane: ControlPlane) -> tuple[int, dict[str, str]]:
    """Exit code, and sentences by code."""
    command = (PROGRAM, "check", "-o", "json", "--kubeconfig", plane.kubeconfig)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, {one["code"]: one["says"] for one in json.loads(done.stdout)}


def test_a_cluster_on_its_way(start_control_plane: StartControlPlane) -> None:
    programs = (GoProgram.CONTROLLER_MANAGER, GoProgram.SCHEDULER, GoProgram.KWOK)
    plane = start_control_plane(ControlPlaneSpec(components=programs))
    code, found = check(plane)
    assert (code, set(found)) == (1, {"DefinitionsMissing", "NamespaceMissing", "ComponentMissing", "NoGpus"})

    ullage(plane, "install", "--definitions-only", "--apply")
    kubectl(
        plane,
        "apply",
        "--server-side",
        "-f",
        "-",
        stdin=ullage(plane, "install", "--only", "scheduler", "--only", "webhook"),
    )
    code, found = check(plane)
    assert code == 1
    assert set(found) == {"ComponentNotReady", "WebhookUnreachable", "NoGpus"}
    assert "0 of 2 pods are available" in found["ComponentNotReady"]

    node = {"apiVersion": "v1", "kind": "Node", **a_node("gpu-1", gpus=8)}
    node["metadata"]["annotations"] = dict([KWOK_NODE_ANNOTATION])
    kubectl(plane, "apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(node))
    ullage(plane, "install", "--apply", "--only", "scheduler")
    kubectl(plane, "delete", "deployment", "ullage-webhook", "-n", "ullage-system")
    ullage(plane, "webhook", "--remove")
    code, found = check(plane)
    assert set(found) == {"ComponentMissing", "NodesWithoutAgent"}, "the scheduler is well; the webhook is gone"

    shown = ullage(plane, "top", "--once")
    assert shown.startswith("nodes 1   GPUs 8   given out 0 (0 %)   idle 8")
    assert "nobody waits" in shown
