"""60 % of the nodes can go: all of them do, many at a time, and no service ever has fewer pods than it must have."""

import asyncio
from dataclasses import dataclass

import pytest

from tests.control.provisioning.conftest import PoolPrograms
from tests.control.scheduling.programs import ALONE
from tests.control.scheduling.reading import LEASE_NAMESPACE
from tests.draining.cluster import (
    all_available,
    bought,
    buy,
    drain_from_now_on,
    machines_made,
    nodes_of,
    place,
    services_for,
    thin,
    until,
)
from ullage.kube.api import KubeApi
from ullage.kube.resources import NODE_PROVISIONERS
from ullage.model.drain import CANDIDATE_TAINT, DRAINING_TAINT
from ullage.testing.controlplane import ControlPlane
from ullage.testing.disruption_check import (
    DisruptionHistory,
    below_minimum,
    bound_late,
    drains,
    left_marked,
    most_at_once,
    went_with_pods,
)
from ullage.testing.placement_history import PlacementHistory

pytestmark = pytest.mark.real

BOUND_WITHIN = 5.0
HURRY = ("--node-delete-delay-after-taint", "1s", "--scan-interval", "1s")
"""What waits are for is shown elsewhere: here they only cost time."""


@dataclass(frozen=True)
class Size:
    """How large, how many nodes at once, and how long it may take."""

    nodes: int
    at_once: int
    drained_at_once: int
    seconds: float


SAMPLE = Size(nodes=40, at_once=12, drained_at_once=6, seconds=120.0)
FULL = Size(nodes=300, at_once=60, drained_at_once=30, seconds=600.0)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "size", [pytest.param(SAMPLE, id="sample"), pytest.param(FULL, id="full", marks=pytest.mark.full)]
)
async def test_all_that_can_go_do(plane: ControlPlane, api: KubeApi, programs: PoolPrograms, size: Size) -> None:
    programs.scheduler(plane.kubeconfig, ALONE)
    programs.controller(plane.kubeconfig, ALONE, *HURRY)
    await buy(api, size.nodes)
    loads = dict(thin(await bought(api, size.nodes, programs)))
    services = services_for(loads)
    await place(api, loads, services, programs)
    busy = {name for name, load in loads.items() if load.gpu > 4}

    async def only_busy_nodes_are_left() -> bool:
        names = {node.metadata.name for node in await nodes_of(api)}
        assert busy <= names, f"{busy - names} went, and had work for most of their GPUs"
        return names == busy and await all_available(api, services)

    async with DisruptionHistory(api) as history, PlacementHistory(api, LEASE_NAMESPACE) as placements:
        start = max(moment.version for moment in history.moments)
        limits = {"maxScaleDownParallelism": size.at_once, "maxDrainParallelism": size.drained_at_once}
        await drain_from_now_on(api, unneededTime="2s", **limits)
        await until(only_busy_nodes_are_left, size.seconds, programs)
        await asyncio.gather(history.whole(), placements.whole())
    replicas = {service.key: service.replicas for service in services}
    assert list(below_minimum(history.moments, replicas)) == []
    assert list(bound_late(history.moments, after=start, within=BOUND_WITHIN)) == []
    assert list(went_with_pods(history.moments)) == []
    assert list(placements.breaches()) == []
    assert list(left_marked(await nodes_of(api), DRAINING_TAINT, CANDIDATE_TAINT)) == []
    assert await machines_made(api) == size.nodes
    assert (await api.get(NODE_PROVISIONERS, "pool")).status.current_size == len(busy)
    removals = drains(history.moments, draining=DRAINING_TAINT, candidate=CANDIDATE_TAINT)
    with_pods = [one for one in removals if one.pods]
    assert size.drained_at_once / 2 <= most_at_once(with_pods) <= size.drained_at_once
    assert most_at_once(removals) <= size.at_once
