"""Events make way: while many pods are being bound, few are written; afterwards all are."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.control.scheduling.fleet import submit
from tests.control.scheduling.stage import NS, Setting, Stage, play
from ullage.act.concurrency import each
from ullage.kube.client.resources import PODS

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
