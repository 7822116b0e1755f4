"""SIGKILL of the controller at every edge of the lifecycle, on a real Karpenter: nothing twice, nothing left."""

import asyncio
import signal
import subprocess
import time
from dataclasses import dataclass, field
from functools import partial

import pytest

from tests.control.provisioning.conftest import PoolPrograms
from tests.control.scheduling.programs import ALONE
from ullage.kube.client.resources import GPU_NODE_STATUSES, NODE_CLAIMS, PODS
from ullage.kube.read import read_pod
from ullage.model.karpenter import HANDOVER
from ullage.model.lifecycles import IN_FLIGHT
from ullage.model.lifecycles import SmartPodState as S
from ullage.testing.controlplane import ControlPlane
from ullage.testing.karpenter_cluster import NAMESPACE, KarpenterCluster

pytestmark = [pytest.mark.real, pytest.mark.fault, pytest.mark.timeout(280)]

NOTHING, ADMITTED, BOUND, OPENED = "", "Admitted", "Bound", "Opened"
QUICK = (S.LAUNCHED.value,)
EDGES = (*(one.value for one in IN_FLIGHT), S.HANDED_OVER.value, ADMITTED, BOUND)
ORDER = (NOTHING, *EDGES, OPENED)
ROUNDS = 6
"""Requests of a test, until the controller is killed at the edge that is meant."""
STEP = 0.015
"""Seconds for which the controller runs between two looks: enough for one write."""


@dataclass
class Watched:
    """One request, as the objects show it while the controller stands still."""

    cluster: KarpenterCluster
    name: str
    held: list[tuple[str, int]] = field(default_factory=list)
    """Nodes whose agents wait for the state Initialized: else the report is there before the smart pod is bound."""

    async def position(self, *, by_others: bool) -> str:
        """Last edge that was passed; only those the controller writes, or also what agents and the scheduler did."""
        api = self.cluster.api
        body, smart_pods, nodes = await asyncio.gather(
            api.get(PODS, self.name, NAMESPACE), self.cluster.smart_pods(), self.cluster.nodes()
        )
        pod = read_pod(body)
        smart = [one for one in smart_pods if one.original and any(p.uid == pod.uid for p in one.original.pods)]
        closed = any(one.handover and any(p.uid == pod.uid for p in one.handover.pods) for one in nodes)
        if any(one.key == HANDOVER for one in pod.shape.tolerations):
            if not closed:
                return OPENED
            return BOUND if by_others and pod.node else ADMITTED
        if closed:
            return S.RESERVED.value if smart else S.HANDED_OVER.value
        state = smart[0].state if smart else NOTHING
        if by_others and state == S.INITIALIZED.value and await self._has_report(smart[0].node):
            return S.INVENTORY_READY.value
        return state

    async def _has_report(self, node: str) -> bool:
        return any(one.metadata.name == node for one in (await self.cluster.api.list(GPU_NODE_STATUSES)).items)

    async def let_agents_report(self) -> None:
        nodes, self.held[:] = list(self.held), []
        for node, gpus in nodes:
            self.cluster.install_agent(node, gpus)
            await self.cluster.until(partial(self._has_report, node), every=0.02)


async def _stop_at(controller: subprocess.Popen[bytes], watched: Watched, edge: str) -> str:
    """Stop the controller at the edge, or as soon as it is past it. Returns what the objects show then."""
    ends = time.monotonic() + 120.0
    while time.monotonic() < ends:
        controller.send_signal(signal.SIGSTOP)
        position = await watched.position(by_others=True)
        if ORDER.index(position) >= ORDER.index(edge):
            return position
        if position == S.INITIALIZED.value and watched.held:
            await watched.let_agents_report()
            continue
        if position == ADMITTED:  # the scheduler binds while the controller stands still
            await watched.cluster.bound(watched.name)
            continue
        controller.send_signal(signal.SIGCONT)
        await asyncio.sleep(STEP if position else 0.2)
    raise TimeoutError(f"{watched.name} did not come to {edge}: {position or 'no smart pod'}")


def _edges() -> list[object]:
    return [pytest.param(one, id=one, marks=() if one in QUICK else pytest.mark.full) for one in EDGES]


@pytest.mark.parametrize("edge", _edges())
async def test_a_controller_that_is_killed_goes_on_where_it_was(
    cluster: KarpenterCluster, plane: ControlPlane, programs: PoolPrograms, settings: str, edge: str
) -> None:
    programs.scheduler(plane.kubeconfig, "--settings", settings, ALONE)
    controller = programs.controller(plane.kubeconfig, "--settings", settings, ALONE)
    killed_at: list[str] = []
    for number in range(ROUNDS):
        watched = Watched(cluster, f"a{number}")
        cluster.start_agent = lambda node, gpus, held=watched.held: held.append((node, gpus))
        await cluster.claim_pod(watched.name)
        seen = await _stop_at(controller, watched, edge)
        programs.kill(controller)
        killed_at.append(max(seen, await watched.position(by_others=False), key=ORDER.index))
        cluster.start_agent = None
        await asyncio.sleep(3.0)
        await watched.let_agents_report()
        controller = programs.controller(plane.kubeconfig, "--settings", settings, ALONE)
        await cluster.bound(watched.name)
        await cluster.settled()
        programs.check_running()
        assert len(cluster.claims_made) == number + 1, "no duplicate NodeClaim"
        left = {one.metadata.name for one in (await cluster.api.list(NODE_CLAIMS)).items}
        assert left == cluster.claims_made, "NodeClaims stay"
        assert await cluster.is_on_its_own_node(watched.name)
        assert not any(one.kept for one in await cluster.nodes()), "Karpenter may disrupt the node again"
        if killed_at[-1] == edge:
            return
    pytest.fail(f"the controller was never killed at {edge}, but at {', '.join(one or 'nothing' for one in killed_at)}")


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
