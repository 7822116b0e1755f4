"""Failure modes by their number in docs/karpenter.md, each played on the simulated Karpenter.

Those that other files play: 2, 7, 12, 17, 18, 22, 24 and 28 in test_stories; 11, 14, 15, 21 and 31 in
test_placeholder_stories; 29 in test_alerts.
"""

import asyncio
from dataclasses import replace

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from tests.control.karpenter.stage import Stage, a_controller, a_node_pool, play, settings
from tests.control.karpenter.test_stories import failure
from tests.control.scheduling.stage import LATENCY, NS
from ullage.errors import Invalid
from ullage.kube.client.api import MergePatch
from ullage.kube.client.resources import GPU_CLAIMS, NODE_CLAIMS, NODE_POOLS, NODES, PODS
from ullage.model.karpenter import INSTANCE_TYPE_LABEL, UNCLAIMED
from ullage.model.karpenter_failure import FailureReason
from ullage.model.lifecycles import IN_FLIGHT, SmartPodState
from ullage.observe.karpenter_metrics import KarpenterMetrics
from ullage.sim.apiserver.network_faults import FaultRates, NetworkConditions, NetworkFault
from ullage.sim.karpenter.timings import KarpenterTimings
from ullage.testing.karpenter_cluster import G1, claim_pod_manifest

pytestmark = pytest.mark.story


async def reached(stage: Stage, state: SmartPodState) -> None:
    """Until the first request is that far, or further."""
    order = [one.value for one in IN_FLIGHT]

    async def so_far() -> bool:
        closed = [one for one in (await stage.nodes()).values() if one.closed_for not in (None, UNCLAIMED)]
        if closed or await stage.node_of("a"):
            return True
        if state is SmartPodState.RESERVED:
            return False
        return any(one.state in order[order.index(state.value) :] for one in await stage.smart_pods())

    await stage.until(so_far, every=0.02)


async def served(stage: Stage, seconds: float = 600.0) -> None:
    """Until the pod is bound; then nothing of the request is left."""
    await stage.bound("a", seconds=seconds)
    await stage.settled()
    assert not any(one.kept for one in (await stage.nodes()).values())


def test_06_a_final_word_about_one_mapping_leads_to_the_next() -> None:
    async def story(stage: Stage) -> None:
        await stage.claim_pod("a", 8)
        assert (await failure(stage, "a")).reason is FailureReason.NO_INSTANCE_TYPE
        await served(stage)
        assert len(stage.claims_made) == 1, "bought once"
        node = await stage.api.get(NODES, await stage.node_of("a"))
        assert node.metadata.labels[INSTANCE_TYPE_LABEL] == "g8-gpu8"

    cheap = settings().node_pools["h100"]
    small = msgspec.structs.replace(cheap, name="a-small", labels={INSTANCE_TYPE_LABEL: "g1-gpu1"})
    play(story, chosen=settings(node_pools={"a-small": small, "h100": cheap}))


