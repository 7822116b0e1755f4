"""Leader election in virtual time: who leads, how fast another takes over, and that never two act."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from tests.control.leader.candidates import LEASE, SPACE, Team, api_over
from ullage.act.concurrency import ended
from ullage.control.leader.election import ElectionLease, ElectionState, LeaderElector
from ullage.control.leader.leadership import ElectionTiming
from ullage.errors import Unreachable
from ullage.kube.client.api import MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import LEASES
from ullage.kube.client.rest import RestApi
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.sim.apiserver.network_faults import FaultRates, Latency, NetworkConditions, NetworkFault
from ullage.sim.process import SimulatedProcess
from ullage.sim.virtual_time import loop_clock, run_virtual

pytestmark = pytest.mark.story

TIMING = ElectionTiming()
PATIENCE = TIMING.retry * 2.2 + 1.0
"""The longest time between two looks at the lease, and a second for calls."""


def now() -> float:
    return asyncio.get_running_loop().time()


def acting(team: Team) -> set[str]:
    """Who wrote on the board in the last two seconds."""
    return {act.who for act in team.server.acts if act.at > now() - 2}


def first_act_after(team: Team, moment: float, who: str) -> float:
    return next(act.at for act in team.server.acts if act.at > moment and act.who == who)


async def two_replicas() -> tuple[Team, SimulatedProcess, SimulatedProcess]:
    """`first` leads, `second` waits."""
    team = Team(loop_clock())
    await team.prepare()
    first, second = team.replica("first"), team.replica("second")
    first.start()
    await asyncio.sleep(3)
    second.start()
    await asyncio.sleep(60)
    assert acting(team) == {"first"}
    return team, first, second


def test_the_record_is_the_one_other_clients_write() -> None:
    async def story() -> JsonObject:
        team, _, _ = await two_replicas()
        spec: JsonObject = team.server.lease["spec"]
        return spec

    spec = run_virtual(story())
    assert spec["renewTime"] > spec["acquireTime"] == "2026-01-01T00:00:00.000000Z"
    assert {key: spec[key] for key in ("holderIdentity", "leaseDurationSeconds", "leaseTransitions")} == {
        "holderIdentity": "first",
        "leaseDurationSeconds": 15,
        "leaseTransitions": 0,
    }


async def ends_cleanly(process: SimulatedProcess) -> None:
    await process.stop()


async def crashes(process: SimulatedProcess) -> None:
    process.crash()


@pytest.mark.parametrize(
    ("end", "within"),
    [
        pytest.param(ends_cleanly, PATIENCE, id="a-clean-stop-hands-over-at-once"),
        pytest.param(crashes, TIMING.duration + PATIENCE, id="a-crash-is-noticed-when-the-lease-runs-out"),
    ],
)
def test_another_takes_over(end: Callable[[SimulatedProcess], Awaitable[None]], within: float) -> None:
    async def story() -> None:
        team, first, _ = await two_replicas()
        ended = now()
        await end(first)
        await asyncio.sleep(60)
        assert first_act_after(team, ended, "second") - ended <= within
        assert acting(team) == {"second"}
        assert team.server.lease["spec"]["leaseTransitions"] >= 1
        assert team.server.fouls == []

    run_virtual(story())


def test_a_leader_cut_off_stops_before_the_next_one_starts() -> None:
    async def story() -> None:
        team, _, _ = await two_replicas()
        cut = now()
        team.network["first"].partitioned = True
        await asyncio.sleep(60)
        lost = next(line for line in team.log if "first lost it" in line)
        assert float(lost.split()[0]) <= cut + TIMING.renew_deadline + 0.01
        assert cut + TIMING.renew_deadline < first_act_after(team, cut, "second") <= cut + TIMING.duration + PATIENCE
        team.network["first"].partitioned = False
        await asyncio.sleep(60)
        assert acting(team) == {"second"}
        assert team.server.fouls == []

    run_virtual(story())


def test_a_frozen_leader_wakes_up_silent() -> None:
    async def story() -> None:
        team, first, _ = await two_replicas()
        first.life.freeze(40)
        frozen = now()
        await asyncio.sleep(120)
        assert first_act_after(team, frozen, "second") < frozen + TIMING.duration + PATIENCE
        assert acting(team) == {"second"}
        assert team.server.fouls == []

    run_virtual(story())


def test_a_long_thought_costs_no_lease() -> None:
    async def story() -> None:
        team = Team(loop_clock(), thinks=60.0)
        await team.prepare()
        for name in ("first", "second"):
            team.replica(name).start()
            await asyncio.sleep(3)
        await asyncio.sleep(600)
        assert {act.who for act in team.server.acts} == {"first"}
        assert team.server.lease["spec"]["leaseTransitions"] == 0

    run_virtual(story())


def test_somebody_elses_clock_does_not_matter() -> None:
    """A lease renewed an hour ago, by its own account, is respected until it stands still on our clock."""

    async def story() -> None:
        team = Team(loop_clock())
        await team.prepare()
        api = api_over(InMemoryTransport(team.server))
        spec = {
            "holderIdentity": "somebody",
            "leaseDurationSeconds": 30,
            "acquireTime": "2025-12-31T23:00:00.000000Z",
            "renewTime": "2025-12-31T23:00:00.000000Z",
            "leaseTransitions": 41,
        }
        await api.create(LEASES, {"metadata": {"name": LEASE}, "spec": spec}, SPACE)
        team.replica("first").start()
        await asyncio.sleep(29)
        assert team.server.holder == "somebody"
        await asyncio.sleep(PATIENCE + 1)
        assert team.server.holder == "first"
        assert team.server.lease["spec"]["leaseTransitions"] == 42

    run_virtual(story())


def test_fields_of_others_in_the_lease_survive() -> None:
    async def story() -> None:
        team = Team(loop_clock())
        await team.prepare()
        api = api_over(InMemoryTransport(team.server))
        meta = {"name": LEASE, "labels": {"app": "ullage"}, "annotations": {"note": "ours"}}
        await api.create(LEASES, {"metadata": meta, "spec": {}}, SPACE)
        team.replica("first").start()
        await asyncio.sleep(10)
        await api.patch(LEASES, LEASE, MergePatch({"metadata": {"labels": {"more": "yes"}}}), SPACE)
        await asyncio.sleep(20)
        assert team.server.lease["metadata"]["labels"] == {"app": "ullage", "more": "yes"}
        assert team.server.lease["metadata"]["annotations"] == {"note": "ours"}
        assert acting(team) == {"first"}
        assert [line for line in team.log if "lost" in line] == []

    run_virtual(story())


def test_a_deleted_lease_is_not_taken_while_its_holder_may_act() -> None:
    async def story() -> None:
        team, first, _ = await two_replicas()
        first.crash()
        await api_over(InMemoryTransport(team.server)).delete(LEASES, LEASE, SPACE)
        deleted = now()
        await asyncio.sleep(60)
        assert first_act_after(team, deleted, "second") > deleted + TIMING.duration - PATIENCE
        assert team.server.lease["spec"]["leaseTransitions"] == 1

    run_virtual(story())


def test_a_leader_whose_lease_is_deleted_starts_a_new_term() -> None:
    async def story() -> None:
        team, _, _ = await two_replicas()
        await api_over(InMemoryTransport(team.server)).delete(LEASES, LEASE, SPACE)
        await asyncio.sleep(60)
        assert [line.split()[1:] for line in team.log] == [
            ["first", "leads", "term", "0"],
            ["first", "lost", "it"],
            ["first", "leads", "term", "1"],
        ]
        assert team.server.fouls == []

    run_virtual(story())


def test_a_lease_taken_by_force_ends_the_term_at_once() -> None:
    async def story() -> None:
        team, _, _ = await two_replicas()
        seized = now()
        api = api_over(InMemoryTransport(team.server))
        await api.patch(LEASES, LEASE, MergePatch({"spec": {"holderIdentity": "somebody"}}), SPACE)
        await asyncio.sleep(TIMING.retry + 0.5)
        assert any(float(line.split()[0]) > seized and "first lost it" in line for line in team.log)
        stopped = len(team.server.acts)
        await asyncio.sleep(5)
        assert len(team.server.acts) == stopped

    run_virtual(story())


def test_trouble_with_the_api_shows_and_passes() -> None:
    async def story() -> None:
        clock = loop_clock()
        team = Team(clock)
        network = NetworkConditions()
        elector = team.elector(InMemoryTransport(team.server, network=network), "first")
        network.odds = FaultRates({NetworkFault.REFUSED: 1.0})
        acquiring = asyncio.create_task(elector.acquire())
        await asyncio.sleep(10)
        trouble = elector.trouble
        assert isinstance(trouble, Unreachable)
        network.odds = FaultRates()
        leadership = await acquiring
        assert elector.trouble is not trouble
        assert leadership.valid_until == pytest.approx(now() + TIMING.duration, abs=0.1)

    run_virtual(story())


def test_a_term_counts_from_before_the_renewal_was_sent() -> None:
    async def story() -> None:
        team = Team(loop_clock())
        network = NetworkConditions(latency=Latency(default=3.0))
        elector = team.elector(InMemoryTransport(team.server, network=network), "first")
        leadership = await elector.acquire()
        assert now() == 6.0  # a read and a write
        assert leadership.valid_until == 3.0 + TIMING.duration
        assert leadership.remaining() == 3.0 + TIMING.duration - TIMING.margin - 6.0

    run_virtual(story())


def test_a_candidate_says_once_why_it_does_not_lead() -> None:
    """Who leads, each time that is somebody else; and what keeps it from standing for election."""
    allowed = True

    async def story() -> tuple[list[ElectionState], list[ElectionState]]:
        server = SimulatedApiServer(loop_clock(), seed=1, authorise=lambda asked: allowed or asked.user != "second")
        said: dict[str, list[ElectionState]] = {name: [] for name in ("first", "second")}

        def candidate(name: str) -> LeaderElector:
            api = RestApi(InMemoryTransport(server, user=name), rng=random.Random(name))
            lease = ElectionLease("default", "election", name)
            return LeaderElector(api, lease, clock=loop_clock(), rng=random.Random(name), on_wait=said[name].append)

        nonlocal allowed
        first = candidate("first")
        leads = asyncio.create_task(first.keep(await first.acquire()))
        waits = asyncio.create_task(candidate("second").acquire())
        await asyncio.sleep(60)
        allowed = False
        await asyncio.sleep(60)
        allowed = True
        await asyncio.sleep(60)
        await ended(leads)
        await waits
        return said["first"], said["second"]

    first, second = run_virtual(story())
    assert first == []
    assert [one.leader for one in second] == ["first", "", "first"]
    assert 'cannot get resource "leases"' in second[1].trouble
