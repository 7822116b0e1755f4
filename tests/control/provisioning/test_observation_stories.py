"""The controller sees what the scheduler sees: Leases, and agents that fall silent."""

import asyncio

import pytest

from tests.control.provisioning.stage import Stage, play
from tests.control.provisioning.test_stories import names, told
from tests.control.scheduling.stage import LEASE_NAMESPACE, NS
from ullage.act.leases import LeaseClient, LeaseHolder, LeaseRequest
from ullage.clock import Instant
from ullage.cloud.kwok.nodes import KwokMachine
from ullage.kube.client.api import MergePatch
from ullage.kube.client.resources import GPU_NODE_STATUSES, NODES, PODS
from ullage.model.fact_event import ObjectKey
from ullage.model.provisioner import DELETION_TAINT
from ullage.testing.builders import a_pod

pytestmark = pytest.mark.story


async def condition(stage: Stage, kind: str) -> tuple[str, str, str]:
    found = {one.type: one for one in (await stage.status()).status.conditions}
    return (found[kind].status, found[kind].reason, found[kind].message) if kind in found else ("", "", "")


def test_a_gpu_in_quarantine_is_bought_another_for() -> None:
    """Its pod was deleted by force, and a process of it is still seen on the GPU: its Lease stays."""

    async def story(stage: Stage) -> None:
        await stage.pool()
        await stage.pods(["first"])
        await stage.served()
        pod = await stage.api.get(PODS, "first", NS)

        async def haunt() -> None:
            while True:
                raw = await stage.api.get(GPU_NODE_STATUSES.whole(), pod.spec.node_name)
                devices = [{**raw["status"]["devices"][0], "inUseBy": [pod.metadata.uid]}]
                patch = MergePatch({"status": {"devices": devices}})
                await stage.api.patch(GPU_NODE_STATUSES, pod.spec.node_name, patch, subresource="status")
                await asyncio.sleep(1.0)

        haunting = asyncio.ensure_future(haunt())
        await asyncio.sleep(3)
        await stage.leave("first")
        await stage.pods(["second"])
        await asyncio.sleep(20)
        assert len(stage.cloud.made) == 1, "the Lease may be freed any moment"
        await stage.served(150)
        haunting.cancel()
        assert len(stage.cloud.made) == 2

    play(story)


def test_a_pod_that_holds_its_gpu_and_is_about_to_be_bound_buys_nothing() -> None:
    async def story(stage: Stage) -> None:
        await stage.pool(minSize=1)
        await stage.has(1)
        await asyncio.sleep(60)
        (node,) = await stage.nodes()
        body = a_pod("slow", gpus=1, schedulerName="gpu-scheduler-of-another-team")
        pod = await stage.api.create(PODS, body, NS)
        holder = LeaseHolder(ObjectKey(NS, "slow"), pod.metadata.uid)
        book = LeaseClient(stage.api, LEASE_NAMESPACE, stage.clock)
        await book.reserve(holder, LeaseRequest(node, (0,)))
        status = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
        await stage.api.patch(PODS, "slow", MergePatch({"status": status}), NS, subresource="status")
        for _ in range(3):
            await asyncio.sleep(20)
            await book.reserve(holder, LeaseRequest(node, (0,)))
        assert len(stage.cloud.made) == 1

    play(story)


def test_a_doomed_node_is_not_deleted_under_a_pod_that_is_about_to_come() -> None:
    """Its scheduler took the Lease before it heard of the taint, and is slow to bind."""

    async def story(stage: Stage) -> None:
        await stage.pool(scaleDownDelay="1m")
        await stage.pods(["first"])
        await stage.served()
        (node,) = await stage.nodes()
        await stage.leave("first")
        await stage.until(lambda: is_doomed(stage, node), 60)
        body = a_pod("slow", gpus=1, schedulerName="somebody-elses")
        pod = await stage.api.create(PODS, body, NS)
        await LeaseClient(stage.api, LEASE_NAMESPACE, stage.clock).reserve(
            LeaseHolder(ObjectKey(NS, "slow"), pod.metadata.uid), LeaseRequest(node, (0,))
        )
        await asyncio.sleep(30)
        assert node in await stage.nodes()
        assert not (await stage.nodes())[node], "it is spared"

    play(story)


async def is_doomed(stage: Stage, node: str) -> bool:
    return any(taint.key == DELETION_TAINT for taint in (await stage.api.get(NODES, node)).spec.taints)


def silence(stage: Stage) -> None:
    """No agent reports any more, of nodes there are and of those that come."""

    async def mute(machine: KwokMachine, now: Instant) -> None:  # noqa: ARG001 - as agents are asked
        return None

    stage.cloud._joining._report = mute  # type: ignore[method-assign]


def test_a_bad_rollout_of_agents_buys_no_nodes() -> None:
    async def story(stage: Stage) -> None:
        await stage.pool()
        await stage.pods(names(6))
        await stage.served()
        silence(stage)
        await asyncio.sleep(120)
        await stage.leave(*names(6))
        await stage.pods(names(6, "next"))
        await asyncio.sleep(200)
        assert await stage.waiting() == 6, "nobody is placed on GPUs nobody reports on"
        await asyncio.sleep(900)
        assert len(stage.cloud.made) == 6, "and the same agents would be on new nodes"
        status, reason, message = await condition(stage, "AgentsSilent")
        assert (status, reason) == ("True", "NothingBoughtInTheirPlace")
        assert message.startswith("no agent reports on the GPUs of pool-")
        assert "AgentsSilent" in await told(stage, "NodeProvisioner")
        del stage.cloud._joining._report  # agents are put right
        await stage.served(120)
        assert len(stage.cloud.made) == 6
        await asyncio.sleep(60)
        assert (await condition(stage, "AgentsSilent"))[0] == "False"

    play(story)


def test_one_agent_that_stays_silent_is_bought_another_node_for_in_the_end() -> None:
    async def story(stage: Stage) -> None:
        await stage.pool(minSize=1)
        await stage.has(1)
        await asyncio.sleep(60)
        (dead,) = await stage.nodes()
        report = stage.cloud._joining._report

        async def all_but_one(machine: KwokMachine, now: Instant) -> None:
            if machine.name != dead:
                await report(machine, now)

        stage.cloud._joining._report = all_but_one  # type: ignore[method-assign]
        await asyncio.sleep(120)
        await stage.pods(["p"])
        await asyncio.sleep(120)
        assert len(stage.cloud.made) == 1
        await stage.served(400)
        assert len(stage.cloud.made) == 2
        assert (await condition(stage, "AgentsSilent"))[1] == "CountedAsMissing"

    play(story)
