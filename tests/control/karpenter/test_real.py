"""Against a real Karpenter with its kwok provider: claims get the nodes bought for them, and nobody else does."""

from copy import deepcopy
from pathlib import Path

import pytest
import yaml

from tests.control.karpenter.conftest import SPOT_ZONE, KarpenterPrograms
from tests.control.provisioning.conftest import PoolPrograms
from tests.control.scheduling.programs import ALONE
from tests.sim.karpenter.experiments import a_claim_by_hand
from ullage.kube.client.api import DELETE_NOW, MergePatch
from ullage.kube.client.resources import NODE_CLAIMS, NODE_POOLS, PODS
from ullage.kube.read.karpenter import read_node_pool
from ullage.model.karpenter import INSTANCE_TYPE_LABEL, NODE_POOL_LABEL, REQUEST_LABEL, Tristate
from ullage.model.karpenter_failure import FailureReason
from ullage.model.provisioner import ZONE_LABEL
from ullage.testing.controlplane import ControlPlane, GoProgram
from ullage.testing.karpenter_cluster import (
    NAMESPACE,
    NODE_CLASSES,
    SETTINGS,
    KarpenterCluster,
    rival_manifest,
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(280)]

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
    for name in names:
        assert await cluster.is_on_its_own_node(name), f"{name} took a node that was bought for another"
    assert len({await cluster.node_of(name) for name in names}) == count
    assert len((await cluster.api.list(NODE_CLAIMS)).items) == count, "NodeClaims stay"


@pytest.mark.full
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
async def test_a_final_word_about_one_mapping_leads_to_the_next(
    cluster: KarpenterCluster, plane: ControlPlane, programs: PoolPrograms, tmp_path: Path
) -> None:
    both = deepcopy(SETTINGS)
    whole = both["karpenter"]["nodePools"]["h100"]
    both["karpenter"]["nodePools"]["a-small"] = whole | {"labels": {INSTANCE_TYPE_LABEL: "g1-gpu1"}}
    settings = tmp_path / "both.yaml"
    settings.write_text(yaml.safe_dump(both))
    programs.scheduler(plane.kubeconfig, "--settings", str(settings), ALONE)
    programs.controller(plane.kubeconfig, "--settings", str(settings), ALONE)
    await cluster.claim_pod("a", 8)
    said = await cluster.failure("a")
    assert said.reason is FailureReason.NO_INSTANCE_TYPE
    assert [one.mapping for one in said.refused] == ["a-small"]
    await cluster.bound("a")
    await cluster.settled()
    assert len(cluster.claims_made) == 1, "bought once"
    assert await cluster.is_on_its_own_node("a")


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
    assert [name for name in members if not await cluster.is_on_its_own_node(name)] == []
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
async def test_insufficient_capacity_is_told_in_karpenters_words_and_tried_again(
    cluster: KarpenterCluster, plane: ControlPlane, programs: PoolPrograms, tmp_path: Path
) -> None:
    """The kwok provider has capacity for all that a NodePool makes: the request's first NodeClaim is made by hand."""
    settings = tmp_path / "once.yaml"
    settings.write_text(yaml.safe_dump({"karpenter": SETTINGS["karpenter"] | {"maxRetryAttempts": 1}}))
    programs.scheduler(plane.kubeconfig, "--settings", str(settings), ALONE)
    programs.controller(plane.kubeconfig, "--settings", str(settings), ALONE)
    plane.pause(GoProgram.KARPENTER)
    try:
        await cluster.claim_pod("a")
        await cluster.until(cluster.smart_pods)
        (one,) = await cluster.smart_pods()
        claim = a_claim_by_hand("missing")
        claim["metadata"]["labels"] = {REQUEST_LABEL: one.request, NODE_POOL_LABEL: "gpu-h100"}
        await cluster.api.create(NODE_CLAIMS, claim)

        async def noted() -> bool:
            return [smart.node_claim for smart in await cluster.smart_pods()] == ["by-hand"]

        await cluster.until(noted)
    finally:
        plane.resume(GoProgram.KARPENTER)
    said = await cluster.failure("a")
    assert said.reason is FailureReason.INSUFFICIENT_CAPACITY
    assert "resolving node class" in said.message, "Karpenter's own words"
    assert said.retry_at > 0
    await cluster.bound("a")
    await cluster.settled()
    assert len(cluster.claims_made - {"by-hand"}) == 1, "the node that was coming serves the next attempt"


@pytest.mark.full
@pytest.mark.usefixtures("agents")
async def test_a_zone_without_an_offering_is_told_and_the_next_mapping_is_asked(
    cluster: KarpenterCluster, plane: ControlPlane, programs: PoolPrograms, tmp_path: Path
) -> None:
    both = deepcopy(SETTINGS)
    both["karpenter"]["pendingDeadline"] = "15s"
    whole = both["karpenter"]["nodePools"]["h100"]
    both["karpenter"]["nodePools"]["a-spot-only"] = whole | {"labels": {ZONE_LABEL: SPOT_ZONE}}
    settings = tmp_path / "both.yaml"
    settings.write_text(yaml.safe_dump(both))
    programs.scheduler(plane.kubeconfig, "--settings", str(settings), ALONE)
    programs.controller(plane.kubeconfig, "--settings", str(settings), ALONE)
    await cluster.claim_pod("a")
    said = await cluster.failure("a")
    assert said.reason is FailureReason.NO_OFFERING, said
    assert said.exhausted == ("a-spot-only",)
    await cluster.bound("a")
    await cluster.settled()
    assert len(cluster.claims_made) == 1
    assert await cluster.is_on_its_own_node("a")


@pytest.mark.full
async def test_a_node_pool_whose_node_class_is_gone_is_told(
    cluster: KarpenterCluster, plane: ControlPlane, programs: PoolPrograms, settings: str
) -> None:
    """In 1.12.1 it read as no capacity; since then the NodePool is not Ready."""
    programs.scheduler(plane.kubeconfig, "--settings", settings, ALONE)
    programs.controller(plane.kubeconfig, "--settings", settings, ALONE)
    await cluster.api.patch(NODE_CLASSES, "default", MergePatch({"metadata": {"finalizers": None}}))
    await cluster.api.delete(NODE_CLASSES, "default")

    async def unready() -> bool:
        return read_node_pool(await cluster.api.get(NODE_POOLS, "gpu-h100")).ready.status is Tristate.FALSE

    await cluster.until(unready)
    await cluster.claim_pod("a")
    assert (await cluster.failure("a")).reason is FailureReason.NODE_POOL_NOT_READY
    assert not await cluster.node_of("a")
