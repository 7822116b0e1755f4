"""Removing a node on both API servers: who leaves and how, who keeps it, and what is left when it does not work."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from tests.contract.steps import judge_budget
from tests.contract.worlds import World
from ullage.act.node_removal import DrainPace, MachineRef, NodeRemover
from ullage.act.node_taints import NodeTaints
from ullage.act.pod_eviction import EvictionPace
from ullage.clock import WallClock
from ullage.cloud.api import OutcomeUnknown, RequestRejected
from ullage.cloud.simulated import SimulatedCloud
from ullage.config.settings import DrainingSettings
from ullage.control.draining.removal import NodeRemoval
from ullage.control.draining.removal_facts import IncomingPods, RemovalFactsReader
from ullage.decide.draining.core import DrainCore
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.errors import NotFound
from ullage.kube.client.api import DELETE_NOW, Binding, Deletion, KubeApi, MergePatch
from ullage.kube.client.resources import BUDGETS, LEASES, NODES, PODS
from ullage.kube.read import read_budget
from ullage.model.allocation import lease_name
from ullage.model.disruption_budget import PodDisruptionBudget
from ullage.model.draining import CANDIDATE_TAINT, DRAINING_TAINT, PodMove, ScaleDownReason
from ullage.model.fact_event import Added, ObjectKey
from ullage.model.intents import RemoveNode
from ullage.model.outcomes import DrainOutcome, Eviction, NodeNotRemoved, NodeRemoved, RemovalFailure
from ullage.model.removal_plan import RemovalPlan
from ullage.state.snapshot import ClusterSnapshot
from ullage.testing.builders import a_budget, a_lease, a_node, a_pod, a_taint, with_meta

QUICK = DrainPace(
    after_taint=0.1,
    delete_deadline=0.2,
    evictions=EvictionPace(deadline=0.5, max_grace_period=1.0, headroom=0.5, daemons_wait=0.2),
)
CANDIDATE = a_taint(CANDIDATE_TAINT, "5", "PreferNoSchedule")


@dataclass
class Site:
    """A node that is to go."""

    api: KubeApi
    ns: str
    node: str
    cloud: SimulatedCloud
    told: list[Eviction] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    known: dict[ObjectKey, str] = field(default_factory=dict)
    gang: bool = False
    budgets: dict[ObjectKey, PodDisruptionBudget] = field(default_factory=dict)
    """Those a watch has told of."""
    heard: dict[str, ObjectKey] = field(default_factory=dict)
    """Pods a watch has told of, by uid."""

    def removal(self, pace: DrainPace = QUICK) -> NodeRemoval:
        clock, snapshot = WallClock(), ClusterSnapshot()
        for key, budget in self.budgets.items():
            snapshot.apply(Added(key, budget))
        core = DrainCore(PodAssigner(snapshot), DrainingSettings())
        incoming = IncomingPods(self.api, self.ns, lambda _: self.heard, lambda _: [0, 1])
        facts = RemovalFactsReader(self.api, incoming, core, lambda _: MachineRef(self.cloud, "i-1"), clock)
        remover = NodeRemover(self.api, clock, pace.evictions)
        return NodeRemoval(core, facts, remover, self, clock, pace)

    def eviction(self, eviction: Eviction) -> None:
        self.told.append(eviction)

    async def pod(self, name: str, *, known: bool = True, kind: str = "ReplicaSet", **spec: Any) -> None:
        labels = spec.pop("labels", {"app": "web"})
        body = a_pod(name, labels=labels, **({"terminationGracePeriodSeconds": 0} | spec))
        owner = {"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "u", "controller": True}
        body["metadata"]["ownerReferences"] = [owner]
        made = await self.api.create(PODS, body, self.ns)
        await self.api.bind(name, self.ns, Binding(self.node))
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await self.api.patch(PODS, name, MergePatch({"status": status}), self.ns, subresource="status")
        if known:
            self.known[ObjectKey(self.ns, name)] = made.metadata.uid

    async def plan(self, *, owned: bool = True) -> RemovalPlan:
        moves = tuple(PodMove(key, "elsewhere") for key in sorted(self.known))
        action = RemoveNode(node=self.node, reason=ScaleDownReason.UNDERUTILIZED, evict=moves, why="a test")
        uid = (await self.api.get(NODES, self.node)).metadata.uid
        gangs = {ObjectKey(self.ns, "gang"): tuple(sorted(self.known))} if self.gang else {}
        return RemovalPlan(intent=action, uid=uid, pods=dict(self.known), gangs=gangs, owned=owned)

    async def removed(self, *, owned: bool = True, pace: DrainPace = QUICK) -> DrainOutcome:
        """All of it."""
        removal, plan = self.removal(pace), await self.plan(owned=owned)
        violation = await removal.begin(plan)
        if violation is not None:
            return await removal.abandon(plan, violation)
        return await removal.finish(plan)

    async def taints(self) -> list[str]:
        return [taint.key for taint in (await self.api.get(NODES, self.node)).spec.taints]

    async def pods(self) -> dict[str, bool]:
        """By name, and whether each is going."""
        found = (await self.api.list(PODS, self.ns)).items
        return {pod.metadata.name: pod.metadata.deletion_timestamp is not None for pod in found}

    async def budget(self, allowed: int) -> None:
        await judge_budget(self.api, self.ns, "b", disruptionsAllowed=allowed, currentHealthy=2, desiredHealthy=1)

    async def hold(self, uid: str, pod: str = "", *, shared: bool = False) -> None:
        """GPU 1 of the node is leased to it."""
        holder = "shared" if shared else uid
        body = a_lease(lease_name(self.node, 1), holder, renewTime="2030-01-01T00:00:00.000000Z")
        notes = {"gpu.scheduling/node": self.node, "gpu.scheduling/device": "1"}
        notes |= {"gpu.scheduling/shares": json.dumps({uid: 500})} if shared else {}
        notes |= {"gpu.scheduling/pod": f"{self.ns}/{pod}"} if pod else {}
        await self.api.create(LEASES, with_meta(body, annotations=notes), self.ns)


@pytest.fixture
async def site(world: World) -> AsyncIterator[Site]:
    name = f"{world.namespace}-node"
    await world.api.create(NODES, a_node(name, taints=[CANDIDATE, a_taint("mine")]))
    cloud = SimulatedCloud(WallClock())
    found = Site(world.api, world.namespace, name, cloud)
    cloud.on_gone = found.deleted.append
    delete = cloud.delete

    async def noted(ids: Sequence[str]) -> None:
        await delete(ids)
        found.deleted.extend(ids)

    cloud.delete = noted  # type: ignore[method-assign]  # the machine is nobody's: what counts is that it was asked for
    yield found
    for pod in (await world.api.list(PODS, world.namespace)).items:
        free = MergePatch({"metadata": {"finalizers": None}})
        await world.api.patch(PODS, pod.metadata.name, free, world.namespace)
        await world.api.delete(PODS, pod.metadata.name, world.namespace, how=DELETE_NOW)
    try:
        await world.api.delete(NODES, name)
    except NotFound:
        return


def why(outcome: DrainOutcome) -> str:
    return outcome.failure.value if isinstance(outcome, NodeNotRemoved) else ""


async def test_pods_leave_and_the_node_goes_with_its_machine(site: Site) -> None:
    await site.pod("a")
    await site.pod("b")
    uid = (await site.api.get(NODES, site.node)).metadata.uid
    outcome = await site.removed()
    assert outcome == NodeRemoved(intent=outcome.intent, uid=uid, instance="i-1", evicted=2), "uid: of whom is told"
    assert [(one.pod.name, one.result.value) for one in site.told] == [("a", "Evicted"), ("b", "Evicted")]
    assert site.deleted == ["i-1"]
    assert await site.pods() == {}
    with pytest.raises(NotFound):
        await site.api.get(NODES, site.node)


async def test_vms_that_have_left_since_the_plan_keep_nobody(site: Site) -> None:
    await site.pod("a")
    removal, plan = site.removal(QUICK), replace(await site.plan(), has_vms=True)
    assert await removal.begin(plan) is None
    outcome = await removal.finish(plan)
    assert outcome == NodeRemoved(intent=plan.intent, uid=plan.uid, instance="i-1", evicted=1)


async def test_the_taint_is_there_before_anybody_is_asked_to_go(site: Site) -> None:
    await site.pod("a")
    plan = await site.plan()
    assert await site.removal().begin(plan) is None
    assert await site.taints() == [CANDIDATE_TAINT, "mine", DRAINING_TAINT]
    assert await site.pods() == {"a": False}


async def test_a_node_without_a_machine_is_left_to_its_owner(site: Site) -> None:
    await site.pod("a")
    outcome = await site.removed(owned=False)
    uid = (await site.api.get(NODES, site.node)).metadata.uid
    assert outcome == NodeRemoved(intent=outcome.intent, uid=uid, left_to_owner=True, evicted=1), "uid: of whom is told"
    assert await site.taints() in (["mine"], ["mine", "node.kubernetes.io/unschedulable"])
    assert (await site.api.get(NODES, site.node)).spec.unschedulable
    assert site.deleted == []


@pytest.mark.parametrize(
    ("spec", "setback"),
    [
        pytest.param({"known": False}, "Occupied", id="a-replica-that-came"),
        pytest.param({"known": False, "kind": "DaemonSet"}, "", id="a-daemon-that-came"),
    ],
)
async def test_who_came_after_the_plan(site: Site, spec: dict[str, Any], setback: str) -> None:
    await site.pod("a")
    await site.pod("late", **spec)
    assert why(await site.removed()) == setback
    if setback:
        assert await site.pods() == {"a": False, "late": False}, "nobody was asked to go"
        assert await site.taints() == ["mine"]
        assert site.deleted == []


@pytest.mark.parametrize("bound", [pytest.param(True, id="bound"), pytest.param(False, id="holds-a-gpu-only")])
async def test_who_comes_while_others_leave_keeps_the_node(site: Site, bound: bool) -> None:
    await site.pod("a")
    await site.api.create(BUDGETS, a_budget("b", {"app": "web"}, minAvailable=1), site.ns)
    await site.budget(0)
    removal, plan = site.removal(DrainPace(after_taint=0.0, evictions=EvictionPace(deadline=30.0))), await site.plan()
    assert await removal.begin(plan) is None
    removing = asyncio.ensure_future(removal.finish(plan))
    await asyncio.sleep(0.3)
    if bound:
        await site.pod("late", known=False)
    else:
        await site.hold((await site.api.create(PODS, a_pod("late"), site.ns)).metadata.uid, "late")
    await site.budget(1)
    outcome = await removing
    assert (why(outcome), outcome.evicted) == ("Occupied", 1)
    assert await site.pods() == {"late": False}
    assert await site.taints() == ["mine"]
    assert site.deleted == []


@pytest.mark.parametrize("shared", [pytest.param(False, id="whole"), pytest.param(True, id="a-share")])
@pytest.mark.parametrize("heard", [pytest.param(False, id="no-watch-told-of-it"), pytest.param(True, id="heard-of")])
async def test_a_pod_that_holds_gpus_is_about_to_come(site: Site, heard: bool, shared: bool) -> None:
    await site.pod("a")
    made = await site.api.create(PODS, a_pod("next"), site.ns)
    uid = made.metadata.uid
    site.heard |= {uid: ObjectKey(site.ns, "next")} if heard else {}
    await site.hold(uid, "" if shared else "next", shared=shared)
    outcome = await site.removed()
    assert (why(outcome), await site.pods(), site.deleted) == ("Occupied", {"a": False, "next": False}, [])


@pytest.mark.parametrize("holder", ["gone", "replaced", "over", "on-the-node", "elsewhere"])
async def test_a_lease_whose_holder_does_not_come_keeps_no_node(site: Site, holder: str) -> None:
    """The Lease is the sweeper's to free."""
    await site.pod("a")
    held = site.known[ObjectKey(site.ns, "a")]
    if holder != "on-the-node":
        held = (await site.api.create(PODS, a_pod("next"), site.ns)).metadata.uid
    if holder == "elsewhere":
        await site.api.bind("next", site.ns, Binding("another-node"))
    if holder in ("gone", "replaced"):
        await site.api.delete(PODS, "next", site.ns, how=DELETE_NOW)
    if holder == "replaced":
        await site.api.create(PODS, a_pod("next"), site.ns)
    if holder == "over":
        over = MergePatch({"status": {"phase": "Succeeded"}})
        await site.api.patch(PODS, "next", over, site.ns, subresource="status")
    await site.hold(held, "a" if holder == "on-the-node" else "next")
    assert isinstance(await site.removed(), NodeRemoved)


