"""kube-controller-manager stands still while nodes are drained: nothing goes that is needed as soon as it goes on."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.control.draining.at_scale.cluster import (
    Load,
    Service,
    all_available,
    bought,
    buy,
    drain_from_now_on,
    machines_made,
    nodes_of,
    place,
    until,
)
from tests.control.provisioning.conftest import PoolPrograms
from tests.control.scheduling.programs import ALONE
from ullage.kube.client.api import KubeApi
from ullage.model.draining import DRAINING_TAINT
from ullage.testing.controlplane import ControlPlane
from ullage.testing.controlplane.versions import GoProgram

pytestmark = [pytest.mark.real, pytest.mark.fault]

OPTIONS = (ALONE, "--node-delete-delay-after-taint", "1s", "--scan-interval", "1s")
SIZE, EACH = 8, 2
"""Nodes with eight GPUs each, and pods with one GPU on each of them."""
NEEDED = 2
"""So many nodes would have room for all of them."""
SECONDS = 8.0


@contextmanager
def standing_still(plane: ControlPlane) -> Iterator[None]:
    plane.pause(GoProgram.CONTROLLER_MANAGER)
    try:
        yield
    finally:
        plane.resume(GoProgram.CONTROLLER_MANAGER)


async def never_too_few(api: KubeApi, seconds: float) -> int:
    """Nodes that take pods are always as many as all pods need that are to be there. The fewest that were seen."""
    loop, fewest = asyncio.get_running_loop(), SIZE
    until_then = loop.time() + seconds
    while loop.time() < until_then:
        nodes = await nodes_of(api)
        left = [node for node in nodes if all(taint.key != DRAINING_TAINT for taint in node.spec.taints)]
        fewest = min(fewest, len(left))
        assert fewest >= NEEDED, "nodes went that are needed as soon as it goes on"
        await asyncio.sleep(0.2)
    return fewest


@pytest.mark.full  # every run has it in virtual time: draining/test_lagging_stories.py
async def test_a_controller_manager_that_stands_still(
    plane: ControlPlane, api: KubeApi, programs: PoolPrograms
) -> None:
    programs.scheduler(plane.kubeconfig, ALONE)
    running = programs.controller(plane.kubeconfig, *OPTIONS)
    await buy(api, SIZE)
    names = await bought(api, SIZE, programs)
    services = [Service("infer", SIZE * EACH, {"maxUnavailable": "100%"}, gpus=1)]
    await place(api, dict.fromkeys(names, Load(gpu=EACH)), services, programs)
    with standing_still(plane):
        await drain_from_now_on(api, unneededTime="2s")
        fewest = await never_too_few(api, SECONDS)
        programs.kill(running)
        programs.controller(plane.kubeconfig, *OPTIONS)
        fewest = min(fewest, await never_too_few(api, SECONDS))
        assert fewest < SIZE, "nothing was drained: this shows nothing"
    await until(lambda: all_available(api, services), 60, programs)
    await asyncio.sleep(2)
    assert await machines_made(api) == SIZE, "a node was bought for pods that had been evicted"
