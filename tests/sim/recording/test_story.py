"""A recording that is played again: the same pods in the same places, after the same waits."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ullage.cli.main import run
from ullage.kube.manifests.cluster_dump import read_objects
from ullage.model.units import Seconds
from ullage.sim.fidelity.compare import compare
from ullage.sim.fidelity.outcome import StoryOutcome
from ullage.sim.recording.follow import follow
from ullage.sim.recording.history import HistoryRecorder
from ullage.sim.virtual_time import run_virtual
from ullage.sim.world.run import unlogged
from ullage.sim.world.step_player import play_steps
from ullage.sim.world.world import started_world
from ullage.state.dump import Dump, dump, read_dump
from ullage.testing.fidelity.simulated import outcome_of, simulated_spec
from ullage.testing.fidelity.stories import FidelityStory, story
from ullage.watch.sources import read_cluster

pytestmark = pytest.mark.story


async def _recorded(told: FidelityStory) -> tuple[bytes, StoryOutcome]:
    async with started_world(simulated_spec(told)) as world:
        record = outcome_of(world)
        state, objects = await read_cluster(world.api), await read_objects(world.api, pytest.fail)
        began, taken_at = world.clock.steady(), world.clock.now()
        history = HistoryRecorder(objects, ("gpu-scheduler",), taken_at)
        following = asyncio.create_task(follow(world.api, history, world.clock, began))
        await play_steps(world, told.steps)
        await world.sleep_until(told.seconds)
        following.cancel()
        found = history.recording()
        seconds = world.clock.steady() - began
        text = dump(state, now=taken_at, objects=found.objects, steps=found.steps, recorded_seconds=Seconds(seconds))
        return text, record.outcome()


async def _replayed(recording: Dump) -> StoryOutcome:
    seconds = recording.recorded_seconds or 0.0
    spec = replace(simulated_spec(story(0)), objects=(), restored=recording.objects, epoch=recording.taken_at)
    async with started_world(spec) as world:
        record = outcome_of(world)
        await play_steps(world, recording.steps)
        await world.sleep_until(seconds)
        return record.outcome()


KINDS = {0: "apart", 2: "waiting", 4: "buying", 6: "preempting", 8: "failing"}


@pytest.mark.parametrize("number", [pytest.param(number, id=kind) for number, kind in KINDS.items()])
def test_a_recording_played_again_ends_as_the_cluster_did(number: int) -> None:
    told = story(number)
    with unlogged():
        text, was = run_virtual(_recorded(told))
        recording = read_dump(text)
        again = run_virtual(_replayed(recording), epoch=recording.taken_at)
    report = compare(told.name, told.arrivals, was, again)
    assert report.differences == ()
    assert report.waits_agree, report.line()
    assert report.single + report.bursts > 0


def test_replay_plays_a_recording_to_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = story(0)
    with unlogged():
        text, was = run_virtual(_recorded(told))
    path = tmp_path / "story.json"
    path.write_bytes(text)
    assert run(["replay", str(path), "--output", "json", "--quiet"]) == 0
    sheet: Any = json.loads(capsys.readouterr().out)["runs"][0]
    placed = sum(bool(one.node) for one in was.pods.values())
    assert sheet["scores"]["pods"]["placed"] == placed
    assert sheet["scores"]["seconds"] == pytest.approx(told.seconds, abs=1)
