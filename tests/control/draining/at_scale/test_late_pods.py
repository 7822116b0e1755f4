"""A pod that comes to a node between its taint and its end keeps the node, and is not touched."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.control.draining.at_scale.cluster import (
    NS,
    Load,
    Service,
    bought,
    buy,
    drain_from_now_on,
    nodes_of,
    place,
    until,
)
from tests.control.draining.at_scale.reports import LISTENING, metrics_page, scrape, told_of
from tests.control.draining.at_scale.watching import Wanted, begins_to_leave, is_draining, is_free_again, is_gone, seen
from tests.control.provisioning.conftest import PoolPrograms
from tests.control.scheduling.fleet import submit
from tests.control.scheduling.programs import ALONE
from tests.control.scheduling.reading import LEASE_NAMESPACE
from ullage.kube.client.api import DELETE_NOW, Binding, KubeApi
from ullage.kube.client.resources import GPU_CLAIMS, PODS
from ullage.model.claim import ClaimPhase
from ullage.model.draining import CANDIDATE_TAINT, DRAINING_TAINT
from ullage.model.provisioner import HOST_LABEL
from ullage.testing.builders import a_pod
from ullage.testing.checks.disruption import DisruptionHistory, below_minimum, left_marked, went_with_pods
from ullage.testing.checks.placement_history import PlacementHistory
from ullage.testing.controlplane import ControlPlane

pytestmark = pytest.mark.real

OPTIONS = (
    *("--node-delete-delay-after-taint", "2s"),
    *("--scan-interval", "1s"),
    *("--scale-down-delay-after-failure", "3s"),
)
BUSY = Service("busy", 5, {"maxUnavailable": 1}, gpus=1)
SLOW = Service("slow", 2, {"maxUnavailable": 2}, notes=(("testing.ullage.dev/stops-after", "4s"),), grace=30)
REPLICAS = {BUSY.key: BUSY.replicas, SLOW.key: SLOW.replicas}
LATE = "late"


@dataclass(frozen=True)
class TwoNodes:
    """One whose GPUs are in use, and `node`, which can go."""

    api: KubeApi
    programs: PoolPrograms
    page: str
    """Where the controller's metrics are."""
    node: str

    async def kept(self, history: DisruptionHistory) -> None:
        """It is kept for the pod that came late, and that is said; when the pod has left, it goes after all."""
        since = len(history.changes)
        uid = (await self.api.get(PODS, LATE, NS)).metadata.uid
        await seen(history, is_free_again(self.node), 30, since=since)
        await until(self.reasons_are_told, 10, self.programs)
        this = [one for one in await nodes_of(self.api) if one.metadata.name == self.node]
        assert list(left_marked(this, DRAINING_TAINT, CANDIDATE_TAINT)) == []
        pod = await self.api.get(PODS, LATE, NS)
        assert (pod.metadata.uid, pod.spec.node_name, pod.metadata.deletion_timestamp) == (uid, self.node, None)
        await self.api.delete(PODS, LATE, NS, how=DELETE_NOW)
        await seen(history, is_gone(self.node), 60, since=since)

    async def reasons_are_told(self) -> bool:
        note = (await told_of(self.api, "Node", "NodeNotRemoved")).get(self.node, "")
        figures = await scrape(self.page)
        return "Occupied" in note and figures.by("ullage_failed_scale_downs_total", "reason") == {"Occupied": 1}


async def two_nodes(plane: ControlPlane, api: KubeApi, programs: PoolPrograms, spare: Load) -> TwoNodes:
    programs.scheduler(plane.kubeconfig, ALONE)
    programs.controller(plane.kubeconfig, ALONE, *OPTIONS, *LISTENING)
    page = await metrics_page(programs)
    await buy(api, 2)
    busy, node = await bought(api, 2, programs)
    await place(api, {busy: Load(gpu=5), node: spare}, [BUSY, SLOW] if spare.plain else [BUSY], programs)
    return TwoNodes(api, programs, page, node)


@pytest.mark.parametrize(
    ("spare", "when"),
    [
        pytest.param(Load(), is_draining, id="to-an-empty-node-as-soon-as-it-is-tainted", marks=pytest.mark.full),
        pytest.param(
            Load(plain=2), is_draining, id="to-a-node-with-pods-as-soon-as-it-is-tainted", marks=pytest.mark.full
        ),
        pytest.param(Load(plain=2), begins_to_leave, id="while-those-that-were-there-are-leaving"),
    ],
)
async def test_a_pod_bound_by_somebody_else(
    plane: ControlPlane, api: KubeApi, programs: PoolPrograms, spare: Load, when: Callable[[str], Wanted]
) -> None:
    scene = await two_nodes(plane, api, programs, spare)
    await api.create(PODS, a_pod(LATE, schedulerName="nobody", terminationGracePeriodSeconds=0), NS)
    async with DisruptionHistory(api) as history:
        await drain_from_now_on(api, unneededTime="1s")
        await seen(history, when(scene.node), 30)
        await api.bind(LATE, NS, Binding(scene.node))
        await scene.kept(history)
        await history.whole()
    assert list(went_with_pods(history.changes)) == []
    assert list(below_minimum(history.changes, REPLICAS)) == []


async def test_a_pod_with_a_claim_that_tolerates_every_taint(
    plane: ControlPlane, api: KubeApi, programs: PoolPrograms
) -> None:
    """The scheduler puts it there, with GPUs and leases, while others are leaving."""
    scene = await two_nodes(plane, api, programs, Load(plain=2))
    wants = {"nodeSelector": {HOST_LABEL: scene.node}, "tolerations": [{"operator": "Exists"}]}
    async with DisruptionHistory(api) as history, PlacementHistory(api, LEASE_NAMESPACE) as snapshot:
        await drain_from_now_on(api, unneededTime="1s")
        await seen(history, begins_to_leave(scene.node), 30)
        await submit(api, NS, LATE, 2, pod=wants)

        async def has_its_gpus() -> bool:
            claim = await api.get(GPU_CLAIMS, LATE, NS)
            return claim.status.phase == ClaimPhase.BOUND and claim.status.node_name == scene.node

        await until(has_its_gpus, 5, programs)
        await scene.kept(history)
        await history.whole()
        await snapshot.whole()
    assert list(went_with_pods(history.changes)) == []
    assert list(below_minimum(history.changes, REPLICAS)) == []
    assert list(snapshot.breaches()) == []
