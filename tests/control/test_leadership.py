"""Leader election in virtual time: who leads, how fast another takes over, and that never two act."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace

import pytest

from tests.control.standing import BOARD, LEASE, LEASE_PATH, SPACE, Act, Team, api_over
from ullage.control.guard import GuardedTransport
from ullage.control.leadership import Leadership, LeaseTiming, lead
from ullage.errors import Forbidden, LeadershipLost, Unreachable
from ullage.kube.api import MergePatch
from ullage.kube.resource import JsonObject
from ullage.kube.resources import CONFIG_MAPS, LEASES
from ullage.kube.transport import Request, Response
from ullage.sim.apiserver import InMemoryTransport
from ullage.sim.apiserver.weather import Fault, Latency, Odds, Weather
from ullage.sim.process import Process
from ullage.sim.time import loop_clock, run_virtual

pytestmark = pytest.mark.story

TIMING = LeaseTiming()
PATIENCE = TIMING.retry * 2.2 + 1.0
"""The longest time between two looks at the lease, and a second for calls."""


def now() -> float:
    return asyncio.get_running_loop().time()


def acting(team: Team) -> set[str]:
    """Who wrote on the board in the last two seconds."""
    return {act.who for act in team.server.acts if act.at > now() - 2}


def first_act_after(team: Team, moment: float, who: str) -> float:
    return next(act.at for act in team.server.acts if act.at > moment and act.who == who)


async def two_replicas() -> tuple[Team, Process, Process]:
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


async def ends_cleanly(process: Process) -> None:
    await process.stop()


async def crashes(process: Process) -> None:
    process.crash()


@pytest.mark.parametrize(
    ("end", "within"),
    [
        pytest.param(ends_cleanly, PATIENCE, id="a-clean-stop-hands-over-at-once"),
        pytest.param(crashes, TIMING.duration + PATIENCE, id="a-crash-is-noticed-when-the-lease-runs-out"),
    ],
)
def test_another_takes_over(end: Callable[[Process], Awaitable[None]], within: float) -> None:
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
        team.weather["first"].partitioned = True
        await asyncio.sleep(60)
        lost = next(line for line in team.log if "first lost it" in line)
        assert float(lost.split()[0]) <= cut + TIMING.renew_deadline + 0.01
        assert cut + TIMING.renew_deadline < first_act_after(team, cut, "second") <= cut + TIMING.duration + PATIENCE
        team.weather["first"].partitioned = False
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
        weather = Weather()
        elector = team.elector(InMemoryTransport(team.server, weather=weather), "first")
        weather.odds = Odds({Fault.REFUSED: 1.0})
        acquiring = asyncio.create_task(elector.acquire())
        await asyncio.sleep(10)
        trouble = elector.trouble
        assert isinstance(trouble, Unreachable)
        weather.odds = Odds()
        leadership = await acquiring
        assert elector.trouble is not trouble
        assert leadership.valid_until == pytest.approx(now() + TIMING.duration, abs=0.1)

    run_virtual(story())


def test_a_term_counts_from_before_the_renewal_was_sent() -> None:
    async def story() -> None:
        team = Team(loop_clock())
        weather = Weather(latency=Latency(default=3.0))
        elector = team.elector(InMemoryTransport(team.server, weather=weather), "first")
        leadership = await elector.acquire()
        assert now() == 6.0  # a read and a write
        assert leadership.valid_until == 3.0 + TIMING.duration
        assert leadership.remaining() == 3.0 + TIMING.duration - TIMING.margin - 6.0

    run_virtual(story())


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"renew_deadline": 14.0}, id="deadline-inside-the-margin"),
        pytest.param({"retry": 11.0}, id="retry-after-the-deadline"),
        pytest.param({"margin": 0.0}, id="no-margin"),
        pytest.param({"retry": 0.0}, id="no-pause"),
    ],
)
def test_timings_that_cannot_be_safe_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="retry < renew_deadline < duration - margin"):
        replace(TIMING, **wrong)  # type: ignore[arg-type]  # only floats are tried


class Tape:
    """A transport that notes what is asked of it and takes its time."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.requests: list[Request] = []
        self.done = 0

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        await asyncio.sleep(self.seconds)
        self.done += 1
        return Response(200, b"{}")

    async def stream(self, request: Request) -> AsyncIterator[Sequence[bytes]]:
        self.requests.append(request)
        yield []

    async def close(self) -> None:
        return None


WRITE = Request("PATCH", "/thing", {"fieldManager": "us"}, b"{}", timeout=30.0)
READ = Request("GET", "/thing")


def a_term(seconds: float, margin: float = 2.0) -> Leadership:
    leadership = Leadership("me", 3, loop_clock(), margin)
    leadership.extend(now() + seconds)
    return leadership


def test_the_guard_bounds_a_write_to_the_term() -> None:
    async def story() -> None:
        tape = Tape()
        guard = GuardedTransport(tape, a_term(12))
        await guard.send(WRITE)
        assert tape.requests == [replace(WRITE, timeout=10.0, query={"fieldManager": "us", "timeout": "10000ms"})]
        short = replace(WRITE, timeout=4.0)
        await guard.send(short)
        assert tape.requests[1].timeout == 4.0

    run_virtual(story())


def test_the_guard_refuses_writes_at_the_end_and_lets_reads_pass() -> None:
    async def story() -> None:
        tape = Tape()
        guard = GuardedTransport(tape, a_term(12))
        await asyncio.sleep(10)
        with pytest.raises(LeadershipLost, match="me no longer leads"):
            await guard.send(WRITE)
        await guard.send(READ)
        assert tape.requests == [READ]

    run_virtual(story())


