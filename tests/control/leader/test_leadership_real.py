"""Leader election on a real API server: hand-over, a blocked process, a renewal thread that is not."""

import asyncio
import random
import time
from collections.abc import AsyncIterator

import pytest

from ullage.clock import WallClock
from ullage.control.leader.election import ElectionLease, LeaderElector
from ullage.control.leader.guard import GuardedTransport
from ullage.control.leader.leadership import ElectionTiming, Leadership, lead
from ullage.control.leader.renewal import RenewalThread
from ullage.errors import ApiError, LeadershipLost
from ullage.kube.auth.connect import connect, find_access
from ullage.kube.client.api import MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import CONFIG_MAPS, LEASES
from ullage.kube.client.rest import RestApi
from ullage.kube.http.http import HttpTransport, TransportOptions
from ullage.testing.controlplane import ControlPlane

pytestmark = pytest.mark.real

SPACE = "default"
TIMING = ElectionTiming(duration=4, renew_deadline=2.8, retry=0.4, margin=0.6)
CLOCK = WallClock()
PATIENCE = 30.0
"""Seconds for what only has to happen."""


class Stage:
    """One lease and one board to write on, on the real server."""

    def __init__(self, plane: ControlPlane, lease: str) -> None:
        self.plane = plane
        self.lease = lease
        self.api = connect(plane.kubeconfig, seed=1)
        self.acts: list[tuple[float, str]] = []
        self._transport = self.http()

    def http(self) -> HttpTransport:
        entry = find_access(self.plane.kubeconfig)
        return HttpTransport(entry.endpoint, entry.credentials, TransportOptions())

    def elector(self, identity: str) -> LeaderElector:
        rng = random.Random(identity)
        name = ElectionLease(SPACE, self.lease, identity)
        return LeaderElector(RestApi(self.http(), rng=rng), name, clock=CLOCK, rng=rng, timing=TIMING)

    async def act(self, leadership: Leadership) -> None:
        """Write while we may; every write that was carried out is noted."""
        api = RestApi(GuardedTransport(self._transport, leadership), rng=random.Random(1))
        while True:
            patch = MergePatch({"data": {"leader": leadership.identity}})
            await api.patch(CONFIG_MAPS, self.lease, patch, SPACE)
            self.acts.append((time.monotonic(), leadership.identity))
            await asyncio.sleep(0.05)

    async def record(self) -> JsonObject:
        spec: JsonObject = (await self.api.get(LEASES.whole(), self.lease, SPACE))["spec"]
        return spec

    async def until_acting(self, who: str, seconds: float) -> float:
        """Wait for somebody's next write; how long it took."""
        began, seen = time.monotonic(), len(self.acts)
        while who not in {name for _, name in self.acts[seen:]}:
            assert time.monotonic() - began < seconds, f"{who} did not act in {seconds} s"
            await asyncio.sleep(0.02)
        return time.monotonic() - began

    async def close(self) -> None:
        await self._transport.close()
        await self.api.close()