async def test_a_budget_that_never_allows_it_keeps_the_node(site: Site) -> None:
    await site.pod("a")
    await site.api.create(BUDGETS, a_budget("b", {"app": "web"}, minAvailable=1), site.ns)
    await site.budget(0)
    outcome = await site.removed()
    assert why(outcome) == "EvictionRefused"
    assert [one.result.value for one in site.told] == ["EvictionRefused"]
    assert await site.pods() == {"a": False}
    assert await site.taints() == ["mine"]


class BudgetGone:
    """An API that finds, so many times, that the budget of a pod was deleted while its eviction was asked for."""

    def __init__(self, api: KubeApi, times: int) -> None:
        self._api = api
        self.times = times

    async def evict(self, pod: str, namespace: str, *, how: Deletion) -> None:
        self.times -= 1
        if self.times >= 0:
            raise NotFound('poddisruptionbudgets.policy "b" not found', kind="poddisruptionbudgets")
        await self._api.evict(pod, namespace, how=how)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)


@pytest.mark.parametrize(
    ("times", "setback"), [pytest.param(1, "", id="once"), pytest.param(9, "ApiFailed", id="again-and-again")]
)
async def test_a_budget_that_was_deleted_meanwhile_is_no_pod_that_is_gone(site: Site, times: int, setback: str) -> None:
    """Nobody waits for a pod to end that was never told to."""
    await site.pod("a")
    real = site.api
    site.api = cast("KubeApi", BudgetGone(real, times))
    patient = replace(QUICK, evictions=replace(QUICK.evictions, deadline=2.0))
    outcome = await site.removed(pace=patient)
    site.api = real
    assert why(outcome) == setback
    assert await site.pods() == ({"a": False} if setback else {})
    assert [one.result.value for one in site.told] == [setback or "Evicted"]


