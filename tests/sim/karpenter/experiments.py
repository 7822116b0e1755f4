"""Experiments X1 to X19 on Karpenter and kube-scheduler alone: run on the simulated ones and on the real ones.

The figures are of Karpenter 1.14.1 with its kwok provider. A run passes within a quarter of each, or a second.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tests.sim.karpenter.lab import KEY, NS, POOL, Lab
from ullage.kube.client.api import MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import NODE_CLAIMS, NODES, PODS, PRIORITY_CLASSES
from ullage.testing.karpenter_cluster import NODE_CLASSES, instance_type

G1 = instance_type("g1-gpu1", 1, 1.0, resources={"cpu": 8_000, "memory": 32 * (1 << 30) * 1000})
G8 = instance_type("g8-gpu8", 8, 7.0)
TYPES = (G1, G8)


def a_pool(one: "Experiment") -> JsonObject:
    template = {
        "spec": {
            "nodeClassRef": {"group": NODE_CLASSES.group, "kind": NODE_CLASSES.kind, "name": one.node_class},
            "requirements": [{"key": KEY, "operator": "Exists"}],
            "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
        }
    }
    disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"}
    limits = {"limits": one.limits} if one.limits else {}
    return {"metadata": {"name": POOL}, "spec": {"template": template, "disruption": disruption} | limits}


Story = Callable[[Lab], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Experiment:
    """One row of the table."""

    id: str
    story: Story
    limits: JsonObject = field(default_factory=dict)
    node_class: str = "default"


async def from_a_pending_pod_to_a_node(lab: Lab) -> None:
    began = await lab.pod("p", claim="r1")
    lab.took("Launched", await lab.condition("Launched") - began, 1.1)
    (claim,) = await lab.claims()
    assert claim.labels[KEY] == "r1"
    lab.took("Registered", await lab.condition("Registered") - began, 6.25)
    lab.took("Ready", await lab.condition("Ready") - began, 6.4)
    # kube-scheduler tries the node while it is not registered, and then pauses.
    lab.took("bound", await lab.bound("p") - began, 9.1)
    (node,) = (await lab.api.list(NODES)).items
    assert node.metadata.labels[KEY] == "r1"
    assert node.metadata.labels["kubernetes.io/hostname"] == claim.name != node.metadata.name
    assert "nodeclaim/" in await lab.said("p", reason="Nominated")


async def an_empty_node_goes(lab: Lab) -> None:
    await lab.served()
    await asyncio.sleep(12.0)
    deleted = await lab.delete("p")
    lab.took("disrupted", await lab.going() - deleted, 45.4)
    lab.took("gone", await lab.gone() - deleted, 50.6)


async def a_missing_node_class_buys_nothing(lab: Lab) -> None:
    await lab.pod("p", claim="r1")
    await asyncio.sleep(15.0)
    assert not await lab.claims(), "the NodePool is not Ready; 1.12.1 made NodeClaims and deleted them"


async def no_capacity(lab: Lab) -> None:
    """The kwok provider has no capacity for a node class that is not there. A NodePool that names one is not Ready."""
    await lab.api.create(NODE_CLAIMS, a_claim_by_hand("missing"))
    began = lab.clock.now()
    lab.took("NodeClaim gone", await lab.gone() - began, 1.1)


async def a_gated_pod_buys_nothing(lab: Lab) -> None:
    await lab.pod("p", claim="r1", schedulingGates=[{"name": "example.com/wait"}])
    await asyncio.sleep(15.0)
    assert not await lab.claims()


async def a_pod_that_is_kept_from_going_buys_a_node(lab: Lab) -> None:
    began = await lab.pod("p", claim="r1", metadata={"finalizers": ["example.com/stay"]})
    await asyncio.sleep(0.3)
    await lab.api.delete(PODS, "p", NS)
    assert (await lab.api.get(PODS, "p", NS)).metadata.deletion_timestamp is not None
    lab.took("claimed", await lab.claimed() - began, 1.1)
    await lab.api.patch(PODS, "p", MergePatch({"metadata": {"finalizers": None}}), NS)


async def what_is_too_large_is_told(lab: Lab) -> None:
    await lab.pod("p", gpus=16, claim="r")
    assert "no instance type has enough resources" in await lab.said("p")
    assert not await lab.claims()


async def an_unknown_label_is_told(lab: Lab) -> None:
    await lab.pod("p", nodeSelector={"ullage.dev/other": "x"})
    assert 'label "ullage.dev/other" does not have known values' in await lab.said("p")
    assert not await lab.claims()


async def a_type_that_is_too_small_is_told(lab: Lab) -> None:
    pinned = {KEY: "r", "node.kubernetes.io/instance-type": G1.name}
    await lab.pod("p", nodeSelector=pinned, asks={"memory": "40Gi"})
    words = "no instance type which had enough resources and the required offering met the scheduling requirements"
    assert words in await lab.said("p")
    assert not await lab.claims()


async def limits_are_told(lab: Lab) -> None:
    await lab.served()
    await lab.pod("q", claim="r2")
    assert "all available instance types exceed limits for nodepool" in await lab.said("q")
    assert len(await lab.claims()) == 1


async def what_karpenter_does_not_see_buys_nothing(lab: Lab) -> None:
    await lab.served()
    await lab.pod("other", gpus=0, schedulerName="another")
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    body = MergePatch({"status": {"conditions": [unschedulable]}})
    await lab.api.patch(PODS, "other", body, NS, subresource="status")
    await asyncio.sleep(15.0)
    assert len(await lab.claims()) == 1
    assert "Pod should schedule on" in await lab.said("other")


async def a_label_keeps_nobody_off_a_free_node(lab: Lab) -> None:
    await lab.served()
    await lab.delete("p")
    await asyncio.sleep(1.0)
    began = await lab.pod("q")
    lab.took("bound", await lab.bound("q") - began, 0.02)


async def a_pod_without_a_value_gets_a_random_one(lab: Lab) -> None:
    await lab.pod("p")
    await lab.claimed()
    (claim,) = await lab.claims()
    assert claim.labels[KEY].isdecimal()


async def a_deadline_does_not_end_a_pod_that_never_started(lab: Lab) -> None:
    await lab.pod("p", gpus=16, activeDeadlineSeconds=5)
    await asyncio.sleep(12.0)
    assert (await lab.api.get(PODS, "p", NS)).status.phase == "Pending"


async def a_rival_gets_a_freed_gpu_at_once(lab: Lab) -> None:
    await lab.served()
    await lab.pod("rival", claim="r1")
    await asyncio.sleep(0.5)
    deleted = await lab.delete("p")
    lab.took("rival bound", await lab.bound("rival") - deleted, 0.01)


def a_claim_by_hand(node_class: str) -> JsonObject:
    spec = {
        "nodeClassRef": {"group": NODE_CLASSES.group, "kind": NODE_CLASSES.kind, "name": node_class},
        "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g1-gpu1"]}],
        "resources": {"requests": {"nvidia.com/gpu": "1"}},
    }
    return {"metadata": {"name": "by-hand", "labels": {KEY: "mine"}}, "spec": spec}


async def a_claim_made_by_hand_is_served_and_stays(lab: Lab) -> None:
    await lab.api.create(NODE_CLAIMS, a_claim_by_hand("default"))
    began = lab.clock.now()
    lab.took("Launched", await lab.condition("Launched") - began, 0.1)
    lab.took("Registered", await lab.condition("Registered") - began, 5.1)
    lab.took("Ready", await lab.condition("Ready") - began, 5.1)
    (node,) = (await lab.api.list(NODES)).items
    assert node.metadata.labels[KEY] == "mine"
    assert not [one for one in node.spec.taints if one.key == "nvidia.com/gpu"], "no NodePool, so no taint of one"
    (claim,) = await lab.claims()
    assert not claim.node_pool
    await asyncio.sleep(75.0)
    assert [one.name for one in await lab.claims()] == ["by-hand"], "nobody takes an empty node without a NodePool"
    await lab.api.delete(NODE_CLAIMS, "by-hand")


async def do_not_disrupt_keeps_an_empty_node(lab: Lab) -> None:
    node = await lab.served()
    await lab.annotate(node, "true")
    await lab.delete("p")
    await asyncio.sleep(75.0)
    assert await lab.claims()
    freed = await lab.annotate(node, None)
    lab.took("gone", await lab.gone() - freed, 30.2)


async def a_claim_goes_on_without_its_pod(lab: Lab) -> None:
    await lab.pod("p", claim="r1")
    began = await lab.claimed()
    await lab.delete("p")
    lab.took("Ready", await lab.condition("Ready") - began, 6.0)
    lab.took("gone", await lab.gone() - began, 65.0)


def one_label(apart: float, types: list[str]) -> Story:
    async def story(lab: Lab) -> None:
        await lab.pod("p", claim="r1")
        await asyncio.sleep(apart)
        await lab.pod("q", claim="r1")
        await lab.bound("p")
        await lab.bound("q")
        made = sorted(claim.labels["node.kubernetes.io/instance-type"] for claim in await lab.claims())
        assert made == types

    return story


async def an_owner_preempts_its_placeholder(lab: Lab) -> None:
    await lab.api.create(PRIORITY_CLASSES, {"metadata": {"name": "owner"}, "value": 100})
    node = await lab.served()
    await lab.pod("rival", claim="r1")
    await asyncio.sleep(2.0)
    pinned = {"kubernetes.io/hostname": await _hostname(lab, node)}
    began = await lab.pod("owner", nodeSelector=pinned, priorityClassName="owner")
    lab.took("owner bound", await lab.bound("owner") - began, 0.2)
    assert await lab.node_of("owner") == node
    assert not await lab.node_of("rival"), "what is nominated is not given to others"
    assert "Preempted by pod" in await lab.said("p", by="default-scheduler", reason="Preempted")
    await lab.api.delete(PRIORITY_CLASSES, "owner")


async def an_ordinary_pod_evicts_a_placeholder_of_negative_priority(lab: Lab) -> None:
    await lab.api.create(PRIORITY_CLASSES, {"metadata": {"name": "low"}, "value": -10})
    await lab.pod("p", claim="r1", priorityClassName="low", terminationGracePeriodSeconds=1)
    await lab.condition("Ready")
    await lab.bound("p")
    began = await lab.pod("q", claim="r1")
    lab.took("ordinary pod bound", await lab.bound("q") - began, 0.1)
    await lab.api.delete(PRIORITY_CLASSES, "low")


async def a_node_counts_as_empty_under_a_pod_of_far_too_low_priority(lab: Lab) -> None:
    """Of priority -2^25 or less: its eviction costs nothing."""
    await lab.api.create(PRIORITY_CLASSES, {"metadata": {"name": "lowest"}, "value": -(1 << 25)})
    await lab.pod("p", claim="r1", priorityClassName="lowest")
    await lab.condition("Ready")
    bound = await lab.bound("p")
    lab.took("disrupted", await lab.going() - bound, 50.0)
    await lab.api.delete(PRIORITY_CLASSES, "lowest")


async def _hostname(lab: Lab, node: str) -> str:
    return (await lab.api.get(NODES, node)).metadata.labels["kubernetes.io/hostname"]


ONE_GPU = {"nvidia.com/gpu": 1}
EXPERIMENTS = (
    Experiment("X1", from_a_pending_pod_to_a_node),
    Experiment("X2", an_empty_node_goes),
    Experiment("X3", a_missing_node_class_buys_nothing, node_class="missing"),
    Experiment("X3-launch", no_capacity),
    Experiment("X4", a_gated_pod_buys_nothing),
    Experiment("X4b", a_pod_that_is_kept_from_going_buys_a_node),
    Experiment("X5-size", what_is_too_large_is_told),
    Experiment("X5-label", an_unknown_label_is_told),
    Experiment("X5-memory", a_type_that_is_too_small_is_told),
    Experiment("X6", limits_are_told, limits=ONE_GPU),
    Experiment("X7", what_karpenter_does_not_see_buys_nothing),
    Experiment("X8", a_label_keeps_nobody_off_a_free_node),
    Experiment("X8-random", a_pod_without_a_value_gets_a_random_one),
    Experiment("X9", a_deadline_does_not_end_a_pod_that_never_started),
    Experiment("X10", a_rival_gets_a_freed_gpu_at_once, limits=ONE_GPU),
    Experiment("X11", a_claim_made_by_hand_is_served_and_stays),
    Experiment("X12", do_not_disrupt_keeps_an_empty_node),
    Experiment("X13", a_claim_goes_on_without_its_pod),
    Experiment("X15-apart", one_label(3.0, ["g1-gpu1", "g1-gpu1"])),
    Experiment("X15-together", one_label(0.0, ["g8-gpu8"])),
    Experiment("X18", an_owner_preempts_its_placeholder, limits=ONE_GPU),
    Experiment("X19", a_node_counts_as_empty_under_a_pod_of_far_too_low_priority),
    Experiment("X18b", an_ordinary_pod_evicts_a_placeholder_of_negative_priority, limits=ONE_GPU),
)
