"""One line of the log for each decision, and none while nothing happens."""

import asyncio
from collections import Counter
from collections.abc import MutableMapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.control.scheduling.counted import NS, Cluster, play
from tests.control.scheduling.fleet import submit, submit_gang

pytestmark = pytest.mark.story


def told(lines: list[MutableMapping[str, Any]]) -> Counter[str]:
    """Lines at info or above, by their words and the pod they are about."""
    heard = [one for one in lines if one["log_level"] != "debug"]
    return Counter(f"{one['event']} {one.get('pod', '')}".strip() for one in heard)


def test_each_decision_is_a_line_and_an_idle_hour_is_none() -> None:
    idle: list[int] = []
    with capture_logs() as lines:

        async def story(cluster: Cluster) -> None:
            await submit(cluster.api, NS, "small", 2)
            await submit(cluster.api, NS, "huge", 9, requested=8)
            await submit_gang(cluster.api, NS, "gang", members=3, gpus=8, timeout=60)
            await asyncio.sleep(300)
            before = len(lines)
            await asyncio.sleep(3600)
            idle.extend((before, len(lines)))

        play(story)
        found = lines[:]
    decisions = told(found[: idle[0]])
    assert decisions["bound default/small"] == 1
    assert decisions["unschedulable default/huge"] == 1
    assert decisions["unschedulable default/gang-0"] == 1
    assert decisions["gang timed out"] >= 1
    quiet = told(found[idle[0] : idle[1]])
    assert not [line for line in quiet if not line.startswith("gang timed out")], quiet
    assert quiet["gang timed out"] <= 20, "a gang that stands back tries now and then"
