"""SIGKILL of the controller at every edge of the lifecycle, on a real Karpenter: nothing twice, nothing left."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.control.provisioning.conftest import PoolPrograms
from tests.control.scheduling.programs import ALONE
from ullage.kube.client.resources import NODE_CLAIMS, PODS
from ullage.kube.read import read_pod
from ullage.model.karpenter import HANDOVER, UNCLAIMED
from ullage.model.lifecycles import IN_FLIGHT
from ullage.model.lifecycles import SmartPodState as S
from ullage.testing.controlplane import ControlPlane
from ullage.testing.karpenter_cluster import NAMESPACE, KarpenterCluster

pytestmark = [pytest.mark.real, pytest.mark.fault, pytest.mark.timeout(280)]

ADMITTED, BOUND = "Admitted", "Bound"
QUICK = (S.LAUNCHED.value,)
EDGES = (*(one.value for one in IN_FLIGHT), S.HANDED_OVER.value, ADMITTED, BOUND)


async def _has_reached(cluster: KarpenterCluster, edge: str) -> bool:
    """As objects show it. A state that passes within one reconcile may be over: then a later one will do."""
    if edge == BOUND:
        return bool(await cluster.node_of("a"))
    pod = read_pod(await cluster.api.get(PODS, "a", NAMESPACE))
    if edge == ADMITTED:
        return bool(pod.node) or any(one.key == HANDOVER for one in pod.shape.tolerations)
    smart = await cluster.smart_pods()
    closed = [one for one in await cluster.nodes() if one.closed_for not in (None, UNCLAIMED)]
    if edge == S.HANDED_OVER.value:
        return bool(pod.node) or (bool(closed) and not smart)
    if edge == S.RESERVED.value:
        return bool(pod.node) or bool(closed)
    order = [one.value for one in IN_FLIGHT]
    return bool(pod.node) or any(one.state in order[order.index(edge) :] for one in smart)


def _edges() -> list[object]:
    return [pytest.param(one, id=one, marks=() if one in QUICK else pytest.mark.full) for one in EDGES]


@pytest.mark.parametrize("edge", _edges())
async def test_a_controller_that_is_killed_goes_on_where_it_was(
    cluster: KarpenterCluster, plane: ControlPlane, programs: PoolPrograms, settings: str, edge: str
) -> None:
    programs.scheduler(plane.kubeconfig, "--settings", settings, ALONE)
    controller = programs.controller(plane.kubeconfig, "--settings", settings, ALONE)
    await cluster.claim_pod("a")
    await cluster.until(_reached(cluster, edge), every=0.01)
    programs.kill(controller)
    await asyncio.sleep(3.0)
    programs.controller(plane.kubeconfig, "--settings", settings, ALONE)
    await cluster.bound("a")
    await cluster.settled()
    programs.check_running()
    assert len(cluster.claims_made) == 1, "no duplicate NodeClaim"
    assert [one.metadata.name for one in (await cluster.api.list(NODE_CLAIMS)).items] == list(cluster.claims_made)
    assert not any(one.kept for one in await cluster.nodes()), "Karpenter may disrupt the node again"


def _reached(cluster: KarpenterCluster, edge: str) -> Callable[[], Awaitable[bool]]:
    return lambda: _has_reached(cluster, edge)


@pytest.mark.full
async def test_a_controller_that_is_killed_again_and_again_gets_there(
    cluster: KarpenterCluster, plane: ControlPlane, programs: PoolPrograms, settings: str
) -> None:
    """Every 4 s, which is long enough to start and too short for a whole request."""
    programs.scheduler(plane.kubeconfig, "--settings", settings, ALONE)
    await cluster.claim_pod("a")
    for _ in range(5):
        controller = programs.controller(plane.kubeconfig, "--settings", settings, ALONE)
        await asyncio.sleep(4.0)
        programs.kill(controller)
    programs.controller(plane.kubeconfig, "--settings", settings, ALONE)
    await cluster.bound("a")
    await cluster.settled()
    assert len(cluster.claims_made) == 1
