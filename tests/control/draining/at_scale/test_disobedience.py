"""Others that do not do as planned: budgets that are spent, pods that do not go, an API server that goes away."""

import asyncio
from dataclasses import dataclass

import pytest

from tests.control.draining.at_scale.checks import everything_wrong, newest, removals
from tests.control.draining.at_scale.cluster import (
    NS,
    Load,
    Service,
    all_available,
    bought,
    buy,
    drain_from_now_on,
    drained,
    machines_made,
    nodes_of,
    place,
    pods_on,
    services_for,
    thin,
    until,
)
from tests.control.draining.at_scale.reports import LISTENING, Figures, metrics_page, scrape, told_of
from tests.control.draining.at_scale.watching import begins_to_leave, is_draining, is_free_again, is_gone, seen
from tests.control.provisioning.conftest import PoolPrograms
from tests.control.scheduling.programs import ALONE
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resources import BUDGETS, PODS
from ullage.kube.objects.pod import KubePod
from ullage.model.draining import CANDIDATE_TAINT, DRAINING_TAINT
from ullage.testing.checks.disruption import DisruptionHistory, left_marked, went_with_pods
from ullage.testing.controlplane import ControlPlane, GoProgram

pytestmark = [pytest.mark.real, pytest.mark.fault]

OPTIONS = (
    *(ALONE, "--allow-serial-eviction", "--node-delete-delay-after-taint", "1s"),
    *("--scan-interval", "1s"),
    *("--scale-down-delay-after-failure", "3s"),
    *("--max-pod-eviction-time", "6s"),
)
BUSY = Service("busy", 5, {"maxUnavailable": 1}, gpus=1)


@dataclass(frozen=True)
class TwoNodes:
    """One whose GPUs are in use, and `node`, which holds all pods of a service and could go."""

    api: KubeApi
    programs: PoolPrograms
    page: str
    """Where the controller's metrics are."""
    node: str

    async def figures(self) -> Figures:
        return await scrape(self.page)

    async def fails_for(self, reason: str) -> bool:
        """Whether it is told that the node stays, and why, in all the places."""
        note = (await told_of(self.api, "Node", "NodeNotRemoved")).get(self.node, "")
        failed = (await self.figures()).by("ullage_failed_scale_downs_total", "reason")
        return reason in note and failed[reason] >= 1

    async def left_marked(self) -> list[str]:
        this = [one for one in await nodes_of(self.api) if one.metadata.name == self.node]
        return list(left_marked(this, DRAINING_TAINT))


async def two_nodes(plane: ControlPlane, api: KubeApi, programs: PoolPrograms, service: Service) -> TwoNodes:
    programs.scheduler(plane.kubeconfig, ALONE)
    programs.controller(plane.kubeconfig, *OPTIONS, *LISTENING)
    page = await metrics_page(programs)
    await buy(api, 2)
    busy, node = await bought(api, 2, programs)
    await place(api, {busy: Load(gpu=5), node: Load(plain=service.replicas)}, [BUSY, service], programs)
    return TwoNodes(api, programs, page, node)


async def test_a_budget_that_allows_nothing(plane: ControlPlane, api: KubeApi, programs: PoolPrograms) -> None:
    """Nothing is begun, and the reason can be read; when the budget allows it, the node goes."""
    strict = Service("strict", 2, {"maxUnavailable": 0})
    scene = await two_nodes(plane, api, programs, strict)
    async with DisruptionHistory(api) as history:
        await drain_from_now_on(api, unneededTime="1s")

        async def the_reason_is_shown() -> bool:
            return (await scene.figures()).by("ullage_unremovable_nodes", "reason")["NotEnoughPdb"] == 1

        await until(the_reason_is_shown, 20, programs)
        await asyncio.sleep(5)
        assert removals(history.changes) == []
        await api.patch(BUDGETS, strict.name, MergePatch({"spec": {"maxUnavailable": 2}}), NS)
        await seen(history, is_gone(scene.node), 60)
        await until(lambda: all_available(api, [BUSY, strict]), 20, programs)
        await history.whole()
    assert list(everything_wrong(history.changes, [BUSY, strict], after=newest(history.changes))) == []


