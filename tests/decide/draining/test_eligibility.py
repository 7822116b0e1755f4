"""How much of a node is in use, as draining counts it."""

from math import inf
from typing import Any

import pytest
from msgspec.structs import replace

from tests.decide.draining.fleets import NOW, a_picture, gpu_node, node, pod
from tests.decide.preemption.fleets import a_node
from ullage.decide.draining.eligibility import used_shares
from ullage.decide.draining.inputs import DrainPolicy
from ullage.model.claim import DeviceRequest, Exclusivity
from ullage.model.pod import Owner
from ullage.model.shape import Shape
from ullage.model.units import Milli
from ullage.state.cluster import Fact

DAEMON = Owner("DaemonSet", "d", "d")
SHARE = DeviceRequest(count=1, exclusivity=Exclusivity.SHARED)
THREE = Shape(requests=(("cpu", 1), ("memory", 3)))
COUNTED = a_node("a", 4)
BROKEN = replace(gpu_node("a")[0], allocatable={"cpu": 1000})


def leaving(seconds_ago: float) -> dict[str, float]:
    """It was to be gone so long ago."""
    return {"deleted_at": NOW - seconds_ago, "grace_period": 0.0}


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
    "gpus-that-are-gone-and-in-use": ([BROKEN, gpu_node("a")[1], pod("p", "a", gpus=(0,))], {}, inf),
    "no-cpu-is-said": ([node("a", room={"cpu": 0}), pod("p", "a", cpu=1)], {}, inf),
    "no-cpu-is-said-and-nobody-is-there": ([node("a", room={"cpu": 0})], {}, 0.0),
    "one-that-is-going-counts": ([node("a"), pod("p", "a", cpu=3, deleting=True, marks=leaving(29.0))], {}, 0.3),
    "one-that-should-be-gone-does-not": (
        [node("a"), pod("p", "a", cpu=3, deleting=True, marks=leaving(99.0))],
        {},
        0.0,
    ),
    "nor-do-its-gpus": (
        [gpu_node("a"), pod("p", "a", gpus=(0, 1, 2), deleting=True, marks=leaving(99.0)), pod("q", "a", gpus=(3,))],
        {},
        0.25,
    ),
    "nor-its-share-of-one": (
        [gpu_node("a"), pod("p", "a", gpus=(0,), gpu_share=500, ask=SHARE, deleting=True, marks=leaving(99.0))],
        {},
        0.0,
    ),
    "what-it-holds-is-there-for-others": (
        [node("a"), pod("p", "a", cpu=5, deleting=True, marks=leaving(99.0)), pod("q", "a", cpu=3)],
        {},
        0.3,
    ),
}


@pytest.mark.parametrize(("facts", "policy", "expected"), STORIES.values(), ids=STORIES)
def test_the_used_part(facts: list[Fact | tuple[Fact, ...]], policy: dict[str, Any], expected: float) -> None:
    shares, _ = used_shares(a_picture(*facts).snapshot, DrainPolicy(**policy), now=NOW)
    assert shares.tolist() == [expected]


@pytest.mark.parametrize(("milli", "too_much"), [(300, False), (299, True)], ids=["equal-is-low-enough", "more-is-not"])
def test_the_threshold(milli: int, too_much: bool) -> None:
    snapshot = a_picture(node("a"), pod("p", "a", cpu=3)).snapshot
    assert used_shares(snapshot, DrainPolicy(used_milli=Milli(milli)), now=NOW)[1].tolist() == [too_much]
