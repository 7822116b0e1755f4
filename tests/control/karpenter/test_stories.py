"""Claims that find no GPU, in virtual time: Karpenter buys the node, and they get it, whoever else waits or dies."""

import asyncio
from dataclasses import replace

import pytest

from tests.control.karpenter.stage import Stage, a_node_pool, install_karpenter, play, settings
from tests.control.scheduling.stage import NS
from ullage.decide.karpenter.retry import read_failure
from ullage.kube.client.api import MergePatch
from ullage.kube.client.resources import NODE_CLAIMS, NODE_POOLS, PODS
from ullage.kube.read import read_pod
from ullage.model.device import GpuNodeKind
from ullage.model.karpenter_failure import FailureReason, RecordedFailure
from ullage.model.lifecycles import IN_FLIGHT, SmartPodState
from ullage.testing.karpenter_cluster import G1, G8

pytestmark = pytest.mark.story


async def failure(stage: Stage, name: str, seconds: float = 200.0) -> RecordedFailure:
    """Until a waiting pod says why it got no node."""

    async def said() -> bool:
        return bool(read_pod(await stage.pod(name)).capacity_failure)

    await stage.until(said, seconds)
    found = read_failure(read_pod(await stage.pod(name)).capacity_failure)
    assert found is not None
    return found


def test_a_claim_gets_the_node_that_was_bought_for_it() -> None:
    async def story(stage: Stage) -> None:
        await stage.claim_pod("a")
        took = await stage.bound("a")
        node = await stage.node_of("a")
        await stage.settled()
        assert took < 15.0, "batch, launch, boot, report and hand-over"
        assert len(stage.claims_made) == 1
        assert (await stage.nodes())[node].kept is False, "Karpenter may disrupt it again"
        told = (await stage.told("a"))["ScaleUpTriggered"]
        assert "insufficient GPU resources in pool h100, auto-scaling triggered" in told
        conditions = {one.reason for one in (await stage.pod("a")).status.conditions}
        assert "Unschedulable" not in conditions, "Karpenter must not see the claim pod itself"

    play(story)


@pytest.mark.parametrize("kind", [GpuNodeKind.LEASED, pytest.param(GpuNodeKind.COUNTED, marks=pytest.mark.full)])
def test_ten_claims_get_their_nodes_and_a_rival_gets_none(kind: GpuNodeKind) -> None:
    names = [f"p{n}" for n in range(10)]

    async def story(stage: Stage) -> None:
        await stage.rival()
        for name in names:
            await stage.claim_pod(name, counted=kind is GpuNodeKind.COUNTED)
        await stage.bound(*names)
        assert not await stage.node_of("rival"), "it was pending throughout, and tolerates the GPU taint"
        await stage.settled()
        assert len(stage.claims_made) == 10
        assert len({await stage.node_of(name) for name in names}) == 10

    play(story, gpu_kind=kind)


def test_an_unprotected_node_pool_gets_the_condition_and_the_claim_is_served_in_the_end() -> None:
    async def conditions(stage: Stage) -> dict[str, str]:
        raw = await stage.api.get(NODE_POOLS.whole(), "gpu-h100")
        return {one["type"]: one["message"] for one in raw.get("status", {}).get("conditions", [])}

    async def story(stage: Stage) -> None:
        ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "Karpenter's own"}
        await stage.api.patch(
            NODE_POOLS, "gpu-h100", MergePatch({"status": {"conditions": [ready]}}), subresource="status"
        )
        await stage.claim_pod("a")
        await stage.bound("a")
        await stage.settled()
        said = await conditions(stage)
        assert set(said) == {"Ready", "HandoverUnprotected"}
        assert "spec.template.spec.startupTaints" in said["HandoverUnprotected"]
        pool = a_node_pool()
        await stage.api.patch(NODE_POOLS, "gpu-h100", MergePatch({"spec": {"template": pool["spec"]["template"]}}))

        async def gone() -> bool:
            return set(await conditions(stage)) == {"Ready"}

        await stage.until(gone, 10.0)

    play(story, pools=[a_node_pool(protected=False)])


def test_a_gang_is_bound_whole() -> None:
    members = [f"g{n}" for n in range(4)]

    async def story(stage: Stage) -> None:
        for name in members:
            await stage.claim_pod(name, 8, gangRef="g", gangMinMember=4)
        await stage.bound(*members)
        await stage.settled()
        assert len(stage.claims_made) == 4
        assert len({await stage.node_of(name) for name in members}) == 4

    play(story)


def test_capacity_that_came_for_a_gang_that_failed_serves_the_next_request() -> None:
    """Karpenter may buy one node of eight GPUs for a gang of two: it fails, and its node is not wasted."""

    async def story(stage: Stage) -> None:
        for name in ("g0", "g1"):
            await stage.claim_pod(name, 8, gangRef="g", gangMinMember=2)
        reasons = {(await failure(stage, name)).reason for name in ("g0", "g1")}
        assert reasons == {FailureReason.NODE_POOL_LIMIT, FailureReason.GANG_MEMBER_FAILED}
        assert not [name for name in ("g0", "g1") if await stage.node_of(name)], "all or nothing"
        await stage.claim_pod("next", 8)
        await stage.bound("next", seconds=60.0)
        await stage.settled()
        assert len(stage.claims_made) == 1, "the node that came for the gang was taken before Karpenter emptied it"

    # Limits are in CPU, which only Karpenter counts: the first node is bought, the second is not.
    play(story, pools=[a_node_pool(limits={"cpu": "100"})], types=(G8,))


