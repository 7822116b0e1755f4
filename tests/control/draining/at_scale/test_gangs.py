"""A gang is moved whole, from all its nodes at once, or left alone."""

import pytest

from tests.control.draining.at_scale.checks import everything_wrong, newest, removals
from tests.control.draining.at_scale.cluster import (
    NS,
    Load,
    Service,
    bought,
    buy,
    drain_from_now_on,
    drained,
    machines_made,
    place,
    pods_on,
    until,
)
from tests.control.draining.at_scale.reports import LISTENING, metrics_page, scrape
from tests.control.provisioning.conftest import PoolPrograms
from tests.control.scheduling.programs import ALONE
from tests.control.scheduling.reading import LEASE_NAMESPACE
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resources import PODS
from ullage.model.draining import UnremovableReason
from ullage.model.pod import Pod
from ullage.testing.checks.disruption import DisruptionHistory
from ullage.testing.checks.placement_history import PlacementHistory, begun_too_early
from ullage.testing.controlplane import ControlPlane

pytestmark = pytest.mark.real

OPTIONS = (ALONE, "--node-delete-delay-after-taint", "1s", "--scan-interval", "1s")
BUSY = Service("busy", 10, {"maxUnavailable": 1}, gpus=1)
MEMBERS = 2


async def four_nodes(plane: ControlPlane, api: KubeApi, programs: PoolPrograms, gang: Service) -> dict[str, Load]:
    """Two whose GPUs are in use, and two with a member of the gang each."""
    programs.scheduler(plane.kubeconfig, ALONE)
    programs.controller(plane.kubeconfig, *OPTIONS, *LISTENING)
    await buy(api, 4)
    names = await bought(api, 4, programs)
    loads = dict(zip(names, [Load(gpu=5), Load(gpu=5), Load(plain=1), Load(plain=1)], strict=True))
    await place(api, loads, [BUSY, gang], programs)
    assert [len(await pods_on(api, name)) for name in names] == [5, 5, 1, 1]
    return loads


async def test_a_gang_moves_whole(plane: ControlPlane, api: KubeApi, programs: PoolPrograms) -> None:
    gang = Service("gang", MEMBERS, {"maxUnavailable": MEMBERS}, gpus=1, gang=True)
    loads = await four_nodes(plane, api, programs, gang)
    async with DisruptionHistory(api) as history, PlacementHistory(api, LEASE_NAMESPACE) as snapshot:
        start = newest(history.changes)
        await drain_from_now_on(api, unneededTime="1s")
        await until(lambda: drained(api, loads, [BUSY, gang]), 60, programs)
        await history.whole()
        await snapshot.whole()
    assert list(everything_wrong(history.changes, [BUSY, gang], after=start)) == []
    assert list(snapshot.breaches()) == []
    pods = [one.fact for one in snapshot.changes if isinstance(one.fact, Pod)]
    members = {pod.uid for pod in pods if pod.claim_template == gang.name}
    assert len(members) == 2 * MEMBERS, "somebody was moved more than once"
    # One may be bound beside a former member whose eviction was not answered yet, never beside nobody.
    assert list(begun_too_early(snapshot.changes, members, MEMBERS, after=start, window=0.5)) == []
    assert await machines_made(api) == len(loads)


async def test_a_gang_whose_budget_does_not_last_stays(
    plane: ControlPlane, api: KubeApi, programs: PoolPrograms
) -> None:
    """One of two may go at a time, and one alone is of no use: neither does."""
    gang = Service("gang", MEMBERS, {"maxUnavailable": 1}, gpus=1, gang=True)
    loads = await four_nodes(plane, api, programs, gang)
    page = await metrics_page(programs)
    before = {pod.metadata.uid for pod in (await api.list(PODS, NS)).items}
    async with DisruptionHistory(api) as history:
        await drain_from_now_on(api, unneededTime="1s")

        async def the_reason_is_shown() -> bool:
            stay = (await scrape(page)).by("ullage_unremovable_nodes", "reason")
            return stay == {UnremovableReason.TOO_MUCH_USED: 2, UnremovableReason.NOT_ENOUGH_PDB: 2}

        await until(the_reason_is_shown, 30, programs)
        await history.whole()
    assert removals(history.changes) == []
    assert {pod.metadata.uid for pod in (await api.list(PODS, NS)).items} == before
    assert len(loads) == 4
