"""Against a real Karpenter: the node is bought where the pod's volume is, and none where it could not be."""

import pytest

from tests.control.karpenter.conftest import SPOT_ZONE, KarpenterPrograms
from tests.control.scheduling.programs import ALONE
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import GPU_CLAIMS, NODES, PERSISTENT_VOLUMES, PODS, VOLUME_CLAIMS
from ullage.model.karpenter_failure import FailureKind, RequestFailure
from ullage.model.provisioner import HOST_LABEL, ZONE_LABEL
from ullage.testing.controlplane import ControlPlane
from ullage.testing.karpenter_cluster import NAMESPACE, KarpenterCluster, claim_pod_manifest

pytestmark = [pytest.mark.real, pytest.mark.full, pytest.mark.timeout(280)]

HERE = "zone-a"


async def _volume(api: KubeApi, name: str, label: str, value: str) -> None:
    """A volume that nodes with this label reach, and the claim it is bound to."""
    terms = [{"matchExpressions": [{"key": label, "operator": "In", "values": [value]}]}]
    common: JsonObject = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    spec = common | {
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": f"/{name}"},
        "claimRef": {"namespace": NAMESPACE, "name": name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }
    await api.create(PERSISTENT_VOLUMES, {"metadata": {"name": name}, "spec": spec})
    wanted = common | {"volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
    await api.create(VOLUME_CLAIMS, {"metadata": {"name": name}, "spec": wanted}, NAMESPACE)


async def _claim_pod(cluster: KarpenterCluster, name: str) -> None:
    """A claim pod that mounts the volume of its name."""
    claim, body = claim_pod_manifest(name)
    body["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    await cluster.api.create(GPU_CLAIMS, claim, NAMESPACE)
    await cluster.api.create(PODS, body, NAMESPACE)


@pytest.mark.usefixtures("agents")
async def test_a_node_is_bought_where_the_volume_is(
    cluster: KarpenterCluster, plane: ControlPlane, programs: KarpenterPrograms, settings: str
) -> None:
    programs.scheduler(plane.kubeconfig, "--settings", settings, ALONE)
    programs.controller(plane.kubeconfig, "--settings", settings, ALONE)
    for name, label, value in (
        ("near", ZONE_LABEL, HERE),
        ("far", "topology.gke.io/zone", SPOT_ZONE),
        ("own", HOST_LABEL, "another-node"),
    ):
        await _volume(cluster.api, name, label, value)
        await _claim_pod(cluster, name)
    await cluster.bound("near")
    node = await cluster.api.get(NODES, await cluster.node_of("near"))
    assert node.metadata.labels[ZONE_LABEL] == HERE
    said = await cluster.failure("far")
    assert RequestFailure(said.reason, "").kind is FailureKind.PERMANENT, said
    assert "topology.gke.io/zone" in said.message, "in Karpenter's words"
    await cluster.settled()
    assert len(cluster.claims_made) == 1, "nothing is bought for a volume of another cloud, nor for a node's own disk"
