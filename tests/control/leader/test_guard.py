"""The guard: no write begins or lasts beyond the term; and what `lead` does when a term ends."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from tests.control.leader.candidates import BOARD, LEASE_PATH, SPACE, Team, api_over
from ullage.control.leader.guard import GuardedTransport
from ullage.control.leader.leadership import ElectionTiming, Leadership, lead
from ullage.errors import Forbidden, LeadershipLost, Unreachable
from ullage.kube.client.api import MergePatch
from ullage.kube.client.resources import CONFIG_MAPS
from ullage.kube.client.transport import Request, Response
from ullage.sim.apiserver import InMemoryTransport
from ullage.sim.virtual_time import loop_clock, run_virtual

pytestmark = pytest.mark.story

TIMING = ElectionTiming()


def now() -> float:
    return asyncio.get_running_loop().time()


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


class ForbiddenLeases(Tape):
    """Answers everything about leases with 403."""

    async def send(self, request: Request) -> Response:
        assert request.path.startswith(LEASE_PATH.rpartition("/")[0])
        return Response(403, b'{"kind":"Status","code":403,"message":"no role"}')


def test_a_missing_role_shows_as_trouble() -> None:
    async def story() -> None:
        team = Team(loop_clock())
        elector = team.elector(ForbiddenLeases(), "first")
        acquiring = asyncio.create_task(elector.acquire())
        await asyncio.sleep(10)
        assert isinstance(elector.trouble, Forbidden)
        acquiring.cancel()

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