async def test_a_budget_that_is_spent_after_the_plan(plane: ControlPlane, api: KubeApi, programs: PoolPrograms) -> None:
    """Budgets are read again before the first eviction: the node is given back, with all its pods and the reason."""
    fickle = Service("fickle", 2, {"maxUnavailable": 2})
    scene = await two_nodes(plane, api, programs, fickle)
    pods = await pods_on(api, scene.node)
    async with DisruptionHistory(api) as history:
        await drain_from_now_on(api, unneededTime="1s")
        await seen(history, is_draining(scene.node), 30)
        since = len(history.changes)
        await api.patch(BUDGETS, fickle.name, MergePatch({"spec": {"maxUnavailable": 0}}), NS)
        await seen(history, is_free_again(scene.node), 30, since=since)
        await until(lambda: scene.fails_for("NotEnoughPdb"), 10, programs)
        assert sum((await scene.figures()).by("ullage_evictions_total", "result").values()) == 0
        assert await pods_on(api, scene.node) == pods
        assert await scene.left_marked() == []
        await api.patch(BUDGETS, fickle.name, MergePatch({"spec": {"maxUnavailable": 2}}), NS)
        await seen(history, is_gone(scene.node), 60, since=since)
        await history.whole()
    assert list(everything_wrong(history.changes, [BUSY, fickle], after=newest(history.changes))) == []


@pytest.mark.full
async def test_a_pod_that_is_held_by_a_finalizer(plane: ControlPlane, api: KubeApi, programs: PoolPrograms) -> None:
    """The node is not deleted under it before it should long have been gone; that it stays is told."""
    held = Service("held", 1, {"maxUnavailable": 1}, finalizers=("testing.ullage.dev/held",))
    scene = await two_nodes(plane, api, programs, held)
    [pod] = await pods_on(api, scene.node)
    async with DisruptionHistory(api) as history:
        await drain_from_now_on(api, unneededTime="1s")
        await seen(history, begins_to_leave(scene.node), 30)
        since = len(history.changes)
        await seen(history, is_free_again(scene.node), 60, since=since)
        await until(lambda: scene.fails_for("PodsRemain"), 10, programs)
        assert (await scene.figures()).by("ullage_evictions_total", "result")["PodsRemain"] == 1
        assert set(await told_of(api, "Pod", "PodNotEvicted")) == {pod}
        await api.patch(PODS, pod, MergePatch({"metadata": {"finalizers": None}}), NS)
        await seen(history, is_gone(scene.node), 60, since=since)
        await history.whole()
    assert list(went_with_pods(history.changes)) == []


@pytest.mark.parametrize("down", [1.0, pytest.param(20.0, marks=pytest.mark.full)])
async def test_the_api_server_goes_away(plane: ControlPlane, api: KubeApi, programs: PoolPrograms, down: float) -> None:
    """In the middle of evictions: the end is the same, and before and after budgets are kept."""
    programs.scheduler(plane.kubeconfig, ALONE)
    programs.controller(plane.kubeconfig, *OPTIONS)
    await buy(api, 10)
    loads = dict(thin(await bought(api, 10, programs)))
    services = services_for(loads)
    await place(api, loads, services, programs)
    async with DisruptionHistory(api) as before:
        await drain_from_now_on(api, unneededTime="1s")
        await seen(
            before, lambda moment: isinstance(moment.fact, KubePod) and moment.gone, 40, since=len(before.changes)
        )
        await asyncio.to_thread(plane.kill, GoProgram.APISERVER)
        heard = list(before.changes)
    await asyncio.sleep(down)
    await asyncio.to_thread(plane.start, GoProgram.APISERVER)
    async with DisruptionHistory(api) as after:
        back = newest(after.changes)
        # Killed between an Eviction's change of the budget and the pod's deletion, it leaves the pod in the budget's
        # disruptedPods: kube-controller-manager allows that budget nothing for DeletionTimeout, two minutes.
        await until(lambda: drained(api, loads, services), 120 + 60, programs)
        await after.whole()
    assert list(everything_wrong(heard, services, after=newest(heard))) == []
    assert list(everything_wrong(after.changes, services, after=back)) == []
    assert list(left_marked(await nodes_of(api), DRAINING_TAINT, CANDIDATE_TAINT)) == []
    assert await machines_made(api) == 10
