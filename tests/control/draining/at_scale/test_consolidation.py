"""60 % of the nodes can go: all of them do, many at a time, and no service ever has fewer pods than it must have."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from tests.control.draining.at_scale.checks import everything_wrong, newest, removals, too_early
from tests.control.draining.at_scale.cluster import (
    POOL,
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
    until_right,
)
from tests.control.draining.at_scale.reports import LISTENING, metrics_page, scrape, told_of
from tests.control.provisioning.conftest import PoolPrograms
from tests.control.scheduling.programs import ALONE
from tests.control.scheduling.reading import LEASE_NAMESPACE
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import NODE_PROVISIONERS
from ullage.kube.objects.pod import KubePod
from ullage.model.draining import CANDIDATE_TAINT, DRAINING_TAINT
from ullage.testing.checks.disruption import DisruptionHistory, ObservedDrain, left_marked, most_at_once
from ullage.testing.checks.placement_history import PlacementHistory
from ullage.testing.controlplane import ControlPlane

pytestmark = pytest.mark.real

HURRY = ("--node-delete-delay-after-taint", "1s", "--scan-interval", "1s", "--allow-serial-eviction")
"""What waits are for is shown elsewhere: here they only cost time."""
UNNEEDED = 2
DURATIONS = "ullage_function_duration_seconds_count"
FUNCTIONS = {"PlanDrain", "RemoveEmptyNode", "RemoveDrainedNode"}


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

    async with DisruptionHistory(api) as history, PlacementHistory(api, LEASE_NAMESPACE) as snapshot:
        start = newest(history.changes)
        limits = {"maxScaleDownParallelism": size.at_once, "maxDrainParallelism": size.drained_at_once}
        await drain_from_now_on(api, unneededTime=f"{UNNEEDED}s", **limits)
        await until(lambda: drained(api, loads, services), size.seconds, programs)
        await asyncio.gather(history.whole(), snapshot.whole())
    assert list(everything_wrong(history.changes, services, after=start)) == []
    assert list(snapshot.breaches()) == []
    assert list(left_marked(await nodes_of(api), DRAINING_TAINT, CANDIDATE_TAINT)) == []
    assert await machines_made(api) == size.nodes
    await until(lambda: shrunk_to(api, len(busy)), 10, programs)
    found = removals(history.changes)
    # Soft taints have a budget of calls: not every node has its mark before its time comes.
    assert list(too_early([one for one in found if one.candidate_since], UNNEEDED)) == []
    with_pods = [one for one in found if one.pods]
    assert size.drained_at_once / 2 <= most_at_once(with_pods) <= size.drained_at_once
    assert most_at_once(found) <= size.at_once
    evicted = {one.fact.metadata.name for one in history.changes if isinstance(one.fact, KubePod) and one.gone}
    seen = Seen(found, frozenset(evicted), frozenset(busy))
    await until_right(lambda: untold(api, seen), 30, programs)
    await until_right(lambda: wrong_figures(page, seen), 30, programs)


async def shrunk_to(api: KubeApi, size: int) -> bool:
    """Whether the pool says so itself."""
    status = (await api.get(NODE_PROVISIONERS, POOL)).status
    return status.current_size == status.target_size == size


@dataclass(frozen=True)
class Seen:
    """What was done, as it was seen from outside."""

    removals: Sequence[ObservedDrain]
    evicted: frozenset[str]
    """Names of pods."""
    busy: frozenset[str]
    """Names of nodes that are left."""

    @property
    def gone(self) -> set[str]:
        return {one.node for one in self.removals if one.gone}


async def untold(api: KubeApi, seen: Seen) -> list[str]:
    """Nodes and pods with an Event too few or too many."""
    wrong = seen.gone ^ set(await told_of(api, "Node", "NodeRemoved"))
    wrong |= seen.gone - set(await told_of(api, "Node", "NodeDraining"))
    wrong |= seen.evicted ^ set(await told_of(api, "Pod", "PodEvicted"))
    return sorted(wrong)


async def wrong_figures(page: str, seen: Seen) -> list[str]:
    """What the controller's metrics say otherwise than it was."""
    figures = await scrape(page)
    gone = Counter("Underutilized" if one.pods else "Empty" for one in seen.removals if one.gone)
    wanted: dict[tuple[str, str], Counter[str]] = {
        ("scaled_down_nodes_total", "reason"): gone,
        ("scaled_down_gpu_nodes_total", "reason"): gone,
        ("evictions_total", "result"): Counter({"Evicted": len(seen.evicted)}),
        ("unremovable_nodes", "reason"): Counter({"NotUnderutilized": len(seen.busy)}),
        ("unneeded_nodes", ""): Counter(),
        ("pending_node_deletions", "kind"): Counter(),
        ("scale_down_throttled", ""): Counter(),
    }
    said = {(name, label): figures.by(f"ullage_{name}", label) for name, label in wanted}
    wrong = [f"{name}: {said[name, label]}" for name, label in wanted if said[name, label] != wanted[name, label]]
    failed = figures.total("ullage_failed_scale_downs_total")
    if failed != len(seen.removals) - len(seen.gone):
        wrong.append(f"{failed} failures")
    return wrong + [f"no time for {name}" for name in FUNCTIONS - figures.by(DURATIONS, "function").keys()]