def test_a_write_without_an_answer_is_not_waited_for_beyond_the_term() -> None:
    async def story() -> None:
        tape = Tape(seconds=100)
        with pytest.raises(Unreachable, match=r"no answer within 10\.0 s"):
            await GuardedTransport(tape, a_term(12)).send(WRITE)
        assert now() == 10.0
        assert tape.done == 0

    run_virtual(story())


def test_a_write_goes_on_when_its_caller_is_cancelled_and_the_lease_waits_for_it() -> None:
    async def story() -> None:
        team = Team(loop_clock())
        elector = team.elector(InMemoryTransport(team.server), "first")
        tape = Tape(seconds=4.0)

        async def run(leadership: Leadership) -> None:
            await GuardedTransport(tape, leadership).send(WRITE)

        leading = asyncio.create_task(lead(elector, run))
        await asyncio.sleep(1)
        leading.cancel()
        await asyncio.sleep(2)
        assert team.server.holder == "first"
        with pytest.raises(asyncio.CancelledError):
            await leading
        assert tape.done == 1
        assert team.server.holder == ""

    run_virtual(story())


def test_the_lease_is_not_given_away_while_a_lost_write_may_still_land() -> None:
    async def story() -> None:
        team = Team(loop_clock())
        elector = team.elector(InMemoryTransport(team.server), "first")
        tape = Tape(seconds=100.0)

        async def run(leadership: Leadership) -> None:
            await GuardedTransport(tape, leadership).send(replace(WRITE, timeout=1.0))

        with pytest.raises(Unreachable):
            await lead(elector, run)
        assert team.server.holder == "first"

    run_virtual(story())


def test_what_ends_the_run_ends_the_term() -> None:
    async def story() -> None:
        team = Team(loop_clock())
        elector = team.elector(InMemoryTransport(team.server), "first")

        async def ends(_: Leadership) -> None:
            await asyncio.sleep(5)

        async def breaks(_: Leadership) -> None:
            raise ZeroDivisionError

        await lead(elector, ends)
        assert (now(), team.server.holder) == (5.0, "")
        with pytest.raises(ZeroDivisionError):
            await lead(elector, breaks)
        assert team.server.holder == ""

    run_virtual(story())


def test_clean_up_on_a_clean_stop_still_leads() -> None:
    async def story() -> None:
        team = Team(loop_clock())
        await team.prepare()
        transport = InMemoryTransport(team.server, user="first")
        elector = team.elector(transport, "first")

        async def run(leadership: Leadership) -> None:
            api = api_over(GuardedTransport(transport, leadership))
            try:
                await asyncio.sleep(1000)
            finally:
                await asyncio.sleep(30)
                await api.patch(CONFIG_MAPS, BOARD, MergePatch({"data": {"term": "0"}}), SPACE)

        leading = asyncio.create_task(lead(elector, run))
        await asyncio.sleep(100)
        leading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leading
        assert [act.holder for act in team.server.acts] == ["first"]
        assert team.server.holder == ""

    run_virtual(story())


def test_a_missing_role_shows_as_trouble() -> None:
    async def story() -> None:
        team = Team(loop_clock())
        elector = team.elector(ForbiddenLeases(), "first")
        acquiring = asyncio.create_task(elector.acquire())
        await asyncio.sleep(10)
        assert isinstance(elector.trouble, Forbidden)
        acquiring.cancel()

    run_virtual(story())


class ForbiddenLeases(Tape):
    """Answers everything about leases with 403."""

    async def send(self, request: Request) -> Response:
        assert request.path.startswith(LEASE_PATH.rpartition("/")[0])
        return Response(403, b'{"kind":"Status","code":403,"message":"no role"}')


def storm(seed: int, *, guarded: bool) -> list[Act]:
    """Ten minutes of lost answers, partitions, freezes, thoughts and crashes; returns what nobody should have done."""

    async def story() -> Team:
        dice = random.Random(seed)
        team = Team(loop_clock(), seed=seed, guarded=guarded, thinks=6.0)
        await team.prepare()
        odds = Odds({Fault.LOST: 0.04, Fault.REFUSED: 0.04, Fault.BROKEN: 0.02, Fault.THROTTLED: 0.02})
        latency = Latency(default=0.1, spread=12.0)
        replicas = [team.replica(f"r{n}", Weather(seed=seed * 10 + n, latency=latency, odds=odds)) for n in range(3)]
        for replica in replicas:
            replica.start()
        while now() < 600:
            await asyncio.sleep(dice.uniform(1, 20))
            victim = dice.choice(replicas)
            match dice.randrange(4):
                case 0:
                    victim.life.freeze(dice.uniform(1, 40))
                case 1:
                    team.weather[victim.name].partitioned = True
                case 2:
                    team.weather[victim.name].partitioned = False
                case _:
                    victim.restart()
        return team

    team = run_virtual(story())
    assert len(team.server.acts) > 20, "nobody got anything done"
    return team.server.fouls


@pytest.mark.fault
@pytest.mark.parametrize("seed", range(12))
def test_in_any_storm_only_the_holder_acts(seed: int) -> None:
    assert storm(seed, guarded=True) == []


@pytest.mark.fault
@pytest.mark.full
@pytest.mark.parametrize("seed", range(12, 300))
def test_in_many_storms_only_the_holder_acts(seed: int) -> None:
    assert storm(seed, guarded=True) == []


@pytest.mark.fault
def test_without_the_guard_the_same_storms_break_the_rule() -> None:
    assert any(storm(seed, guarded=False) for seed in range(12))
