"""A whole cluster on the real control plane, filled until nothing more fits and emptied again, with everything checked.

More is asked for than there is: 1-GPU claims keep every GPU busy, and whoever waits gets a turn when others leave.
"""

import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from tests.control.scheduling.conftest import StartInstalled
from tests.control.scheduling.fleet import add_nodes, each, reporting, submit, submit_gang
from tests.control.scheduling.programs import Programs
from tests.control.scheduling.reading import LEASE_NAMESPACE, until
from ullage.clock import WallClock
from ullage.kube.auth.connect import connect
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import PODS
from ullage.kube.crds.catalog import POD_GROUP
from ullage.kube.crds.install import install
from ullage.testing.checks.claims import claim_breaches, gang_breaches, gangs
from ullage.testing.checks.pending_pods import read_fresh, waiting_for_nothing
from ullage.testing.checks.placement import PlacementReading, breaches
from ullage.testing.checks.placement_history import PlacementHistory
from ullage.testing.controlplane import WORKLOADS, ControlPlaneSpec

pytestmark = pytest.mark.real

NAMESPACE = "default"
GPUS_PER_NODE = 8
ISLAND = 4
SIZES, WEIGHTS = (1, 2, 4, 8), (70, 15, 10, 5)
MEMBERS, MEMBER_GPUS = 4, 8
SWEEP_SECONDS = 30.0
MARGIN = 15.0


@dataclass(frozen=True)
class Size:
    """How large, and how long it may take to come to rest after each change."""

    nodes: int
    claims: int
    gangs: int
    seconds: float


SAMPLE = Size(nodes=10, claims=100, gangs=1, seconds=60.0)
FULL = Size(nodes=200, claims=2000, gangs=20, seconds=300.0)


@asynccontextmanager
async def a_cluster(start_installed: StartInstalled, programs: Programs, size: Size) -> AsyncIterator[KubeApi]:
    """Nodes whose kubelets and agents are played, and a scheduler at work."""
    plane = start_installed(ControlPlaneSpec(components=WORKLOADS))
    api = connect(plane.kubeconfig)
    names = [f"node-{number:03d}" for number in range(size.nodes)]
    try:
        await install(api, (POD_GROUP,))
        await add_nodes(api, names, WallClock(), **{"kwok.x-k8s.io/node": "fake"})
        programs.scheduler(plane.kubeconfig)
        async with reporting(api, names, WallClock()):
            yield api
    finally:
        await api.close()


async def submit_all(api: KubeApi, size: Size, seed: int) -> None:
    chance = random.Random(seed)
    for number in range(size.gangs):
        await submit_gang(api, NAMESPACE, f"gang-{number:02d}", members=MEMBERS, gpus=MEMBER_GPUS, timeout=60)
    asked = chance.choices(SIZES, WEIGHTS, k=size.claims)

    async def one(number: int) -> None:
        mode = "Required" if asked[number] <= ISLAND else "Preferred"
        await submit(api, NAMESPACE, f"p{number:04d}", asked[number], topology={"mode": mode})

    await each(range(size.claims), one)


def everything_wrong(reading: PlacementReading) -> Iterator[str]:
    yield from breaches(reading)
    yield from claim_breaches(reading)
    yield from gang_breaches(reading)


def gpus_in_use(reading: PlacementReading) -> int:
    return sum(len(pod.gpu_ids) for pod in reading.pods if pod.holds_room)


async def at_rest(api: KubeApi, size: Size, programs: Programs) -> PlacementReading:
    """Everything said is true, and nobody waits who would fit."""
    total = size.nodes * GPUS_PER_NODE

    def full_or_all_placed(reading: PlacementReading) -> bool:
        placed = all(pod.node for pod in reading.pods)
        return placed or gpus_in_use(reading) == total or not any(_asks_for_one(reading))

    def still(reading: PlacementReading) -> bool:
        return full_or_all_placed(reading) and not list(everything_wrong(reading))

    reading = await until(api, still, size.seconds, programs, wrong=everything_wrong)
    snapshot = await read_fresh(api, LEASE_NAMESPACE)
    assert list(waiting_for_nothing(snapshot, now=WallClock().now())) == []
    return reading


def _asks_for_one(reading: PlacementReading) -> Iterator[bool]:
    waiting = {pod.key.name for pod in reading.pods if not pod.node}
    return (claim.spec.devices.count == 1 for claim in reading.claims if claim.metadata.name in waiting)


async def leave(api: KubeApi, reading: PlacementReading) -> Sequence[str]:
    """Everybody on a node ends, in the ordinary way: their kubelets let them go."""
    leaving = [pod.key for pod in reading.pods if pod.node]
    await each(leaving, lambda key: api.delete(PODS, key.name, key.namespace))
    return [str(key) for key in leaving]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "size", [pytest.param(SAMPLE, id="sample"), pytest.param(FULL, id="full", marks=pytest.mark.full)]
)
async def test_a_cluster_is_filled_and_emptied(start_installed: StartInstalled, programs: Programs, size: Size) -> None:
    async with (
        a_cluster(start_installed, programs, size) as api,
        PlacementHistory(api, LEASE_NAMESPACE) as history,
    ):
        await submit_all(api, size, seed=1)
        reading = await at_rest(api, size, programs)
        assert gpus_in_use(reading) == size.nodes * GPUS_PER_NODE
        assert len(gangs(reading)) == size.gangs
        served: set[str] = set()
        while reading.pods:
            left = await leave(api, reading)
            assert left, "pods wait for an empty cluster"
            served.update(left)
            reading = await at_rest(api, size, programs)
        assert len(served) == size.claims + size.gangs * MEMBERS
        await until(api, lambda now: not now.leases, SWEEP_SECONDS + MARGIN, programs)
        await history.whole()
    assert list(history.breaches()) == []
