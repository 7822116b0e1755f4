"""Two schedulers at once on purpose, one killed in the middle, answers lost: no GPU has two holders, ever."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.control.scheduling.fleet import add_nodes, each, report, reporting, split, submit
from tests.control.scheduling.programs import ALONE, Programs
from tests.control.scheduling.reading import LEASE_NAMESPACE, read, settled, until
from ullage.clock import WallClock
from ullage.kube.auth.connect import find_access
from ullage.kube.client.api import DELETE_NOW, KubeApi
from ullage.kube.client.resources import PODS
from ullage.kube.http.http import HttpTransport
from ullage.testing.checks.placement import PlacementReading
from ullage.testing.checks.placement_history import PlacementHistory
from ullage.testing.controlplane import ControlPlane
from ullage.testing.lossy_proxy import Loss, LossyProxy, RequestFate, is_bind, is_write

pytestmark = [pytest.mark.real, pytest.mark.fault]

NAMESPACE = "default"
NODES = 10
PODS_IN_ALL = 60
BURST = 6
IN_EVERY_RUN = 1
SWEEP_SECONDS = 30.0
MARGIN = 10.0
"""A busy machine is slow to do what was decided in time."""

LOSSES = (
    Loss(is_bind, answer_lost=0.15, late=0.1, request_lost=0.1),
    Loss(is_write, answer_lost=0.03, late=0.02, request_lost=0.03),
)


@asynccontextmanager
async def a_lossy_way(plane: ControlPlane, folder: Path, seed: int) -> AsyncIterator[tuple[LossyProxy, Path]]:
    access = find_access(plane.kubeconfig)
    async with LossyProxy(HttpTransport(access.endpoint, access.credentials), *LOSSES, seed=seed) as proxy:
        yield proxy, proxy.write_kubeconfig(folder / "lossy.kubeconfig")


def nobody_dead_holds(reading: PlacementReading) -> bool:
    alive = {pod.uid for pod in reading.pods if not pod.phase.over}
    return all(hold.uid in alive for lease in reading.leases for hold in lease.holds)


async def submit_slowly(api: KubeApi, chance: random.Random) -> None:
    """Work enough for some seconds, in bursts."""
    sizes = [chance.choice([1, 1, 1, 2]) for _ in range(PODS_IN_ALL)]
    for start in range(0, PODS_IN_ALL, BURST):
        burst = range(start, start + BURST)
        await each(burst, lambda number: submit(api, NAMESPACE, f"p{number}", sizes[number]), at_once=BURST)
        await asyncio.sleep(chance.uniform(0.0, 0.6))


def some_are_bound(how_many: int) -> Callable[[PlacementReading], bool]:
    return lambda now: sum(bool(pod.node) for pod in now.pods) >= how_many


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "seed", [*range(IN_EVERY_RUN), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(IN_EVERY_RUN, 20))]
)
async def test_no_gpu_ever_has_two_holders(
    plane: ControlPlane, api: KubeApi, programs: Programs, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    names = [f"node-{number:03d}" for number in range(NODES)]
    await add_nodes(api, names, WallClock())
    async with (
        reporting(api, names, WallClock()),
        a_lossy_way(plane, tmp_path, seed) as (proxy, kubeconfig),
        PlacementHistory(api, LEASE_NAMESPACE) as history,
    ):
        marked_for_deletion, _ = programs.scheduler(kubeconfig, ALONE), programs.scheduler(kubeconfig, ALONE)
        submitting = asyncio.ensure_future(submit_slowly(api, chance))
        await until(api, some_are_bound(chance.randrange(5, PODS_IN_ALL // 2)), 60, programs)
        programs.kill(marked_for_deletion)
        await asyncio.sleep(chance.uniform(0.0, 2.0))
        programs.scheduler(kubeconfig, ALONE)
        await submitting
        victims = [pod.key for pod in (await read(api)).pods[::4]]
        await each(victims, lambda key: api.delete(PODS, key.name, key.namespace, how=DELETE_NOW))
        await until(api, nobody_dead_holds, SWEEP_SECONDS + MARGIN, programs)
        await settled(api, 90, programs)
        await history.whole()
    assert list(history.breaches()) == []
    assert proxy.fates[RequestFate.ANSWER_LOST], "nothing was lost: this run shows nothing"


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.full), pytest.param(2, marks=pytest.mark.full)])
async def test_no_mig_instance_ever_has_two_holders(
    plane: ControlPlane, api: KubeApi, programs: Programs, tmp_path: Path, seed: int
) -> None:
    """Forty who want one of thirty-two, two schedulers that decide for all of them, and answers that are lost."""
    chance = random.Random(seed)
    names = ["node-000", "node-001"]
    hardware = {name: split(name, gpus=range(4), into=4) for name in names}
    await add_nodes(api, names, WallClock())
    for name in names:
        await report(api, name, WallClock(), hardware[name])

    async def ask(number: int) -> None:
        slices = {"exclusivity": "MIG", "memory": "10Gi"}
        await submit(api, NAMESPACE, f"p{number}", 1, requested=0, devices=slices)

    def given(reading: PlacementReading) -> list[str]:
        return [uuid for pod in reading.pods for uuid in pod.gpu_instances]

    async with (
        reporting(api, names, WallClock(), hardware),
        a_lossy_way(plane, tmp_path, seed) as (proxy, kubeconfig),
        PlacementHistory(api, LEASE_NAMESPACE) as history,
    ):
        marked_for_deletion, _ = programs.scheduler(kubeconfig, ALONE), programs.scheduler(kubeconfig, ALONE)
        await each(range(40), ask, at_once=BURST)
        await until(api, lambda now: len(given(now)) >= chance.randrange(5, 20), 60, programs)
        programs.kill(marked_for_deletion)
        programs.scheduler(kubeconfig, ALONE)
        await until(api, lambda now: len(given(now)) == 32, 60, programs)
        victims = [pod.key for pod in (await read(api)).pods if pod.node][::3]
        await each(victims, lambda key: api.delete(PODS, key.name, key.namespace, how=DELETE_NOW))
        await until(api, nobody_dead_holds, SWEEP_SECONDS + MARGIN, programs)
        await settled(api, 90, programs)
        await history.whole()
    assert list(history.breaches()) == []
    assert proxy.fates[RequestFate.ANSWER_LOST], "nothing was lost: this run shows nothing"