@pytest.mark.parametrize("moment", ["before-the-taint", "while-schedulers-hear-of-it"])
async def test_nobody_goes_beside_a_pod_that_is_sure_to_be_refused(site: Site, moment: str) -> None:
    """What was heard of its budget is old. The node keeps its timer: it only has to wait."""
    await site.pod("a")
    await site.pod("b", labels={"app": "other"})
    await site.api.create(BUDGETS, a_budget("b", {"app": "other"}, minAvailable=1), site.ns)
    await site.budget(1)
    heard = read_budget(await site.api.get(BUDGETS, "b", site.ns))
    site.budgets[heard.key] = heard
    removal, plan = site.removal(), await site.plan()
    if moment == "before-the-taint":
        await site.budget(0)
        violation = await removal.begin(plan)
        assert (violation and violation.failure) == RemovalFailure.BUDGET_SPENT
    else:
        assert await removal.begin(plan) is None
        await site.budget(0)
        assert why(await removal.finish(plan)) == "NotEnoughPdb"
    assert await site.pods() == {"a": False, "b": False}
    assert await site.taints() == [CANDIDATE_TAINT, "mine"]
    await site.budget(1)
    assert isinstance(await site.removed(), NodeRemoved)


async def test_a_gang_whose_budget_does_not_last_is_left_whole(site: Site) -> None:
    site.gang = True
    await site.pod("a")
    await site.pod("b")
    await site.api.create(BUDGETS, a_budget("b", {"app": "web"}, minAvailable=1), site.ns)
    await site.budget(1)
    outcome = await site.removed()
    assert why(outcome) == "PodMustStay"
    assert await site.pods() == {"a": False, "b": False}
    await site.budget(2)
    assert isinstance(await site.removed(), NodeRemoved)


