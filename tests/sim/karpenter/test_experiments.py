"""The simulated Karpenter beside what was measured on a real one: equal outcomes, times within a quarter or a second.

X11 (a NodeClaim made by hand) and X18 (preemption by kube-scheduler) are not simulated.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.control.karpenter.stage import install_karpenter
from tests.control.scheduling.stage import NS, an_api
from ullage.clock import Clock
from ullage.kube.client.api import DELETE_NOW, KubeApi, MergePatch
from ullage.kube.client.resources import EVENTS, NODE_CLAIMS, NODES, PODS
from ullage.kube.read.karpenter import read_node_claim
from ullage.model.karpenter import NodeClaim
from ullage.sim.apiserver import SimulatedApiServer
from ullage.sim.controllers.wiring import ControllerManagerSettings, start_actors
from ullage.sim.karpenter.karpenter import SimulatedKarpenter
from ullage.sim.karpenter.kube_scheduler import SimulatedKubeScheduler
from ullage.sim.karpenter.solver import InstanceType
from ullage.sim.kubelet.timings import DurationRange, KubeletTimings
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.testing.builders import a_pod
from ullage.testing.karpenter_cluster import instance_type

pytestmark = pytest.mark.story

KEY = "ullage.dev/claim"
G1 = instance_type("g1-gpu1", 1, 1.0, resources={"cpu": 8_000, "memory": 32 * (1 << 30) * 1000})
G8 = instance_type("g8-gpu8", 8, 7.0)
TOLERATES = [{"key": "nvidia.com/gpu", "operator": "Exists"}]


def within(seconds: float, measured: float) -> bool:
    """A quarter, or a second."""
    return abs(seconds - measured) <= max(1.0, measured / 4)


def a_pool(**spec: Any) -> dict[str, Any]:
    template = {
        "spec": {
            "requirements": [{"key": KEY, "operator": "Exists"}],
            "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
        }
    }
    disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"}
    return {"metadata": {"name": "gpu"}, "spec": {"template": template, "disruption": disruption} | spec}


@dataclass
class Bench:
    """Karpenter, kube-scheduler and kubelets; nothing of ours."""

    api: KubeApi
    clock: Clock

    async def pod(self, name: str, *, claim: str = "", gpus: int = 1, **spec: Any) -> float:
        """A pod that wants GPUs; returns when it was made."""
        selector = {"nodeSelector": {KEY: claim}} if claim else {}
        plain: dict[str, Any] = {"tolerations": TOLERATES, "schedulerName": "default-scheduler"}
        requests = {"cpu": "1", "memory": "1Gi"} | spec.pop("asks", {})
        metadata = spec.pop("metadata", {})
        body = a_pod(name, gpus=gpus, requests=requests, **(plain | selector | spec))
        body["metadata"] |= metadata
        await self.api.create(PODS, body, NS)
        return self.clock.now()

    async def claims(self) -> list[NodeClaim]:
        return [read_node_claim(one) for one in (await self.api.list(NODE_CLAIMS)).items]

    async def node_of(self, name: str) -> str:
        return (await self.api.get(PODS, name, NS)).spec.node_name

    async def until(self, holds: Callable[[], Awaitable[Any]], seconds: float = 120.0) -> float:
        ends = self.clock.now() + seconds
        while not await holds():
            assert self.clock.now() < ends, f"not within {seconds:g} s: {await self.claims()}"
            await asyncio.sleep(0.02)
        return self.clock.now()

    async def condition(self, name: str) -> float:
        """When the first NodeClaim has this condition."""

        async def holds() -> bool:
            return any(one.holds(name) for one in await self.claims())

        return await self.until(holds)

    async def claimed(self, count: int = 1) -> float:
        async def so_many() -> bool:
            return len(await self.claims()) >= count

        return await self.until(so_many)

    async def bound(self, name: str) -> float:
        async def has_a_node() -> bool:
            return bool(await self.node_of(name))

        return await self.until(has_a_node)

    async def gone(self) -> float:
        async def nothing() -> bool:
            return not await self.claims()

        return await self.until(nothing)

    async def said(self, name: str) -> str:
        """What Karpenter says of a pod it cannot serve."""

        async def told() -> list[str]:
            events = (await self.api.list(EVENTS, NS)).items
            return [
                one["note"]
                for one in events
                if one["regarding"]["name"] == name and one["reportingController"] == "karpenter"
            ]

        await self.until(told, 20.0)
        return (await told())[-1]

    async def delete(self, name: str) -> float:
        await self.api.delete(PODS, name, NS, how=DELETE_NOW)
        return self.clock.now()


@asynccontextmanager
async def bench(types: tuple[InstanceType, ...], pool: dict[str, Any]) -> AsyncIterator[Bench]:
    clock = loop_clock()
    server = SimulatedApiServer(clock, seed=1)
    api = an_api(server, 1)
    await install_karpenter(api, [pool])
    karpenter = SimulatedKarpenter(an_api(server, 2), clock, types, seed=1)
    scheduler = SimulatedKubeScheduler(an_api(server, 3), clock, seed=1)
    played = ControllerManagerSettings(behaviour=KubeletTimings(seed=1, stop=DurationRange(0.1, 0.2)), seed=1)
    async with start_actors(an_api(server, 4), clock, played):
        beside = [asyncio.ensure_future(one.run()) for one in (karpenter, scheduler)]
        try:
            yield Bench(api, clock)
        finally:
            for one in beside:
                one.cancel()
            ended = await asyncio.gather(*beside, return_exceptions=True)
    assert not [one for one in ended if isinstance(one, Exception)], ended


def experiment(
    story: Callable[[Bench], Awaitable[None]],
    types: tuple[InstanceType, ...] = (G1, G8),
    pool: dict[str, Any] | None = None,
) -> None:
    async def live() -> None:
        async with bench(types, pool or a_pool()) as found:
            await asyncio.sleep(3.0)
            await story(found)

    run_virtual(live())


def test_x1_from_a_pending_pod_to_a_node() -> None:
    async def story(one: Bench) -> None:
        began = await one.pod("p", claim="r1")
        assert within(await one.condition("Launched") - began, 1.1)
        (claim,) = await one.claims()
        assert claim.labels[KEY] == "r1"
        assert within(await one.condition("Registered") - began, 6.25)
        assert within(await one.bound("p") - began, 6.5)
        assert within(await one.condition("Ready") - began, 7.3)
        (node,) = (await one.api.list(NODES)).items
        assert node.metadata.labels[KEY] == "r1"
        assert node.metadata.labels["kubernetes.io/hostname"] == claim.name != node.metadata.name
        assert "nodeclaim/" in await one.said("p")

    experiment(story)


def test_x2_an_empty_node_goes() -> None:
    async def story(one: Bench) -> None:
        await one.pod("p", claim="r1")
        await one.condition("Ready")
        await one.bound("p")
        await asyncio.sleep(12.0)
        deleted = await one.delete("p")

        async def going() -> bool:
            return any(claim.deleting for claim in await one.claims())

        assert within(await one.until(going) - deleted, 45.4)
        assert within(await one.gone() - deleted, 50.6)

    experiment(story)


def test_x3_no_capacity() -> None:
    async def story(one: Bench) -> None:
        await one.pod("p", claim="r1")
        began = await one.claimed()
        assert within(await one.gone() - began, 1.42)

    experiment(story, types=(replace(G1, available=False),))


def test_x4_a_gated_pod_buys_nothing() -> None:
    async def story(one: Bench) -> None:
        await one.pod("p", claim="r1", schedulingGates=[{"name": "wait"}])
        await asyncio.sleep(15.0)
        assert not await one.claims()

    experiment(story)


def test_x4b_a_pod_that_is_kept_from_going_buys_a_node() -> None:
    async def story(one: Bench) -> None:
        began = await one.pod("p", claim="r1", metadata={"finalizers": ["example.com/stay"]})
        await asyncio.sleep(0.3)
        await one.api.delete(PODS, "p", NS)
        assert (await one.api.get(PODS, "p", NS)).metadata.deletion_timestamp is not None
        assert within(await one.claimed() - began, 1.1)

    experiment(story)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"gpus": 16, "claim": "r"}, "no instance type has enough resources"),
        ({"nodeSelector": {"ullage.dev/other": "x"}}, 'label "ullage.dev/other" does not have known values'),
    ],
)
def test_x5_what_cannot_be_made_is_told(asked: dict[str, Any], words: str) -> None:
    async def story(one: Bench) -> None:
        await one.pod("p", **asked)
        assert words in await one.said("p")
        assert not await one.claims()

    experiment(story)


def test_x6_limits() -> None:
    async def story(one: Bench) -> None:
        await one.pod("p", claim="r1")
        await one.condition("Ready")
        await one.pod("q", claim="r2")
        assert "all available instance types exceed limits for nodepool" in await one.said("q")
        assert len(await one.claims()) == 1

    experiment(story, types=(G1,), pool=a_pool(limits={"nvidia.com/gpu": 1}))


def test_x7_what_karpenter_does_not_see_buys_nothing() -> None:
    async def story(one: Bench) -> None:
        await one.pod("p", claim="r1")
        await one.condition("Ready")
        await one.bound("p")
        await one.pod("other", gpus=0, schedulerName="another")
        unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        body = MergePatch({"status": {"conditions": [unschedulable]}})
        await one.api.patch(PODS, "other", body, NS, subresource="status")
        await asyncio.sleep(15.0)
        assert len(await one.claims()) == 1
        assert "Pod should schedule on" in await one.said("other")

    experiment(story)


def test_x8_a_label_keeps_nobody_off_a_free_node() -> None:
    async def story(one: Bench) -> None:
        await one.pod("p", claim="r1")
        await one.condition("Ready")
        await one.bound("p")
        await one.delete("p")
        await asyncio.sleep(1.0)
        began = await one.pod("q")
        assert await one.bound("q") - began < 1.0

    experiment(story)


def test_x8_a_pod_without_a_value_gets_a_random_one() -> None:
    async def story(one: Bench) -> None:
        await one.pod("p")
        await one.claimed()
        (claim,) = await one.claims()
        assert claim.labels[KEY].isdecimal()

    experiment(story)


def test_x9_a_deadline_does_not_end_a_pod_that_never_started() -> None:
    async def story(one: Bench) -> None:
        await one.pod("p", gpus=16, activeDeadlineSeconds=5)
        await asyncio.sleep(12.0)
        assert (await one.api.get(PODS, "p", NS)).status.phase == "Pending"

    experiment(story)


def test_x10_a_rival_gets_a_freed_gpu_at_once() -> None:
    async def story(one: Bench) -> None:
        await one.pod("p", claim="r1")
        await one.condition("Ready")
        await one.bound("p")
        await one.pod("rival", claim="r1")
        await asyncio.sleep(0.5)
        deleted = await one.delete("p")
        assert await one.bound("rival") - deleted < 1.0

    experiment(story, types=(G1,), pool=a_pool(limits={"nvidia.com/gpu": 1}))


def test_x12_do_not_disrupt_keeps_an_empty_node() -> None:
    async def story(one: Bench) -> None:
        await one.pod("p", claim="r1")
        await one.condition("Ready")
        await one.bound("p")
        node = await one.node_of("p")
        note = {"karpenter.sh/do-not-disrupt": "true"}
        await one.api.patch(NODES, node, MergePatch({"metadata": {"annotations": note}}))
        await one.delete("p")
        await asyncio.sleep(75.0)
        assert await one.claims()
        freed = one.clock.now()
        await one.api.patch(NODES, node, MergePatch({"metadata": {"annotations": {next(iter(note)): None}}}))
        assert within(await one.gone() - freed, 29.9)

    experiment(story)


def test_x13_a_claim_goes_on_without_its_pod() -> None:
    async def story(one: Bench) -> None:
        await one.pod("p", claim="r1")
        began = await one.claimed()
        await one.delete("p")
        assert within(await one.condition("Ready") - began, 6.0)
        assert within(await one.gone() - began, 65.0)

    experiment(story)


@pytest.mark.parametrize(("apart", "types"), [(3.0, ["g1-gpu1", "g1-gpu1"]), (0.0, ["g8-gpu8"])])
def test_x15_one_label_in_one_batch_becomes_one_large_node(apart: float, types: list[str]) -> None:
    async def story(one: Bench) -> None:
        await one.pod("p", claim="r1")
        await asyncio.sleep(apart)
        await one.pod("q", claim="r1")
        await one.bound("p")
        await one.bound("q")
        made = [claim.labels["node.kubernetes.io/instance-type"] for claim in await one.claims()]
        assert made == types

    experiment(story)
