"""Failure modes 11, 14, 15, 21 and 31 of docs/karpenter.md on the simulated Karpenter: the smart pod and its node."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.control.karpenter.stage import Stage, a_node_pool, play, settings
from tests.control.karpenter.test_failure_stories import reached, served
from tests.control.karpenter.test_stories import failure
from tests.control.scheduling.stage import NS
from ullage.decide.karpenter.smart_pod import LONGEST_REQUEST
from ullage.kube.client.resources import GPU_CLAIMS, NODE_CLAIMS, NODES, PODS, PRIORITY_CLASSES
from ullage.model.device import Inventory
from ullage.model.karpenter import NODE_POOL_LABEL, ORIGINAL_REQUEST, REQUEST_LABEL
from ullage.model.karpenter_failure import FailureReason
from ullage.model.lifecycles import SmartPodState
from ullage.model.provisioner import GpuTemplate
from ullage.model.units import Bytes, Instant
from ullage.sim.karpenter.timings import KarpenterTimings
from ullage.testing.karpenter_cluster import G1, GIB, H100, claim_pod_manifest
from ullage.testing.karpenter_cluster import SMART_NAMESPACE as SMART

pytestmark = pytest.mark.story


async def handed_over(stage: Stage) -> str:
    """Until the smart pod is gone and its node still closed; returns the node."""

    async def closed() -> bool:
        return bool(await _closed(stage)) and not await stage.smart_pods()

    await stage.until(closed, every=0.01)
    return (await _closed(stage))[0]


async def _closed(stage: Stage) -> list[str]:
    return [name for name, one in (await stage.nodes()).items() if one.handover is not None]


def jumps(stage: Stage) -> float | None:
    return stage.registry.get_sample_value("tensor_fusion_lifecycle_jumps_total")


def test_11_a_smart_pod_on_a_node_that_was_there_needs_no_node_claim() -> None:
    """A node with the label of the request is free before Karpenter has made one, which takes it a minute here."""

    async def story(stage: Stage) -> None:
        await stage.claim_pod("a")
        await reached(stage, SmartPodState.PENDING)
        (one,) = await stage.smart_pods()
        labels = {REQUEST_LABEL: one.request, NODE_POOL_LABEL: "gpu-h100", "tensor-fusion.ai/managed": "true"}
        room = {"cpu": "12", "memory": "96Gi", "pods": "110", "nvidia.com/gpu": "1"}
        ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        status = {"capacity": room, "allocatable": room, "conditions": ready}
        await stage.api.create(NODES, {"metadata": {"name": "freed", "labels": labels}, "status": status})
        devices = GpuTemplate(model=H100, count=1, memory=Bytes(80 * GIB)).devices("freed")
        stage.agents.install(Inventory(node="freed", reported_at=Instant(0.0), devices=devices))
        await served(stage, seconds=30.0)
        assert await stage.node_of("a") == "freed"
        assert not stage.claims_made
        assert not jumps(stage)

    play(story, timings=KarpenterTimings(batch_idle=60.0, batch_max=60.0))


def test_14_a_node_is_kept_until_its_pod_is_bound_however_long_that_takes() -> None:
    """Karpenter takes an empty node after 45 s; our scheduler is away for 70 s."""

    async def story(stage: Stage) -> None:
        await stage.claim_pod("a")
        await reached(stage, SmartPodState.LAUNCHED)
        stage.scheduler.crash()
        node = await handed_over(stage)
        await asyncio.sleep(70.0)
        assert (await stage.nodes())[node].kept
        stage.scheduler.restart()
        await served(stage)
        assert await stage.node_of("a") == node
        assert len(stage.claims_made) == 1

    play(story)


def test_14_a_node_that_is_removed_before_the_bind_is_lost_and_another_is_bought() -> None:
    async def story(stage: Stage) -> None:
        await stage.claim_pod("a")
        await reached(stage, SmartPodState.LAUNCHED)
        stage.scheduler.crash()
        node = await handed_over(stage)
        (claim,) = (await stage.api.list(NODE_CLAIMS)).items
        await stage.api.delete(NODE_CLAIMS, claim.metadata.name)
        assert (await failure(stage, "a")).reason is FailureReason.HANDOVER_LOST
        stage.scheduler.restart()
        await served(stage)
        assert await stage.node_of("a") != node
        assert stage.registry.get_sample_value("tensor_fusion_handover_lost_total") == 1

    play(story)


def while_the_agent_is_silent(priority: int, story: Callable[[Stage], Awaitable[None]]) -> None:
    """Smart pods of this priority, and a NodePool whose nodes are open to everybody."""

    async def staged(stage: Stage) -> None:
        body = {"metadata": {"name": "smart"}, "value": priority, "preemptionPolicy": "Never"}
        await stage.api.create(PRIORITY_CLASSES, body)
        stage.reported_gpus = 0
        await stage.claim_pod("a")
        await reached(stage, SmartPodState.INITIALIZED)
        await story(stage)

    play(staged, chosen=settings(priority_class="smart"), pools=[a_node_pool(protected=False)], types=(G1,))


@pytest.mark.parametrize(("priority", "taken"), [(0, False), (-10, True)], ids=["as-shipped", "negative"])
def test_15_an_ordinary_pod_preempts_smart_pods_of_negative_priority_only(priority: int, taken: bool) -> None:
    async def story(stage: Stage) -> None:
        await stage.rival()
        await asyncio.sleep(60.0)
        assert bool(await stage.node_of("rival")) is taken
        assert bool(await stage.smart_pods()) is not taken
        assert len(stage.claims_made) == 1

    while_the_agent_is_silent(priority, story)


@pytest.mark.parametrize(("priority", "stays"), [(0, True), (-(1 << 25), False)], ids=["as-shipped", "far-too-low"])
def test_15_a_node_counts_as_empty_under_a_smart_pod_of_far_too_low_priority(priority: int, stays: bool) -> None:
    async def story(stage: Stage) -> None:
        (first,) = (await stage.api.list(NODE_CLAIMS)).items
        await asyncio.sleep(70.0)
        there = {one.metadata.uid for one in (await stage.api.list(NODE_CLAIMS)).items}
        assert (first.metadata.uid in there) is stays, "where it goes, the request asks for another one"

    while_the_agent_is_silent(priority, story)


def test_21_a_request_is_kept_short_and_without_secrets() -> None:
    async def story(stage: Stage) -> None:
        claim, pod = claim_pod_manifest("a")
        zones = [f"zone-{number:03}-{'x' * 50}" for number in range(400)]
        terms = [{"matchExpressions": [{"key": "example.com/zone", "operator": "NotIn", "values": zones}]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        pod["spec"]["affinity"] = {"nodeAffinity": required}
        pod["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": "hunter2"}]
        await stage.api.create(GPU_CLAIMS, claim, NS)
        await stage.api.create(PODS, pod, NS)
        await reached(stage, SmartPodState.PENDING)
        (raw,) = (await stage.api.list(PODS.whole(), SMART)).items
        kept = raw["metadata"]["annotations"][ORIGINAL_REQUEST]
        assert len(kept) <= LONGEST_REQUEST
        assert "hunter2" not in str(raw)
        await served(stage)
        assert len(stage.claims_made) == 1, "what was left out is not taken for a change of the request"

    play(story)


def test_31_a_smart_pod_is_bound_before_its_node_claim_says_registered() -> None:
    async def story(stage: Stage) -> None:
        await stage.claim_pod("a")

        async def bound() -> bool:
            return any(one.node for one in await stage.smart_pods())

        await stage.until(bound, every=0.01)
        (claim,) = (await stage.api.list(NODE_CLAIMS.whole())).items
        told = {one["type"]: one["status"] for one in claim["status"]["conditions"]}
        assert (told["Launched"], told["Registered"]) == ("True", "Unknown")
        await served(stage, seconds=15.0)
        assert not jumps(stage)
        assert len(stage.claims_made) == 1

    play(story, timings=KarpenterTimings(registration_shown=5.0))