async def test_a_gang_on_two_nodes_that_go_at_once_costs_its_budget_once(site: Site) -> None:
    other = replace(site, node=f"{site.node}-2")
    await site.api.create(NODES, a_node(other.node, taints=[CANDIDATE]))
    site.gang = other.gang = True
    await site.pod("a")
    await other.pod("b")  # what is known is known to both
    await site.api.create(BUDGETS, a_budget("b", {"app": "web"}, minAvailable=1), site.ns)
    await site.budget(2)
    removal = site.removal()
    plans = [await site.plan(), await other.plan()]
    assert [await removal.begin(one) for one in plans] == [None, None]
    outcomes = await asyncio.gather(*(removal.finish(one) for one in plans))
    assert [why(one) for one in outcomes] == ["", ""]
    assert sum(one.evicted for one in outcomes) == len(site.told) == 2


async def test_grace_is_the_pods_own_up_to_a_limit_and_who_does_not_end_keeps_the_node(site: Site) -> None:
    """There is no kubelet: nobody who has grace ends."""
    await site.pod("a", terminationGracePeriodSeconds=300)
    outcome = await site.removed()
    assert (why(outcome), outcome.evicted) == ("PodsRemain", 1)
    left = await site.api.get(PODS.whole(), "a", site.ns)
    assert left["metadata"]["deletionGracePeriodSeconds"] == 1
    assert [one.result.value for one in site.told] == ["PodsRemain"]
    assert await site.taints() == ["mine"]


