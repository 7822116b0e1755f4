"""Cost of a round of decisions beside the number of pods: counted in calls, so that a busy machine changes nothing."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from msgspec.structs import replace

from tests.decide.preemption.fleets import leased
from tests.decide.scheduling.test_core import Sitting, a_claim, key, wanting
from ullage.model.claim import copy_key
from ullage.model.units import Instant

FEW, MANY = 60, 240


def calls(work: Callable[[], object]) -> int:
    """Function calls, those of C included, that a piece of work makes."""
    made = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return made


def a_round_of_pods_naming_one_claim(pods: int) -> Callable[[], object]:
    waiting = [wanting(f"p{number}", gpus=0, claim="c", created=float(number + 1)) for number in range(pods)]
    story = Sitting(leased("a", 1), a_claim("c"), waiting)
    assert len(story.decide()) == pods
    story.hear([replace(pod, labels={"said": "something"}) for pod in waiting])
    for pod in waiting:
        story.core.queue.reconsider(pod.key, now=story.now)
    story.now = Instant(story.now + 60.0)
    return lambda: story.decide()


def a_turn_of_a_gang(members: int) -> Callable[[], object]:
    template = a_claim("t", gang="g", gang_min_member=members + 1)
    pods = [wanting(f"p{number}", gpus=0, claim_template="t") for number in range(members)]
    copies = [
        replace(template, key=copy_key(pod.key, pod.uid), template="t", pod=pod.key.name, pod_uid=pod.uid)
        for pod in pods
    ]
    story = Sitting(leased("a", 1), template, pods, copies)
    turns = story.core._cycle
    return lambda: turns.assigner.gang_ask(key("g"), turns.ours)


@pytest.mark.parametrize("work", [a_round_of_pods_naming_one_claim, a_turn_of_a_gang])
def test_four_times_the_pods_cost_about_four_times_as_much(work: Callable[[int], Callable[[], object]]) -> None:
    few, many = calls(work(FEW)), calls(work(MANY))
    assert few > FEW
    assert many < 5 * few
