"""60 % of the nodes can go: all of them do, many at a time, and no service ever has fewer pods than it must have."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from tests.control.provisioning.conftest import PoolPrograms
from tests.control.scheduling.programs import ALONE
from tests.control.scheduling.reading import LEASE_NAMESPACE
from tests.draining.cluster import (
    bought,
    buy,
    drain_from_now_on,
    drained,
    machines_made,
    nodes_of,
    place,
    services_for,
    thin,
    until,
)
from tests.draining.judging import everything_wrong, newest, removals, too_early
from tests.draining.telling import LISTENING, Figures, metrics_page, scrape, told_of
from ullage.kube.api import KubeApi
from ullage.kube.objects.pod import Pod
from ullage.kube.resources import NODE_PROVISIONERS
from ullage.model.drain import CANDIDATE_TAINT, DRAINING_TAINT
from ullage.testing.controlplane import ControlPlane
from ullage.testing.disruption_check import DisruptionHistory, Drain, left_marked, most_at_once
from ullage.testing.placement_history import PlacementHistory

pytestmark = pytest.mark.real

HURRY = ("--node-delete-delay-after-taint", "1s", "--scan-interval", "1s")
"""What waits are for is shown elsewhere: here they only cost time."""
UNNEEDED = 2


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
    programs.controller(plane.kubeconfig, ALONE, *HURRY, *LISTENING)
    page = await metrics_page(programs)
    await buy(api, size.nodes)
    loads = dict(thin(await bought(api, size.nodes, programs)))
    services = services_for(loads)
    await place(api, loads, services, programs)
    busy = {name for name, load in loads.items() if load.gpu > 4}

    async with DisruptionHistory(api) as history, PlacementHistory(api, LEASE_NAMESPACE) as placements:
        start = newest(history.moments)
        limits = {"maxScaleDownParallelism": size.at_once, "maxDrainParallelism": size.drained_at_once}
        await drain_from_now_on(api, unneededTime=f"{UNNEEDED}s", **limits)
        await until(lambda: drained(api, loads, services), size.seconds, programs)
        await asyncio.gather(history.whole(), placements.whole())
    assert list(everything_wrong(history.moments, services, after=start)) == []
    assert list(placements.breaches()) == []
    assert list(left_marked(await nodes_of(api), DRAINING_TAINT, CANDIDATE_TAINT)) == []
    assert await machines_made(api) == size.nodes
    assert (await api.get(NODE_PROVISIONERS, "pool")).status.current_size == len(busy)
    found = removals(history.moments)
    assert list(too_early(found, UNNEEDED)) == []
    with_pods = [one for one in found if one.pods]
    assert size.drained_at_once / 2 <= most_at_once(with_pods) <= size.drained_at_once
    assert most_at_once(found) <= size.at_once
    evicted = {one.fact.metadata.name for one in history.moments if isinstance(one.fact, Pod) and one.gone}
    await until(lambda: told(api, found, evicted), 30, programs)
    agrees_with(await scrape(page), found, len(evicted), len(busy))


async def told(api: KubeApi, found: Sequence[Drain], evicted: set[str]) -> bool:
    """Whether there is an Event for everything that was done."""
    gone = {one.node for one in found if one.gone}
    begun, removed = await told_of(api, "Node", "NodeDraining"), await told_of(api, "Node", "NodeRemoved")
    return set(begun) >= gone and set(removed) == gone and set(await told_of(api, "Pod", "PodEvicted")) == evicted


def agrees_with(figures: Figures, found: Sequence[Drain], evicted: int, busy: int) -> None:
    """The controller's own figures say what was seen from outside."""
    gone = Counter("Underutilized" if one.pods else "Empty" for one in found if one.gone)
    assert figures.by("ullage_scaled_down_nodes_total", "reason") == gone
    assert figures.by("ullage_scaled_down_gpu_nodes_total", "reason") == gone
    assert figures.by("ullage_failed_scale_downs_total", "reason").total() == sum(not one.gone for one in found)
    took = figures.by("ullage_function_duration_seconds_count", "function")
    assert (took["RemoveEmptyNode"], took["RemoveDrainedNode"]) >= (gone["Empty"], gone["Underutilized"])
    assert took["PlanDrain"] > 0
    assert figures.by("ullage_evictions_total", "result") == {"Evicted": evicted}
    assert figures.by("ullage_unremovable_nodes", "reason") == {"NotUnderutilized": busy}
    assert figures.total("ullage_pending_node_deletions") == figures.total("ullage_unneeded_nodes") == 0
