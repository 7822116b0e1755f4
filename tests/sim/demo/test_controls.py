"""Controls of a demo: verbs of keys and buttons, what they do to the cluster, and what they say."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from tests.sim.demo.onlooker import Onlooker
from ullage.errors import UserError
from ullage.kube.client.resources import GPU_CLAIMS, NODES
from ullage.model.device import DeviceHealth
from ullage.sim.demo.captions import Caption, CaptionFeed
from ullage.sim.demo.catalog import STORIES
from ullage.sim.demo.cluster import play, staged
from ullage.sim.demo.controls import KEYS, LONGEST_STEP_SECONDS, SPEEDS, DemoControls, DemoVerb, verb_of
from ullage.sim.demo.informers import TerminalInformers
from ullage.sim.demo.tour import TOUR
from ullage.sim.scaled_time import ScaledLoop, run_scaled
from ullage.sim.virtual_time import run_virtual
from ullage.testing.builders import a_gpu_claim

FAST = 1000.0


class FakePace:
    """Pace of a test in virtual time, which no verb can stop."""

    def __init__(self) -> None:
        self.speed = 30.0
        self.paused = False

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False


class Seat:
    """Somebody who looks on and has the controls."""

    def __init__(self, eye: Onlooker, controls: DemoControls, pace: FakePace) -> None:
        self.eye = eye
        self.controls = controls
        self.pace = pace
        self.restarts = 0

    def act(self, verb: DemoVerb, node: str = "") -> str:
        """What is said to it."""
        return str(json.loads(self.controls.act(verb, {"node": node}))["said"])


def sit(seen: Callable[[Seat], Awaitable[None]], scenario: str = "tour") -> list[Caption]:
    """Play a story in virtual time, with the controls at hand. Returns what was told."""
    spoken: list[Caption] = []

    async def live() -> None:
        async with staged(STORIES[scenario], 1) as world:
            feed, pace = CaptionFeed(STORIES[scenario]), FakePace()
            feed.listen(spoken.append)
            seats: list[Seat] = []

            def restart() -> None:
                seats[0].restarts += 1

            controls = DemoControls(pace, world, feed, restart)
            began = world.clock.now() - world.elapsed
            watching = TerminalInformers(world.api, world.clock, feed.record, seed=1, began=began)
            beside = [asyncio.ensure_future(watching.run()), asyncio.ensure_future(play(world, feed))]
            seats.append(Seat(Onlooker(world, spoken), controls, pace))
            try:
                await seen(seats[0])
            finally:
                controls.close()
                for task in beside:
                    task.cancel()
                await asyncio.gather(*beside, return_exceptions=True)
            assert world.violation is None, world.violation

    run_virtual(live())
    return spoken


def test_every_key_means_one_verb() -> None:
    assert {verb_of(one.key) for one in KEYS.values()} == set(DemoVerb) - {DemoVerb.RESUME}
    assert verb_of("G") is DemoVerb.ADD_GANG
    assert verb_of("=") is DemoVerb.FASTER
    assert verb_of("x") is None


def test_time_verbs() -> None:
    async def seen(seat: Seat) -> None:
        assert seat.act(DemoVerb.PAUSE) == "Time stands still."
        assert (seat.pace.paused, seat.controls.speed) == (True, 0.0)
        assert seat.controls.press(" ")
        assert (seat.pace.paused, seat.controls.speed) == (False, 30.0)
        assert seat.act(DemoVerb.FASTER) == "60 times as fast."
        for _ in SPEEDS:
            seat.controls.press("-")
        assert seat.pace.speed == SPEEDS[0]
        with pytest.raises(UserError, match=r"0\.1 times as fast is the least"):
            seat.act(DemoVerb.SLOWER)
        seat.act(DemoVerb.RESTART)
        assert seat.restarts == 1
        with pytest.raises(UserError, match="there is no fly: there are pause, resume, step"):
            seat.controls.act("fly", {})
        assert not seat.controls.press("x")

    sit(seen)


def test_a_step_ends_with_the_next_thing_told_or_after_half_a_minute() -> None:
    async def seen(seat: Seat) -> None:
        seat.act(DemoVerb.PAUSE)
        seat.act(DemoVerb.STEP)
        assert seat.controls.speed == 30.0
        await seat.eye.world.sleep_until(LONGEST_STEP_SECONDS + 1)
        assert seat.controls.speed == 0.0, "nothing happened in the first half minute"
        seat.act(DemoVerb.STEP)
        await seat.eye.world.sleep_until(44.9)
        assert seat.controls.speed == 30.0
        await seat.eye.world.sleep_until(46)
        assert seat.controls.speed == 0.0, "the claims came at 45"

    sit(seen)


def test_a_gpu_in_use_breaks_its_owner_is_told_and_it_is_repaired() -> None:
    async def seen(seat: Seat) -> None:
        await seat.eye.world.sleep_until(60)
        said = seat.act(DemoVerb.BREAK_GPU)
        assert said == "GPU 0 of train-a, held by notebook, fell off the bus."
        await asyncio.sleep(10)
        assert [one["regarding"]["name"] for one in await seat.eye.events("GpuUnhealthy")] == ["notebook"]
        assert seat.act(DemoVerb.BREAK_GPU, "train-b") == "GPU 0 of train-b fell off the bus."
        assert seat.act(DemoVerb.REPAIR) == "Repaired: GPU 0 of train-a, GPU 0 of train-b."
        await asyncio.sleep(10)
        assert {one.health for one in await seat.eye.devices("train-a")} == {DeviceHealth.HEALTHY}
        with pytest.raises(UserError, match="no GPU that you broke is broken"):
            seat.act(DemoVerb.REPAIR)
        seen = json.loads(seat.controls.state())
        assert (seen["said"], seen["refused"]) == ("no GPU that you broke is broken", True), (
            "who looks later sees it, too"
        )
        with pytest.raises(UserError, match="node nowhere has no GPUs"):
            seat.act(DemoVerb.BREAK_GPU, "nowhere")

    spoken = sit(seen)
    assert [one.word for one in spoken if one.who == "you"] == ["BreakGpu", "BreakGpu", "Repair", "Repair", "BreakGpu"]


def test_a_gang_comes_waits_for_nodes_and_is_placed_whole() -> None:
    async def seen(seat: Seat) -> None:
        await seat.eye.world.sleep_until(60)
        assert seat.act(DemoVerb.ADD_GANG) == "gang-1: 2 workers with 8 H100 each, all or nothing, for 300 s."

        async def placed() -> bool:
            workers = await seat.eye.pods("gang-1")
            there = [one for one in workers if one.spec.node_name]
            assert len(there) in (0, 2)
            return len(there) == 2

        await seat.eye.until(placed, within=300)
        await seat.eye.world.api.create(GPU_CLAIMS, a_gpu_claim("gang-2"), "default")
        assert seat.act(DemoVerb.ADD_GANG).startswith("gang-3:"), "a name that a viewer took is not taken"

    sit(seen)


def test_a_node_is_drained_budgets_are_kept_and_it_stays_cordoned() -> None:
    async def seen(seat: Seat) -> None:
        await seat.eye.world.sleep_until(300)
        fullest = seat.act(DemoVerb.DRAIN_NODE, "serve-a")
        assert fullest.startswith("Node serve-a is cordoned; 4 pods are evicted as budgets allow.")
        with pytest.raises(UserError, match="serve-a is being drained already"):
            seat.act(DemoVerb.DRAIN_NODE, "serve-a")

        async def empty() -> bool:
            assert await seat.eye.budgets_kept()
            return seat.controls.said == "Node serve-a is empty."

        await seat.eye.until(empty, within=400)
        assert (await seat.eye.world.api.get(NODES, "serve-a")).spec.unschedulable
        with pytest.raises(UserError, match="there is no node nowhere"):
            seat.act(DemoVerb.DRAIN_NODE, "nowhere")

    sit(seen)


def test_a_cluster_without_gpus_says_so() -> None:
    async def seen(seat: Seat) -> None:
        for verb in (DemoVerb.BREAK_GPU, DemoVerb.ADD_GANG):
            with pytest.raises(UserError, match="GPU"):
                seat.act(verb)

    sit(seen, "vms")


def test_the_same_seed_tells_the_same_story_whatever_the_pace() -> None:
    """Paused, slowed and hurried: told at the same instants as in virtual time."""

    def told(*, fitful: bool) -> list[Caption]:
        spoken: list[Caption] = []

        async def live() -> None:
            loop = asyncio.get_running_loop()
            async with staged(TOUR, 1) as world:
                feed = CaptionFeed(TOUR)
                feed.listen(spoken.append)
                began = world.clock.now() - world.elapsed
                watching = TerminalInformers(world.api, world.clock, feed.record, seed=1, began=began)
                beside = [asyncio.ensure_future(watching.run()), asyncio.ensure_future(play(world, feed))]
                if fitful and isinstance(loop, ScaledLoop):
                    loop.pause()
                    loop.call_soon_threadsafe(loop.resume)
                    loop.call_later(100, lambda: setattr(loop, "speed", FAST / 2))
                await world.sleep_until(300)
                for task in beside:
                    task.cancel()
                await asyncio.gather(*beside, return_exceptions=True)

        if fitful:
            run_scaled(live(), speed=FAST)
        else:
            run_virtual(live())
        return spoken

    assert told(fitful=True) == told(fitful=False)
