"""`ullage plan drain` on a real API server: it reads, and changes nothing."""

import asyncio
import json
import sys
from pathlib import Path
from subprocess import CompletedProcess, run

import pytest

from ullage.kube.auth.connect import connect
from ullage.kube.client.api import Deletion
from ullage.kube.client.resources import NODES, PODS
from ullage.testing.builders import a_node, a_pod
from ullage.testing.controlplane import ControlPlane, ControlPlaneSpec
from ullage.testing.controlplane.fixtures import StartControlPlane

PROGRAM = Path(sys.executable).with_name("ullage")
SAFE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}


def planned(control_plane: ControlPlane) -> CompletedProcess[str]:
    options = ("--kubeconfig", control_plane.kubeconfig, "--pool", "drain-plan", "-o", "json")
    called = (PROGRAM, "plan", "drain", *options)
    return run(called, capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"})


@pytest.mark.real
async def test_the_cluster_is_read_and_not_changed(start_control_plane: StartControlPlane) -> None:
    control_plane = start_control_plane(ControlPlaneSpec())  # pods that others left would look for a place, too
    labels = {"gpu.scheduling/provisioner": "drain-plan"}
    api = connect(control_plane.kubeconfig)
    try:
        for name, cpu in (("drain-plan-a", "4"), ("drain-plan-b", "20")):
            await api.create(NODES, a_node(name, labels=labels))
            body = a_pod(f"on-{name}", annotations=SAFE, requests={"cpu": cpu}, nodeName=name, nodeSelector=labels)
            await api.create(PODS, body, "default")
        before = {one.metadata.name: one.metadata.resource_version for one in (await api.list(NODES)).items}
        done = await asyncio.to_thread(planned, control_plane)
        after = {one.metadata.name: one.metadata.resource_version for one in (await api.list(NODES)).items}
    finally:
        for name in ("drain-plan-a", "drain-plan-b"):
            await api.delete(PODS, f"on-{name}", "default", how=Deletion(grace_seconds=0))
            await api.delete(NODES, name)
        await api.close()
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    moves = [{"pod": "default/on-drain-plan-a", "to": "drain-plan-b"}]
    assert plan["removable"] == [
        {"node": "drain-plan-a", "empty": False, "reason": "Underutilized", "moves": moves},
    ], plan
    assert {"node": "drain-plan-b", "reason": "NotUnderutilized", "pod": None} in plan["unremovable"]
    assert after == before