def test_more_gpus_than_any_node_has_fails_at_once_and_buys_nothing() -> None:
    async def story(stage: Stage) -> None:
        await stage.claim_pod("a", 9)
        said = await failure(stage, "a", seconds=5.0)
        assert said.reason is FailureReason.LARGER_THAN_ANY_NODE
        assert "gpusPerNode" in (await stage.told("a"))["ScaleUpFailed"]
        assert not stage.claims_made

    play(story)


def test_what_karpenter_cannot_make_is_told_in_its_words() -> None:
    async def story(stage: Stage) -> None:
        await stage.claim_pod("a", 8)
        said = await failure(stage, "a", seconds=20.0)
        assert said.reason is FailureReason.NO_INSTANCE_TYPE
        assert not await stage.smart_pods()
        assert not stage.claims_made

    play(story, types=(G1,))


def test_a_cloud_without_capacity_is_asked_again_until_it_has_some() -> None:
    async def story(stage: Stage) -> None:
        await stage.claim_pod("a")
        said = await failure(stage, "a")
        assert said.reason is FailureReason.INSUFFICIENT_CAPACITY
        assert said.attempts == 3
        stage.karpenter.types[:] = [G1]
        await stage.bound("a", seconds=600.0)
        await stage.settled()

    play(story, types=(replace(G1, available=False),))


def test_limits_of_the_node_pool_are_kept_and_told() -> None:
    async def story(stage: Stage) -> None:
        for name in ("a", "b"):
            await stage.claim_pod(name)
        said = await failure(stage, "b")
        assert said.reason is FailureReason.NODE_POOL_LIMIT
        await stage.bound("a")
        assert len(stage.claims_made) == 1
        await stage.api.patch(NODE_POOLS, "gpu-h100", MergePatch({"spec": {"limits": {"nvidia.com/gpu": 2}}}))
        await stage.bound("b")

    play(story, pools=[a_node_pool(limits={"nvidia.com/gpu": 1})], types=(G1,))


def test_a_pod_that_is_deleted_takes_its_smart_pod_along_and_the_node_serves_the_next() -> None:
    async def story(stage: Stage) -> None:
        await stage.claim_pod("a")

        async def launched() -> bool:
            return any(one.state == "Launched" for one in await stage.smart_pods())

        await stage.until(launched)
        await stage.leave("a")
        await stage.claim_pod("b")
        await stage.bound("b")
        await stage.settled()
        assert len(stage.claims_made) == 1, "the node that was coming is taken, and none is bought"

    play(story)


def test_a_node_nobody_wants_any_more_is_left_to_karpenter() -> None:
    async def story(stage: Stage) -> None:
        await stage.claim_pod("a")

        async def launched() -> bool:
            return any(one.state == "Launched" for one in await stage.smart_pods())

        await stage.until(launched)
        await stage.leave("a")

        async def gone() -> bool:
            return not (await stage.api.list(NODE_CLAIMS)).items and not await stage.nodes()

        await stage.until(gone, 200.0)
        assert not await stage.smart_pods()

    play(story)


@pytest.mark.parametrize("state", [*IN_FLIGHT, SmartPodState.HANDED_OVER])
def test_a_controller_that_dies_at_any_state_goes_on_where_it_was(state: SmartPodState) -> None:
    async def story(stage: Stage) -> None:
        await stage.claim_pod("a")

        async def reached() -> bool:
            if state is SmartPodState.HANDED_OVER:
                closed = [one for one in (await stage.nodes()).values() if one.handover is not None]
                return bool(closed) and not await stage.smart_pods()
            if state is SmartPodState.RESERVED:
                return any(one.handover is not None for one in (await stage.nodes()).values())
            return any(one.state == state.value for one in await stage.smart_pods()) or bool(await stage.node_of("a"))

        await stage.until(reached, every=0.01)
        stage.controller.crash()
        await asyncio.sleep(3.0)
        stage.controller.restart()
        await stage.bound("a")
        await stage.settled()
        assert len(stage.claims_made) == 1, "no duplicate"

    play(story)


def test_karpenter_that_is_installed_later_is_picked_up() -> None:
    async def story(stage: Stage) -> None:
        await stage.claim_pod("a")
        said = await failure(stage, "a", seconds=10.0)
        assert said.reason is FailureReason.NOT_INSTALLED
        assert "nodepools.karpenter.sh" in (await stage.told("a"))["ScaleUpFailed"]
        assert stage.registry.get_sample_value("tensor_fusion_karpenter_installed") == 0
        await asyncio.sleep(40.0)
        assert not await stage.smart_pods()
        await install_karpenter(stage.api, [a_node_pool()])
        await stage.bound("a")
        await stage.settled()

        assert stage.registry.get_sample_value("tensor_fusion_karpenter_installed") == 1

    play(story, served=False)


def test_shares_of_one_gpu_come_with_one_node() -> None:
    names = [f"s{n}" for n in range(4)]

    async def story(stage: Stage) -> None:
        for name in names:
            await stage.claim_pod(name, devices={"exclusivity": "Shared", "memory": "20Gi"})
        await stage.bound(*names)
        await stage.settled()
        assert len(stage.claims_made) == 1

    play(story, types=(G1, G8))


def test_a_smart_pod_somebody_deletes_is_made_again() -> None:
    async def story(stage: Stage) -> None:
        await stage.claim_pod("a")

        async def there() -> bool:
            return bool(await stage.smart_pods())

        await stage.until(there)
        (one,) = await stage.smart_pods()
        await stage.api.delete(PODS, one.key.name, one.key.namespace)
        await stage.bound("a")
        await stage.settled()
        assert (await stage.pod("a")).metadata.namespace == NS

    play(story, chosen=settings(max_in_flight=1))
