"""Whose turn it is: each pool by its own pace, all together within one limit."""

from typing import Any

import pytest

from tests.decide.draining.fleets import NOW, node
from tests.decide.draining.test_unneeded import removable
from ullage.decide.draining.inputs import RemovalPacing
from ullage.decide.draining.parallelism import (
    OngoingRemoval,
    OngoingRemovals,
    PacingByPool,
    RemovalBatch,
    crop_to_limits,
)
from ullage.model.node import Node
from ullage.model.units import Instant, Seconds

POOLS = {
    "one": RemovalPacing(unneeded=Seconds(60), most_at_once=3, most_drains=1),
    "two": RemovalPacing(unneeded=Seconds(60), most_at_once=3),
}


def there(names: str) -> dict[str, Node]:
    """Nodes such as `one/e1`: in this pool, and of this kind (see `removable`)."""
    found = [name.rpartition("/") for name in names.split()]
    return {name: node(name, labels={"gpu.scheduling/provisioner": pool} if pool else {}) for pool, _, name in found}


def whose_turn(
    names: str, going: tuple[OngoingRemoval, ...] = (), left: str = "", since: float = 60.0, **all_: Any
) -> RemovalBatch:
    nodes = there(names)
    timers = dict.fromkeys(nodes, Instant(NOW - since))
    pacing = PacingByPool(pools=POOLS, others=RemovalPacing(unneeded=Seconds(600)), **all_)
    begun = OngoingRemovals(going=going, left=left.split())
    return crop_to_limits([removable(name) for name in nodes], timers, nodes, begun, pacing, now=NOW)


@pytest.mark.parametrize(
    ("names", "said", "expected", "throttled"),
    [
        pytest.param("one/e1 two/e2", {}, "e1 e2", "", id="every-pool"),
        pytest.param("one/d1 one/d2 two/d3", {}, "d1 d3", "", id="drains-by-pool"),
        pytest.param("one/e1 one/e2 one/e3 one/e4", {}, "e1 e2 e3", "one", id="as-many-as-a-pool-lets-go"),
        pytest.param("one/e1 one/e2 two/e3", {"most_at_once": 2}, "e1 e2", "two", id="as-many-as-may-go-in-all"),
        pytest.param("one/d1 two/d2", {"most_drains": 1}, "d1", "", id="drains-in-all"),
        pytest.param("one/d1 two/e2", {"most_at_once": 1, "most_drains": 0}, "e2", "one", id="empty-ones-first-in-all"),
        pytest.param("one/d1 one/d2", {"left": "d2"}, "d2", "", id="what-was-begun-comes-first"),
        pytest.param("e1", {}, "", "", id="nodes-of-nobody-have-their-own-time"),
        pytest.param("e1", {"since": 600.0}, "e1", "", id="and-it-comes"),
        pytest.param(
            "one/e1 one/e2", {"going": (OngoingRemoval("x", "one", True),) * 2}, "e1", "one", id="under-way-in-a-pool"
        ),
        pytest.param("one/e1", {"going": (OngoingRemoval("x", "two", True),) * 3}, "e1", "", id="under-way-in-another"),
        pytest.param(
            "one/e1",
            {"going": (OngoingRemoval("x", "two", True),), "most_at_once": 1},
            "",
            "one",
            id="under-way-in-all",
        ),
    ],
)
def test_who_goes(names: str, said: dict[str, Any], expected: str, throttled: str) -> None:
    answer = whose_turn(names, **said)
    assert " ".join(one.node for one in answer.removals) == expected
    assert " ".join(sorted(answer.throttled)) == throttled
    gone = {one.node for one in answer.removals}
    assert {one.node for one in answer.waiting} == there(names).keys() - gone, "everybody has an answer"


def test_the_next_moment_is_that_of_any_pool() -> None:
    assert whose_turn("one/e1 e2", since=30.0).wake_at == NOW + 30
    assert whose_turn("e2", since=30.0).wake_at == NOW + 570
