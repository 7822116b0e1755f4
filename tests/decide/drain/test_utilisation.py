"""How much of a node is in use, as draining counts it."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.decide.drain.fleets import a_picture, gpu_node, node, pod
from tests.decide.preempt.fleets import a_node
from ullage.decide.drain.facts import DrainPolicy
from ullage.decide.drain.utilisation import used_shares
from ullage.model.claim import DeviceAsk, Exclusivity
from ullage.model.pod import Owner
from ullage.model.shape import Shape
from ullage.state.cluster import Fact

DAEMON = Owner("DaemonSet", "d", "d")
SHARE = DeviceAsk(count=1, exclusivity=Exclusivity.SHARED)
THREE = Shape(requests=(("cpu", 1), ("memory", 3)))
COUNTED = a_node("a", 4)
BROKEN = replace(gpu_node("a")[0], allocatable={"cpu": 1000})

STORIES: dict[str, tuple[list[Fact | tuple[Fact, ...]], dict[str, Any], float]] = {
    "cpu": ([node("a"), pod("p", "a", cpu=3)], {}, 0.3),
    "memory-where-it-is-more": ([node("a", room={"memory": 4}), pod("p", "a", shape=THREE)], {}, 0.75),
    "an-empty-node": ([node("a")], {}, 0.0),
    "a-daemon-counts": ([node("a"), pod("p", "a", cpu=2, owner=DAEMON)], {}, 0.2),
    "a-daemon-is-left-out-of-both": (
        [node("a"), pod("p", "a", cpu=2, owner=DAEMON), pod("q", "a", cpu=2)],
        {"count_daemons": False},
        0.25,
    ),
    "gpus-alone": ([gpu_node("a"), pod("p", "a", cpu=60, gpus=(0,))], {}, 0.25),
    "a-share-of-a-gpu": ([gpu_node("a"), pod("p", "a", gpus=(0,), gpu_share=500, ask=SHARE)], {}, 0.125),
    "gpus-by-count": ([COUNTED, pod("p", "a", gpus=2)], {}, 0.5),
    "gpus-that-are-gone": ([BROKEN, gpu_node("a")[1], pod("p", "a", cpu=1)], {}, 0.0),
}


@pytest.mark.parametrize(("facts", "policy", "expected"), STORIES.values(), ids=STORIES)
def test_the_used_part(facts: list[Fact | tuple[Fact, ...]], policy: dict[str, Any], expected: float) -> None:
    shares, _ = used_shares(a_picture(*facts).placements, DrainPolicy(**policy))
    assert shares.tolist() == [expected]


@pytest.mark.parametrize(("milli", "too_much"), [(300, False), (299, True)], ids=["equal-is-low-enough", "more-is-not"])
def test_the_threshold(milli: int, too_much: bool) -> None:
    placements = a_picture(node("a"), pod("p", "a", cpu=3)).placements
    assert used_shares(placements, DrainPolicy(used_milli=milli))[1].tolist() == [too_much]
