"""What is told of binds: Events make way, the log says how long a pod waited, its claim that GPUs are held for it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.control.scheduling.fleet import submit
from tests.control.scheduling.stage import NS, Setting, Stage, play
from ullage.act.concurrency import each
from ullage.kube.client.resources import GPU_CLAIMS, PODS
from ullage.sim.apiserver.network_faults import Latency

pytestmark = pytest.mark.story

MANY = 160
"""More pods than the pipeline holds twice."""


def when_bound(act: Callable[[], None]) -> Callable[[Any], None]:
    def changed(change: Any) -> None:
        before = change.before.obj["spec"] if change.before else {}
        if change.after.obj["spec"].get("nodeName") and not before.get("nodeName"):
            act()

    return changed


def test_few_events_are_written_while_many_pods_are_being_bound() -> None:
    async def story(stage: Stage) -> None:
        events, told_at_bind = list[Any](), list[int]()
        stage.server.listen("events", events.append)
        stage.server.listen(PODS.id, when_bound(lambda: told_at_bind.append(len(events))))
        await each(range(MANY), lambda number: submit(stage.api, NS, f"p{number}", 1), at_once=MANY)
        await stage.at_rest(60)
        assert told_at_bind[MANY * 3 // 4] < MANY // 4, "three in four are bound, and few of them are told of"
        await stage.until(lambda: _are(events, MANY), 30)

    play(Setting(nodes=24), story)


async def _are(events: list[Any], many: int) -> bool:
    return len(events) >= many


def test_a_pod_that_waited_is_told_of_with_the_seconds_it_waited() -> None:
    async def story(stage: Stage) -> None:
        await submit(stage.api, NS, "first", 8)
        await stage.at_rest(30)
        await submit(stage.api, NS, "second", 8)
        await asyncio.sleep(40)
        await stage.delete("first")
        await stage.at_rest(60)

    with capture_logs() as told:
        play(Setting(nodes=1), story)
    waited = {str(one["pod"]): float(one["waited"]) for one in told if one["event"] == "bound"}
    assert waited[f"{NS}/first"] < 1
    assert 40 <= waited[f"{NS}/second"] < 60


def test_a_claim_says_that_gpus_are_held_for_its_pod_while_the_bind_takes_long() -> None:
    async def story(stage: Stage) -> None:
        phases = list[str]()
        stage.server.listen(GPU_CLAIMS.id, lambda one: phases.append(one.after.obj.get("status", {}).get("phase", "")))
        await submit(stage.api, NS, "p", 2)
        await stage.at_rest(120)
        assert [phase for phase in dict.fromkeys(phases) if phase] == ["Reserved", "Bound"]

    play(Setting(nodes=1, latency=Latency(default=4.0, watch=0.05)), story)
