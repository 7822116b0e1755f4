"""The comparison of two outcomes finds each kind of difference, and takes the chance of a burst for no difference."""

from typing import Any

import pytest

from ullage.sim.fidelity.compare import bursts_of, compare
from ullage.sim.fidelity.outcome import OutcomeRecorder, PodOutcome, StoryOutcome

APART = {"a": 0.0, "b": 0.5}
AT_ONCE = {"a": 0.0, "b": 0.1}


def on(node: str, *gpus: int, shape: str = "/8", wait: float = 0.1) -> PodOutcome:
    return PodOutcome(node, gpus, shape, wait)


def side(a: PodOutcome, b: PodOutcome | None = None, **numbers: int) -> StoryOutcome:
    pods = {"a": a} | ({} if b is None else {"b": b})
    counts = {what: {"pool": number} for what, number in numbers.items()}
    return StoryOutcome(pods=pods, bought=counts.get("bought", {}), removed=counts.get("removed", {}))


TABLE: list[Any] = [
    pytest.param(APART, side(on("n", 0), on("n", 1)), side(on("n", 0), on("n", 1)), True, id="equal"),
    pytest.param(APART, side(on("n", 0), on("n", 1)), side(on("n", 0), on("n", 2)), False, id="another-gpu"),
    pytest.param(APART, side(on("n", 0), on("n", 1)), side(on("n", 0), on("m", 1)), False, id="another-node"),
    pytest.param(APART, side(on("n", 0)), side(on("n", 0), on("n", 1)), False, id="nowhere"),
    pytest.param(APART, side(on("n", 0), PodOutcome()), side(on("n", 0)), True, id="nowhere-on-both-sides"),
    pytest.param(AT_ONCE, side(on("n", 0), on("m", 1)), side(on("m", 3), on("n", 2)), True, id="burst-in-other-order"),
    pytest.param(
        AT_ONCE, side(on("n", 0), on("m", 1)), side(on("n", 0), on("p#0", 1, shape="p/8")), False, id="burst-elsewhere"
    ),
    pytest.param(APART, side(on("n", 0), bought=2), side(on("n", 0), bought=1), False, id="bought-less"),
    pytest.param(APART, side(on("n", 0), removed=1), side(on("n", 0)), False, id="removed-none"),
    pytest.param(APART, side(on("n", 0, wait=0.01)), side(on("n", 0, wait=0.06)), True, id="wait-within-50-ms"),
    pytest.param(APART, side(on("n", 0, wait=10.0)), side(on("n", 0, wait=10.4)), True, id="wait-within-5-percent"),
    pytest.param(APART, side(on("n", 0, wait=10.0)), side(on("n", 0, wait=10.6)), False, id="wait-too-far-apart"),
]


@pytest.mark.parametrize(("arrivals", "real", "simulated", "holds"), TABLE)
def test_a_difference_is_found(
    arrivals: dict[str, float], real: StoryOutcome, simulated: StoryOutcome, holds: bool
) -> None:
    report = compare("story", arrivals, real, simulated)
    assert report.holds is holds, report
    assert holds or report.differences or not report.waits_agree
    assert report.story in report.line()


def test_a_burst_goes_on_as_long_as_somebody_comes() -> None:
    assert bursts_of({"a": 0.0, "b": 0.4, "c": 0.8, "d": 1.4, "e": 2.0}) == [["a", "b", "c"], ["d"], ["e"]]


def pod(name: str, node: str = "", gpus: str = "") -> dict[str, Any]:
    notes = {"gpu.scheduling/allocated": f"{node}:{gpus}"} if gpus else {}
    return {"metadata": {"name": name, "annotations": notes}, "spec": {"nodeName": node} if node else {}}


def node(name: str, pool: str = "", gpus: int = 8) -> dict[str, Any]:
    labels = {"gpu.scheduling/provisioner": pool} if pool else {}
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": {"nvidia.com/gpu": str(gpus)}}}


def test_bought_nodes_are_called_by_pool_and_the_order_of_their_first_pods() -> None:
    record = OutcomeRecorder()
    record.node(node("static"))
    record.begin()
    for name in ("x9", "x1"):
        record.node(node(name, "pool", gpus=0))
        record.node(node(name, "pool"))
    for at, name in enumerate("abc"):
        record.pod(pod(name), at)
    record.pod(pod("a", "x1", "1,0"), 10.0)
    record.pod(pod("b", "x9", "0"), 11.0)
    record.pod(pod("c", "static", "3"), 12.0)
    record.pod(pod("c", "static", "3"), 13.0)
    record.node(node("x9", "pool"), gone=True)
    found = record.outcome()
    assert found.pods == {
        "a": PodOutcome("pool#0", (0, 1), "pool/8", 10.0),
        "b": PodOutcome("pool#1", (0,), "pool/8", 10.0),
        "c": PodOutcome("static", (3,), "/8", 10.0),
    }
    assert (found.bought, found.removed) == ({"pool": 2}, {"pool": 1})