@pytest.fixture
async def stage(control_plane: ControlPlane, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    stage = Stage(control_plane, request.node.name.replace("_", "-")[:60].strip("-"))
    await stage.api.create(CONFIG_MAPS, {"metadata": {"name": stage.lease}}, SPACE)
    yield stage
    await stage.close()


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait((task,))


async def test_a_clean_stop_hands_the_lease_over(stage: Stage) -> None:
    first, second = stage.elector("first"), stage.elector("second")
    leading = asyncio.create_task(lead(first, stage.act))
    await stage.until_acting("first", PATIENCE)
    waiting = asyncio.create_task(lead(second, stage.act))
    await asyncio.sleep(1.0)
    record = await stage.record()
    assert record["holderIdentity"] == "first"
    assert record["leaseDurationSeconds"] == TIMING.duration
    assert record["leaseTransitions"] == 0

    await end(leading)
    assert await stage.until_acting("second", PATIENCE) < TIMING.duration - 2 * TIMING.retry, "it waited for the end"
    assert (await stage.record())["leaseTransitions"] == 1
    order = [who for _, who in stage.acts]
    assert order == sorted(order)

    await end(waiting)
    assert "holderIdentity" not in await stage.record()
    await first.close()
    await second.close()


async def test_a_leader_that_stood_still_wakes_up_silent(stage: Stage) -> None:
    """One process blocks its only loop for longer than the lease; another one lives in a thread of its own."""
    leading_there = asyncio.Event()
    first = stage.elector("first")
    leading = asyncio.create_task(lead(first, stage.act))
    await stage.until_acting("first", PATIENCE)
    async with RenewalThread(lambda: stage.elector("second")) as second:
        taking_over = asyncio.create_task(second.acquire())
        taking_over.add_done_callback(lambda _: leading_there.set())
        await asyncio.sleep(0.5)
        acted = len(stage.acts)
        time.sleep(TIMING.duration + 3 * TIMING.retry)  # noqa: ASYNC251 - as if the process were stopped
        await asyncio.wait_for(leading_there.wait(), PATIENCE)
        with pytest.raises(LeadershipLost):
            await asyncio.wait_for(leading, PATIENCE)
        assert len(stage.acts) <= acted + 1  # the one whose answer came while we stood still
        assert (await stage.record())["holderIdentity"] == "second"
        await second.release(taking_over.result())
    await first.close()


async def test_a_long_thought_does_not_cost_the_lease(stage: Stage) -> None:
    rival = stage.elector("rival")
    async with RenewalThread(lambda: stage.elector("thinker")) as thread:
        leading = asyncio.create_task(lead(thread, stage.act))
        await stage.until_acting("thinker", PATIENCE)
        waiting = asyncio.create_task(lead(rival, stage.act))
        await asyncio.sleep(0.5)
        thought = time.monotonic() + TIMING.duration * 1.25
        while time.monotonic() < thought:
            sum(range(1000))
        await stage.until_acting(
            "thinker", PATIENCE
        )  # a write under way when the thought began is tried again after a while
        assert (await stage.record())["leaseTransitions"] == 0
        await end(leading)
        await stage.until_acting("rival", PATIENCE)
        await end(waiting)
    await rival.close()


async def test_a_thread_that_cannot_start_says_so(stage: Stage) -> None:
    def broken() -> LeaderElector:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        async with RenewalThread(broken):
            pytest.fail(f"entered {stage}")


async def test_a_deleted_lease_ends_the_term(stage: Stage) -> None:
    first = stage.elector("first")
    leading = asyncio.create_task(lead(first, stage.act))
    await stage.until_acting("first", PATIENCE)
    await stage.api.delete(LEASES, stage.lease, SPACE)
    with pytest.raises(LeadershipLost):
        await asyncio.wait_for(leading, PATIENCE)
    await first.close()


async def test_the_guards_bound_is_understood_by_the_server(stage: Stage) -> None:
    leadership = Leadership("me", 1, CLOCK, margin=0.5)
    leadership.extend(CLOCK.steady() + 5)
    transport = stage.http()
    api = RestApi(GuardedTransport(transport, leadership), rng=random.Random(1))
    try:
        made = await api.create(CONFIG_MAPS, {"metadata": {"generateName": "bounded-"}}, SPACE)
        name = made["metadata"]["name"]
        await api.patch(CONFIG_MAPS, name, MergePatch({"data": {"a": "b"}}), SPACE)
        made = await api.get(CONFIG_MAPS, name, SPACE)
        await api.replace(CONFIG_MAPS, made | {"data": {"c": "d"}})
        await api.delete(CONFIG_MAPS, name, SPACE)
        leadership.end()
        with pytest.raises(LeadershipLost):
            await api.create(CONFIG_MAPS, {"metadata": {"generateName": "late-"}}, SPACE)
    except ApiError as error:
        pytest.fail(str(error))
    finally:
        await transport.close()
