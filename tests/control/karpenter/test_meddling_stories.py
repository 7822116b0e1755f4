"""Users who edit or delete anything, and neighbours that stop, die or lag, at any state: the pod is served.

The default run tells one story of each kind; the whole table is in the full one.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.control.karpenter.stage import Stage, a_node_pool, play
from tests.control.karpenter.test_failure_stories import reached, served
from tests.control.karpenter.test_placeholder_stories import handed_over
from tests.control.karpenter.test_stories import failure
from tests.control.scheduling.stage import LATENCY, LEASE_NAMESPACE, NS
from ullage.errors import NotFound
from ullage.kube.client.api import DELETE_NOW, MergePatch
from ullage.kube.client.resources import LEASES, NODE_CLAIMS, NODE_POOLS, NODES, PODS
from ullage.model.karpenter import DO_NOT_DISRUPT, HANDOVER, ORIGINAL_REQUEST, REQUEST_LABEL
from ullage.model.lifecycles import IN_FLIGHT
from ullage.model.lifecycles import SmartPodState as S
from ullage.testing.karpenter_cluster import G1, claim_pod_manifest

pytestmark = pytest.mark.story

Act = Callable[[Stage], Awaitable[Any]]
STATES = (*IN_FLIGHT, S.HANDED_OVER)


async def at(stage: Stage, state: S) -> None:
    """Until the request is that far. Hand-overs last long enough to be met: the scheduler is away for a while."""
    if state is not S.HANDED_OVER:
        await reached(stage, state)
        return
    await reached(stage, S.LAUNCHED)
    stage.scheduler.crash()
    await handed_over(stage)
    asyncio.get_running_loop().call_later(6.0, stage.scheduler.restart)


# Users.


async def delete_smart_pod(stage: Stage) -> None:
    for one in await stage.smart_pods():
        await stage.api.delete(PODS, one.key.name, one.key.namespace, how=DELETE_NOW)


async def delete_node_claim(stage: Stage) -> None:
    for one in (await stage.api.list(NODE_CLAIMS)).items:
        await stage.api.delete(NODE_CLAIMS, one.metadata.name)


async def delete_node(stage: Stage) -> None:
    for one in (await stage.api.list(NODES)).items:
        await stage.api.delete(NODES, one.metadata.name)


async def delete_node_pool(stage: Stage) -> None:
    """Its NodeClaims go with it; somebody makes it again."""
    await stage.api.delete(NODE_POOLS, "gpu-h100")
    await delete_node_claim(stage)
    await asyncio.sleep(20.0)
    await stage.api.create(NODE_POOLS, a_node_pool())


async def delete_leases(stage: Stage) -> None:
    for one in (await stage.api.list(LEASES, LEASE_NAMESPACE)).items:
        if HANDOVER.split("/")[0] in str(one.metadata.labels):
            await stage.api.delete(LEASES, one.metadata.name, LEASE_NAMESPACE)


async def remove_taints(stage: Stage) -> None:
    for one in (await stage.api.list(NODES)).items:
        await stage.api.patch(NODES, one.metadata.name, MergePatch({"spec": {"taints": []}}))


async def change_taint(stage: Stage) -> None:
    for one in (await stage.api.list(NODES)).items:
        taints = [{"key": HANDOVER, "value": "mine", "effect": "NoSchedule"}]
        await stage.api.patch(NODES, one.metadata.name, MergePatch({"spec": {"taints": taints}}))


async def remove_annotations(stage: Stage) -> None:
    for one in (await stage.api.list(NODES)).items:
        body = MergePatch({"metadata": {"annotations": {HANDOVER: None, DO_NOT_DISRUPT: None}}})
        await stage.api.patch(NODES, one.metadata.name, body)


async def unlabel_node(stage: Stage) -> None:
    for one in (await stage.api.list(NODES)).items:
        await stage.api.patch(NODES, one.metadata.name, MergePatch({"metadata": {"labels": {REQUEST_LABEL: None}}}))


async def forget_request(stage: Stage) -> None:
    await _rewrite_request(stage, "{}")


async def ask_for_more(stage: Stage) -> None:
    """A readable request, which is not the pod's."""
    for one in await stage.smart_pods():
        assert one.original is not None
        more = msgspec.structs.replace(one.original, gpu_count=8, fingerprint="edited", mapping="nowhere")
        await _rewrite_request(stage, msgspec.json.encode(more).decode())


async def ask_for_another_pod(stage: Stage) -> None:
    for one in await stage.smart_pods():
        assert one.original is not None
        nobody = msgspec.structs.replace(one.original.pods[0], uid="somebody-else")
        other = msgspec.structs.replace(one.original, pods=(nobody,))
        await _rewrite_request(stage, msgspec.json.encode(other).decode())


async def _rewrite_request(stage: Stage, text: str) -> None:
    for one in await stage.smart_pods():
        body = MergePatch({"metadata": {"annotations": {ORIGINAL_REQUEST: text}}})
        await stage.api.patch(PODS, one.key.name, body, one.key.namespace)