def test_01_a_gated_pod_asks_for_nothing() -> None:
    async def story(stage: Stage) -> None:
        claim, pod = claim_pod_manifest("a")
        pod["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
        await stage.api.create(GPU_CLAIMS, claim, NS)
        await stage.api.create(PODS, pod, NS)
        await asyncio.sleep(30.0)
        assert not await stage.smart_pods()
        await stage.api.patch(PODS, "a", MergePatch({"spec": {"schedulingGates": None}}), NS)
        await served(stage)

    play(story)


def test_03_26_two_controllers_make_one_smart_pod() -> None:
    async def story(stage: Stage) -> None:
        network, metrics = NetworkConditions(seed=9, latency=LATENCY), KarpenterMetrics(CollectorRegistry())
        second = a_controller(stage.server, settings(), 9, network, metrics, stage.cloud)
        second.start()
        try:
            await asyncio.sleep(3.0)
            await stage.claim_pod("a")
            await served(stage)
            assert len(stage.claims_made) == 1
        finally:
            second.crash()

    play(story)


@pytest.mark.parametrize(("pods", "allowed"), [(10, 3), pytest.param(24, 5, marks=pytest.mark.full)])
def test_05_a_storm_never_has_more_smart_pods_than_allowed(pods: int, allowed: int) -> None:
    names = [f"p{number}" for number in range(pods)]

    async def story(stage: Stage) -> None:
        most = 0

        async def all_bound() -> bool:
            nonlocal most
            most = max(most, len(await stage.smart_pods()))
            return all([await stage.node_of(name) for name in names])

        for name in names:
            await stage.claim_pod(name)
        await stage.until(all_bound, 600.0)
        assert 0 < most <= allowed
        assert len(stage.claims_made) == len(names)

    play(story, chosen=settings(max_in_flight=allowed))


def test_06_a_karpenter_that_says_nothing_is_a_timeout_and_then_a_new_attempt() -> None:
    async def story(stage: Stage) -> None:
        await stage.claim_pod("a")
        assert (await failure(stage, "a")).reason is FailureReason.PENDING_TIMEOUT

        async def asked_again() -> bool:
            return any(one.attempts == 1 for one in await stage.smart_pods())

        await stage.until(asked_again, 30.0)

    slow = KarpenterTimings(batch_idle=60.0, batch_max=60.0)
    play(story, timings=slow, chosen=settings(pending_deadline=20.0))


def test_08_an_instance_that_never_joins_is_lost_and_another_is_bought() -> None:
    async def story(stage: Stage) -> None:
        await stage.claim_pod("a")
        await reached(stage, SmartPodState.LAUNCHED)
        stage.karpenter.types[:] = [G1]
        await served(stage, seconds=1500.0)
        assert len(stage.claims_made) == 2, "Karpenter's own liveness took the first after 15 min"

    play(story, types=(replace(G1, joins=False),))


def test_09_a_node_whose_gpus_never_appear_ends_the_request_and_stays() -> None:
    async def story(stage: Stage) -> None:
        stage.reported_gpus = 0
        await stage.claim_pod("a")
        said = await failure(stage, "a", seconds=900.0)
        assert said.reason is FailureReason.INITIALIZATION_TIMEOUT
        assert (await stage.api.list(NODE_CLAIMS)).items, "the NodeClaim is its owner's to delete"

    play(story, types=(replace(G1, reports_gpus=False),))


@pytest.mark.parametrize("seconds", [900.0, pytest.param(3600.0, marks=pytest.mark.full)])
def test_a_node_that_cannot_suit_the_pod_is_bought_once(seconds: float) -> None:
    """The pod asks for a counted node, and agents make nodes of this pool leased ones: no purchase would help."""

    async def story(stage: Stage) -> None:
        await stage.claim_pod("a", counted=True)
        said = await failure(stage, "a", seconds=900.0)
        assert said.reason is FailureReason.NODE_UNSUITABLE
        assert "NodeSelectorMismatch" in said.message
        await asyncio.sleep(seconds)
        assert len(stage.claims_made) == 1

    play(story)


def test_mig_instances_are_not_bought() -> None:
    async def story(stage: Stage) -> None:
        await stage.claim_pod("a", devices={"exclusivity": "MIG", "memory": "10Gi"})
        said = await failure(stage, "a", seconds=60.0)
        assert said.reason is FailureReason.NO_MAPPING
        assert "MIG" in said.message
        assert not stage.claims_made

    play(story)


@pytest.mark.parametrize("gpus", [0, 4], ids=["10-a-silent-agent", "25-fewer-gpus-than-asked"])
def test_10_25_no_hand_over_before_enough_gpus_are_reported(gpus: int) -> None:
    async def story(stage: Stage) -> None:
        stage.reported_gpus = gpus
        await stage.claim_pod("a", 8)
        said = await failure(stage, "a", seconds=900.0)
        assert said.reason is FailureReason.INVENTORY_TIMEOUT
        assert not await stage.node_of("a")
        assert (await stage.api.list(NODE_CLAIMS)).items

    play(story)


def test_13_a_smart_pod_that_is_kept_from_going_is_waited_for() -> None:
    async def story(stage: Stage) -> None:
        await stage.claim_pod("a")
        await reached(stage, SmartPodState.LAUNCHED)
        (one,) = await stage.smart_pods()
        kept = MergePatch({"metadata": {"finalizers": ["example.com/stay"]}})
        await stage.api.patch(PODS, one.key.name, kept, one.key.namespace)
        await asyncio.sleep(30.0)
        assert not await stage.node_of("a"), "the bind comes only after the smart pod is gone"
        free = MergePatch({"metadata": {"finalizers": None}})
        await stage.api.patch(PODS, one.key.name, free, one.key.namespace)
        await served(stage)

    play(story)


def test_16_a_smart_pod_that_was_evicted_is_asked_for_again() -> None:
    async def story(stage: Stage) -> None:
        await stage.claim_pod("a")
        await reached(stage, SmartPodState.LAUNCHED)
        (one,) = await stage.smart_pods()
        over = MergePatch({"status": {"phase": "Failed", "reason": "Evicted"}})
        await stage.api.patch(PODS, one.key.name, over, one.key.namespace, subresource="status")
        assert (await failure(stage, "a")).reason is FailureReason.SMART_POD_EVICTED
        await served(stage)
        assert len(stage.claims_made) == 1, "the node that was coming serves the next attempt"

    play(story)


def test_19_times_written_by_a_wrong_clock_keep_nobody_waiting() -> None:
    async def story(stage: Stage) -> None:
        await stage.claim_pod("a")
        await reached(stage, SmartPodState.LAUNCHED)
        (one,) = await stage.smart_pods()
        future = {"tensor-fusion.ai/state-since": "2199-01-01T00:00:00Z", "tensor-fusion.ai/attempts": "many"}
        body = MergePatch({"metadata": {"annotations": future}})
        await stage.api.patch(PODS, one.key.name, body, one.key.namespace)
        await served(stage)

    play(story)


@pytest.mark.parametrize("model", ["NVIDIA  X 9000 / (β)", "x" * 128], ids=["spaces", "128-characters"])
def test_20_an_odd_model_name_buys_nothing_and_is_told(model: str) -> None:
    async def story(stage: Stage) -> None:
        await stage.claim_pod("a", devices={"model": model})
        said = await failure(stage, "a", seconds=10.0)
        assert said.reason is FailureReason.NO_MAPPING
        assert "gpuModel" in said.message
        assert not stage.claims_made

    play(story)


def test_20_a_model_of_200_characters_is_refused_by_the_api_server() -> None:
    async def story(stage: Stage) -> None:
        with pytest.raises(Invalid, match=r"spec\.devices\.model: Too long"):
            await stage.claim_pod("a", devices={"model": "x" * 200})

    play(story)


@pytest.mark.parametrize("midway", [False, True], ids=["before", "midway"])
def test_23_a_node_pool_that_is_deleted_is_told_and_one_that_comes_back_serves(midway: bool) -> None:
    async def story(stage: Stage) -> None:
        if midway:
            await stage.claim_pod("a")
            await reached(stage, SmartPodState.PENDING)
        await stage.api.delete(NODE_POOLS, "gpu-h100")
        if not midway:
            await stage.claim_pod("a")
        assert (await failure(stage, "a", seconds=10.0)).reason is FailureReason.NODE_POOL_NOT_FOUND
        await stage.api.create(NODE_POOLS, a_node_pool())
        await served(stage)

    play(story, timings=KarpenterTimings(batch_idle=3.0))


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full), pytest.param(3, marks=pytest.mark.full)])
def test_27_an_api_server_in_trouble_is_asked_again(seed: int) -> None:
    async def story(stage: Stage) -> None:
        often = {NetworkFault.THROTTLED: 0.1, NetworkFault.UNAVAILABLE: 0.1, NetworkFault.LOST: 0.1}
        stage.network.odds = FaultRates(often, stream_cut=0.02)
        for name in ("a", "b", "c"):
            await stage.claim_pod(name)
        await stage.bound("a", "b", "c", seconds=900.0)
        await stage.settled()
        assert len(stage.claims_made) == 3, "nothing twice, however often an answer is lost"

    play(story, seed=seed)


def test_30_two_requests_in_one_batch_are_two_small_nodes() -> None:
    async def story(stage: Stage) -> None:
        for name in ("a", "b"):
            await stage.claim_pod(name)
        await stage.bound("a", "b")
        types = [one.metadata.labels["node.kubernetes.io/instance-type"] for one in (await stage.api.list(NODES)).items]
        assert types == ["g1-gpu1", "g1-gpu1"]

    play(story)
