"""Against a real Karpenter with its kwok provider: claims get the nodes bought for them, and nobody else does."""

from pathlib import Path

import pytest
import yaml

from tests.control.karpenter.conftest import KarpenterPrograms
from tests.control.provisioning.conftest import PoolPrograms
from tests.control.scheduling.programs import ALONE
from ullage.kube.client.api import DELETE_NOW, MergePatch
from ullage.kube.client.resources import NODE_CLAIMS, NODE_POOLS, PODS
from ullage.model.karpenter_failure import FailureKind, FailureReason
from ullage.testing.controlplane import ControlPlane
from ullage.testing.karpenter_cluster import (
    NAMESPACE,
    NODE_CLASSES,
    SOLD_OUT,
    KarpenterCluster,
    kwok_node_pool,
    rival_manifest,
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(280)]

NOTHING_LEFT = {
    "nodePool": "gpu-none",
    "gpuModel": "NVIDIA B200",
    "gpuMemory": "180Gi",
    "gpusPerNode": 8,
}
"""Mapping of a NodePool whose only instance type the cloud has none left of."""
SIZES = [
    pytest.param(3, "leased", id="3-claims"),
    pytest.param(10, "leased", id="10-claims", marks=pytest.mark.full),
    pytest.param(3, "counted", id="3-claims-on-counted-nodes", marks=pytest.mark.full),
]


@pytest.mark.parametrize(("count", "mode"), SIZES)
async def test_every_claim_gets_its_node_and_a_rival_gets_none(
    cluster: KarpenterCluster, plane: ControlPlane, programs: KarpenterPrograms, settings: str, count: int, mode: str
) -> None:
    cluster.start_agent = lambda node, gpus: programs.agent(plane.kubeconfig, node, gpus, mode)
    programs.scheduler(plane.kubeconfig, "--settings", settings, ALONE)
    programs.controller(plane.kubeconfig, "--settings", settings, ALONE)
    await cluster.api.create(PODS, rival_manifest(), NAMESPACE)
    names = [f"p{n}" for n in range(count)]
    for name in names:
        await cluster.claim_pod(name, counted=mode == "counted")
    await cluster.bound(*names)
    assert not await cluster.node_of("rival"), "it waited throughout, and tolerates the GPU taint"
    await cluster.settled()
    assert not await cluster.node_of("rival")
    programs.check_running()
    assert len(cluster.claims_made) == count, "exactly the nodes that were needed"
    assert len({await cluster.node_of(name) for name in names}) == count
    assert len((await cluster.api.list(NODE_CLAIMS)).items) == count, "NodeClaims stay"


async def test_what_cannot_be_bought_fails_fast_with_the_reason(
    cluster: KarpenterCluster, plane: ControlPlane, programs: PoolPrograms, settings: str
) -> None:
    programs.scheduler(plane.kubeconfig, "--settings", settings, ALONE)
    programs.controller(plane.kubeconfig, "--settings", settings, ALONE)
    await cluster.claim_pod("large", 9)
    assert (await cluster.failure("large")).reason is FailureReason.LARGER_THAN_ANY_NODE
    await cluster.claim_pod("hungry", cpu="5000")
    assert (await cluster.failure("hungry")).reason is FailureReason.NO_INSTANCE_TYPE, "in Karpenter's own words"
    assert not cluster.claims_made


@pytest.mark.full
@pytest.mark.usefixtures("agents")
async def test_a_gang_gets_all_its_nodes(
    cluster: KarpenterCluster, plane: ControlPlane, programs: PoolPrograms, settings: str
) -> None:
    programs.scheduler(plane.kubeconfig, "--settings", settings, ALONE)
    programs.controller(plane.kubeconfig, "--settings", settings, ALONE)
    members = [f"g{n}" for n in range(4)]
    for name in members:
        await cluster.claim_pod(name, 8, gangRef="g", gangMinMember=4)
    await cluster.bound(*members)
    await cluster.settled()
    assert len(cluster.claims_made) == 4
    assert len({await cluster.node_of(name) for name in members}) == 4


@pytest.mark.full
async def test_limits_are_told_and_a_pod_that_is_deleted_takes_its_smart_pod_along(
    cluster: KarpenterCluster, plane: ControlPlane, programs: PoolPrograms, settings: str
) -> None:
    limits = MergePatch({"spec": {"limits": {"nvidia.com/gpu": 1}}})
    await cluster.api.patch(NODE_POOLS, "gpu-h100", limits)
    programs.scheduler(plane.kubeconfig, "--settings", settings, ALONE)
    programs.controller(plane.kubeconfig, "--settings", settings, ALONE)
    for name in ("a", "b"):
        await cluster.claim_pod(name)
    assert (await cluster.failure("b")).reason is FailureReason.NODE_POOL_LIMIT
    await cluster.claimed()
    await cluster.api.delete(PODS, "a", NAMESPACE, how=DELETE_NOW)

    async def clean() -> bool:
        return not await cluster.smart_pods()

    await cluster.until(clean, 20.0)
    await cluster.bound("b")  # the node that came for a is open
    assert len(cluster.claims_made) == 1


@pytest.mark.full
async def test_an_instance_type_that_the_cloud_has_none_left_of_is_insufficient_capacity(
    cluster: KarpenterCluster, plane: ControlPlane, programs: PoolPrograms, tmp_path: Path
) -> None:
    pool = kwok_node_pool()
    pool["metadata"]["name"] = "gpu-none"
    only = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [SOLD_OUT.name]}
    pool["spec"]["template"]["spec"]["requirements"].append(only)
    await cluster.api.create(NODE_POOLS, pool)
    settings = tmp_path / "short.yaml"
    chosen = {"enabled": True, "pendingDeadline": "15s", "nodePools": {"b200": NOTHING_LEFT}}
    settings.write_text(yaml.safe_dump({"karpenter": chosen}))
    programs.scheduler(plane.kubeconfig, "--settings", str(settings), ALONE)
    programs.controller(plane.kubeconfig, "--settings", str(settings), ALONE)
    try:
        await cluster.claim_pod("a", devices={"model": "B200"})
        said = await cluster.failure("a")
        assert said.reason is FailureReason.NO_OFFERING
        assert said.kind is FailureKind.CAPACITY
        assert said.retry_at > 0, "it is asked again, after a pause"
        assert not cluster.claims_made
    finally:
        await cluster.api.delete(NODE_POOLS, "gpu-none")


@pytest.mark.full
async def test_a_cloud_without_capacity_is_told(
    cluster: KarpenterCluster, plane: ControlPlane, programs: PoolPrograms, settings: str
) -> None:
    """A node class that is gone reads as no capacity in Karpenter's kwok provider."""
    programs.scheduler(plane.kubeconfig, "--settings", settings, ALONE)
    programs.controller(plane.kubeconfig, "--settings", settings, ALONE)
    await cluster.api.patch(NODE_CLASSES, "default", MergePatch({"metadata": {"finalizers": None}}))
    await cluster.api.delete(NODE_CLASSES, "default")
    await cluster.claim_pod("a")
    kinds = (FailureReason.INSUFFICIENT_CAPACITY, FailureReason.NODE_POOL_NOT_READY)
    assert (await cluster.failure("a")).reason in kinds
    assert not await cluster.node_of("a")