async def test_pods_of_daemons_are_told_to_go_and_not_waited_for_long(site: Site) -> None:
    await site.pod("a")
    await site.pod("d", known=False, kind="DaemonSet", terminationGracePeriodSeconds=300)
    assert isinstance(await site.removed(), NodeRemoved)
    assert await site.pods() == {"d": True}


async def test_a_machine_that_cannot_be_deleted_keeps_its_node(site: Site) -> None:
    site.cloud.faults.fail("delete", RequestRejected("not yours"))
    outcome = await site.removed()
    assert why(outcome) == "CloudFailed"
    assert await site.taints() == ["mine"]


async def test_a_node_whose_machine_may_be_gone_takes_no_pods_yet(site: Site) -> None:
    """Whoever can list machines has to say."""
    site.cloud.faults.fail("delete", OutcomeUnknown("no answer"), times=9)
    assert why(await site.removed()) == "CloudFailed"
    assert await site.taints() == [CANDIDATE_TAINT, "mine", DRAINING_TAINT]


@pytest.mark.parametrize("change", ["protected", "taken-off", "replaced"])
async def test_a_node_that_is_not_what_it_was(site: Site, change: str) -> None:
    await site.pod("a")
    removal, plan = site.removal(), await site.plan()
    assert await removal.begin(plan) is None
    match change:
        case "protected":
            note = {"annotations": {"gpu.scheduling/scale-down-disabled": "true"}}
            await site.api.patch(NODES, site.node, MergePatch({"metadata": note}))
        case "taken-off":
            await site.api.patch(NODES, site.node, MergePatch({"spec": {"taints": [a_taint("mine")]}}))
        case _:
            await site.api.delete(NODES, site.node)
            await site.api.create(NODES, a_node(site.node, taints=[a_taint("mine")]))
    outcome = await removal.finish(plan)
    assert why(outcome) == ("Protected" if change == "protected" else "NodeChanged")
    assert await site.taints() == ["mine"]
    assert await site.pods() == {"a": False}


@pytest.mark.parametrize("whose", ["gpu.scheduling", "cluster-autoscaler.kubernetes.io"])
async def test_a_node_its_owner_keeps_is_not_even_tainted(site: Site, whose: str) -> None:
    note = {"annotations": {f"{whose}/scale-down-disabled": "true"}}
    await site.api.patch(NODES, site.node, MergePatch({"metadata": note}))
    violation = await site.removal().begin(await site.plan())
    assert violation is not None
    assert violation.failure.value == "Protected"
    assert DRAINING_TAINT not in await site.taints()


async def test_soft_taints_are_put_on_moved_and_taken_off(site: Site) -> None:
    taints, uid = NodeTaints(site.api), (await site.api.get(NODES, site.node)).metadata.uid

    async def since() -> list[str]:
        found = (await site.api.get(NODES, site.node)).spec.taints
        return [taint.value for taint in found if taint.key == CANDIDATE_TAINT]

    await taints.mark(site.node, uid, 7.9)
    assert await since() == ["7"]
    version = (await site.api.get(NODES, site.node)).metadata.resource_version
    await taints.mark(site.node, uid, 7.1)
    assert (await site.api.get(NODES, site.node)).metadata.resource_version == version, "as it was"
    assert await taints.unmark(site.node, "another") is None
    assert await since() == ["7"], "another node's business"
    await taints.unmark(site.node, uid)
    assert await since() == []
    assert await taints.unmark("nowhere", uid) is None