async def unlabel_smart_pod(stage: Stage) -> None:
    for one in await stage.smart_pods():
        body = MergePatch({"metadata": {"labels": {REQUEST_LABEL: None}}})
        await stage.api.patch(PODS, one.key.name, body, one.key.namespace)


async def edit_node_pool(stage: Stage) -> None:
    body = MergePatch({"spec": {"template": {"metadata": {"labels": {"example.com/edited": "true"}}}}})
    await stage.api.patch(NODE_POOLS, "gpu-h100", body)


async def recreate_waiting_pod(stage: Stage) -> None:
    await stage.leave("a")
    _, body = claim_pod_manifest("a")
    await stage.api.create(PODS, body, NS)


USERS: tuple[Act, ...] = (
    delete_smart_pod,
    delete_node_claim,
    delete_node,
    delete_node_pool,
    delete_leases,
    remove_taints,
    change_taint,
    remove_annotations,
    unlabel_node,
    forget_request,
    ask_for_more,
    ask_for_another_pod,
    unlabel_smart_pod,
    edit_node_pool,
    recreate_waiting_pod,
)


# Neighbours.


async def karpenter_restarts(stage: Stage) -> None:
    stage.karpenter.process.crash()
    await asyncio.sleep(5.0)
    stage.karpenter.process.start()


async def karpenter_stops_for_a_while(stage: Stage) -> None:
    """SIGSTOP, and SIGCONT after half a minute."""
    stage.karpenter.process.life.freeze(30.0)


async def karpenter_stops_for_long(stage: Stage) -> None:
    """Longer than a smart pod waits for a NodeClaim, and than a NodeClaim may take to be launched."""
    stage.karpenter.process.life.freeze(500.0)


async def controllers_lag(stage: Stage) -> None:
    """kube-controller-manager collects nothing; the node is deleted, and what was on it stays."""
    stage.controllers.stop_controllers()
    await delete_node(stage)


async def controllers_lag_behind_a_deletion(stage: Stage) -> None:
    """As before, and the smart pod is being deleted: no kubelet is left that would confirm it."""
    stage.controllers.stop_controllers()
    for one in await stage.smart_pods():
        await stage.api.delete(PODS, one.key.name, one.key.namespace)
    await delete_node(stage)


async def scheduler_restarts(stage: Stage) -> None:
    stage.scheduler.restart()


NEIGHBOURS: tuple[Act, ...] = (
    karpenter_restarts,
    karpenter_stops_for_a_while,
    karpenter_stops_for_long,
    controllers_lag,
    controllers_lag_behind_a_deletion,
    scheduler_restarts,
)
COSTS_A_NODE = {
    delete_node_claim,
    delete_node,
    delete_node_pool,
    recreate_waiting_pod,
    controllers_lag,
    controllers_lag_behind_a_deletion,
}
"""After these a second node is bought. Nothing else makes one necessary."""
QUICK = {
    (S.LAUNCHED, delete_node_claim),
    (S.RESERVED, delete_node),
    (S.PENDING, ask_for_more),
    (S.HANDED_OVER, change_taint),
    (S.INITIALIZED, controllers_lag_behind_a_deletion),
    (S.NOMINATED, karpenter_stops_for_long),
}


def _all() -> list[Any]:
    found = []
    for state in STATES:
        for act in (*USERS, *NEIGHBOURS):
            marks = () if (state, act) in QUICK else pytest.mark.full
            found.append(pytest.param(state, act, id=f"{state.value}-{act.__name__}", marks=marks))
    return found


@pytest.mark.parametrize(("state", "act"), _all())
def test_whatever_happens_on_the_way_the_pod_is_served_and_nothing_is_left(state: S, act: Act) -> None:
    async def story(stage: Stage) -> None:
        await stage.claim_pod("a")
        await at(stage, state)
        with suppress(NotFound):  # it went by itself
            await act(stage)
        await asyncio.sleep(1.0)
        await served(stage, seconds=2400.0)
        assert len(stage.claims_made) <= (2 if act in COSTS_A_NODE else 1)
        assert "gpu.scheduling/CapacityAvailable" not in {one.type for one in (await stage.pod("a")).status.conditions}

    play(story)


def test_claims_that_come_and_go_faster_than_the_controller_writes_are_counted() -> None:
    """The cloud has nothing left; a NodeClaim lives for 1.4 s, and a write of the controller takes half a minute."""

    async def story(stage: Stage) -> None:
        stage.network.latency = replace(LATENCY, by_method={"PATCH": 30.0})
        await stage.claim_pod("a")
        said = await failure(stage, "a")
        assert said.attempts == 3
        assert said.at - stage.began < 40.0, "three NodeClaims went by then, and the first write has not ended"

    play(story, types=(replace(G1, available=False),))
