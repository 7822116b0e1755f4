"""With the real webhook registered: the controller's smart pods reach leased nodes, and nobody else's pods do."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control.provisioning.conftest import PoolPrograms
from tests.control.scheduling.programs import ALONE
from tests.webhook.programs import DEPLOY, PROGRAM, Site, WebhookProgram
from ullage.kube.client.resources import PODS
from ullage.model.karpenter import COMPONENT_LABEL, SMART_SCHEDULER
from ullage.testing.builders import a_pod
from ullage.testing.controlplane import ControlPlane
from ullage.testing.karpenter_cluster import NAMESPACE, KarpenterCluster

pytestmark = [pytest.mark.real, pytest.mark.timeout(280)]

CONTROLLER = "system:serviceaccount:ullage-system:ullage-controller"
CLAIM_POD = """
apiVersion: gpu.scheduling/v1
kind: GpuClaim
metadata: {name: a}
spec: {devices: {count: 1}}
---
apiVersion: v1
kind: Pod
metadata: {name: a, annotations: {gpu.scheduling/claim: a}}
spec:
  containers: [{name: main, image: example.test/train, resources: {requests: {cpu: "1", memory: 1Gi}}}]
"""


@pytest.fixture
def site(plane: ControlPlane, cluster: KarpenterCluster) -> Iterator[Site]:
    """The users there are, with what `ullage install` brings."""
    del cluster
    with Site(plane) as found:
        found.kubectl("apply", "-f", str(DEPLOY / "rbac.yaml"), kubeconfig=plane.kubeconfig)
        subprocess.run(
            (PROGRAM, "install", "--definitions-only", "--apply", "--kubeconfig", plane.kubeconfig),
            check=True,
            capture_output=True,
        )
        yield found


async def test_a_pod_of_kubectl_with_a_claim_and_nothing_else_gets_a_node_bought(
    cluster: KarpenterCluster, site: Site, programs: PoolPrograms, settings: str, tmp_path: Path
) -> None:
    with WebhookProgram(site, tmp_path):
        programs.scheduler(site.scheduler, "--settings", settings, ALONE)
        as_controller = site.plane.kubeconfig_for(CONTROLLER, ["system:masters"])
        programs.controller(as_controller, "--settings", settings, ALONE)
        site.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=CLAIM_POD)
        await cluster.bound("a")
        await cluster.settled()
        assert len(cluster.claims_made) == 1
        stored = await cluster.api.get(PODS, "a", NAMESPACE)
        assert stored.spec.node_selector == {"gpu.scheduling/node-kind": "leased"}
        forged = a_pod(
            "forged",
            gpus=1,
            labels={COMPONENT_LABEL: SMART_SCHEDULER},
            tolerations=[{"key": "gpu.scheduling/leased", "operator": "Exists"}],
        )
        body = json.dumps({"apiVersion": "v1", "kind": "Pod"} | forged)
        site.kubectl("create", "-n", NAMESPACE, "-f", "-", stdin=body)
        spec = (await cluster.api.get(PODS.whole(), "forged", NAMESPACE))["spec"]
        assert "node-kind" in json.dumps(spec["affinity"]), "a user's pod with a smart pod's labels is kept off"
