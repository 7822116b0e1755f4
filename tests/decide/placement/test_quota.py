"""Quotas: what counts against which limit, and that nobody holds more than the strictest allows."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.decide.preemption.fleets import A100, GIB, H100, NOW, WHOLE, a_node, a_pod, fleet, leased
from ullage.decide.placement.engine import NoFit, Placement, PlacementEngine, hold
from ullage.decide.placement.quota import QuotaTable, least_taken, quota_verdict, together
from ullage.decide.placement.reasons import CURES
from ullage.model.claim import Claim, DeviceRequest, Exclusivity
from ullage.model.device import MigInstance
from ullage.model.fact_event import Added, Deleted, ObjectKey
from ullage.model.pod import Pod
from ullage.model.quota import Quota, QuotaLimits, QuotaUsage
from ullage.model.units import Bytes
from ullage.model.verdict import ClusterEvent, Reason

HALF = DeviceRequest(exclusivity=Exclusivity.SHARED, memory=Bytes(40 * GIB))
MIG = DeviceRequest(exclusivity=Exclusivity.MIG, memory=Bytes(20 * GIB))


def a_quota(name: str = "q", *, namespace: str = "n", **limits: Any) -> Quota:
    return Quota(key=ObjectKey(namespace, name), uid=name, generation=1, limits=QuotaLimits(**limits))


def usage(gpus: int = 0, shares: int = 0, **by_model: int) -> QuotaUsage:
    return QuotaUsage(gpus=gpus, by_model=tuple(sorted(by_model.items())), shares=shares)


@pytest.mark.parametrize(
    ("limits", "used", "more", "detail"),
    [
        pytest.param(QuotaLimits(), usage(99), usage(99), "", id="no-limit"),
        pytest.param(QuotaLimits(gpus=4), usage(2), usage(2), "", id="up-to-the-limit"),
        pytest.param(QuotaLimits(gpus=4), usage(3), usage(2), "2 GPUs asked, 3 of 4 are held", id="above-it"),
        pytest.param(QuotaLimits(gpus=0), usage(), usage(1), "1 GPUs asked, 0 of 0 are held", id="zero-is-a-limit"),
        pytest.param(QuotaLimits(gpus=0), usage(), usage(shares=500), "", id="shares-are-no-whole-gpus"),
        pytest.param(QuotaLimits(gpus=1), usage(3), usage(shares=500), "", id="above-it-already-shares-still-go"),
        pytest.param(
            QuotaLimits(shares=900),
            usage(shares=500),
            usage(shares=500),
            "500 thousandths of shared GPUs asked, 500 of 900 are held",
            id="shares",
        ),
        pytest.param(
            QuotaLimits(by_model=(("H100", 2),)),
            usage(2, H100=2),
            usage(1, H100=1),
            "1 H100 GPUs asked, 2 of 2 are held",
            id="model",
        ),
        pytest.param(QuotaLimits(by_model=(("H100", 2),)), usage(2, H100=2), usage(1, A100=1), "", id="another-model"),
        pytest.param(
            QuotaLimits(by_model=(("H100", 2),)),
            QuotaUsage(gpus=2, by_model=(("NVIDIA H100 80GB HBM3", 1), ("NVIDIA H100 PCIe", 1))),
            QuotaUsage(gpus=1, by_model=(("NVIDIA H100 NVL", 1),)),
            "1 H100 GPUs asked, 2 of 2 are held",
            id="all-products-of-that-name",
        ),
    ],
)
def test_verdicts(limits: QuotaLimits, used: QuotaUsage, more: QuotaUsage, detail: str) -> None:
    verdict = quota_verdict(limits, used, more)
    assert (verdict.reason is Reason.FITS) == (not detail)
    assert verdict.detail == detail


def test_a_quota_refusal_never_buys_a_node_nor_evicts_anybody() -> None:
    cure = CURES[Reason.QUOTA_EXCEEDED]
    assert not cure.another_node
    assert not cure.fewer_pods
    assert cure.wakes_on == {ClusterEvent.POD_LEFT, ClusterEvent.QUOTA_CHANGED}


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        pytest.param(DeviceRequest(count=3), usage(3), id="any-model"),
        pytest.param(DeviceRequest(count=3, model="H100"), usage(3, H100=3), id="the-model-asked-for"),
        pytest.param(DeviceRequest(count=3, model="H100|H200"), usage(3), id="one-of-several-models"),
        pytest.param(structs.replace(HALF, count=2), usage(shares=2), id="shares-of-an-unknown-gpu"),
        pytest.param(MIG, usage(shares=1), id="an-instance-of-an-unknown-gpu"),
    ],
)
def test_the_least_an_ask_takes(ask: DeviceRequest, expected: QuotaUsage) -> None:
    assert least_taken(ask) == expected


def test_the_least_an_ask_takes_of_a_product() -> None:
    assert least_taken(DeviceRequest(count=2), H100, Bytes(80 * GIB)).by_model == ((H100, 2),)
    assert least_taken(HALF, H100, Bytes(80 * GIB)) == usage(shares=500)
    assert least_taken(MIG, H100, Bytes(80 * GIB)) == usage(shares=250)


def placed(engine: PlacementEngine, name: str, gpus: int, ask: DeviceRequest = WHOLE, **facts: Any) -> Pod:
    pod = a_pod(name, gpus=gpus, ask=ask, **facts)
    placement = engine.place(pod, now=NOW)
    assert isinstance(placement, Placement)
    hold(engine.snapshot, pod, placement)
    return pod


def test_what_is_held_is_counted_by_kind() -> None:
    node, inventory = leased("m", 1)
    slices = tuple(MigInstance(f"MIG-{n}", "2g.20gb", Bytes(20 * GIB)) for n in range(3))
    split = structs.replace(inventory, devices=(structs.replace(inventory.devices[0], mig=slices),))
    engine = fleet(leased("a", 4), leased("b", 2, model=A100), node, split, a_node("counted", 4))
    placed(engine, "whole", 2, DeviceRequest(model="H100"))
    placed(engine, "older", 1, DeviceRequest(model="A100"))
    placed(engine, "half", 1, HALF)
    placed(engine, "slices", 2, MIG)
    placed(engine, "elsewhere", 1, namespace="other")
    table = QuotaTable(engine.snapshot)
    expected = QuotaUsage(gpus=3, by_model=((A100, 1), (H100, 2)), shares=500 + 2 * 250)
    assert table.usage("n") == expected
    engine.snapshot.assume(a_pod("plain", gpus=3), "counted")
    assert table.usage("n") == together((expected, usage(3))), (
        "GPUs a device plugin chooses: of what model is not known"
    )
    engine.snapshot.forget(ObjectKey("n", "whole"))
    assert table.usage("n") == QuotaUsage(gpus=4, by_model=((A100, 1),), shares=1000)
    assert table.usage("nobody") == QuotaUsage()


def test_a_share_of_a_whole_gpu_is_a_share_if_its_claim_says_so() -> None:
    """A pod that is heard of again does not say what it asked for: its claim does."""
    ask = DeviceRequest(exclusivity=Exclusivity.SHARED, memory=Bytes(80 * GIB))
    pod = structs.replace(a_pod("p", on="a", gpus=(0,)), claim="c", shape=a_pod("q").shape)
    claim = Claim(key=ObjectKey("n", "c"), uid="c", generation=1, ask=ask)
    assert QuotaTable(fleet(leased("a", 1), pod, claim).snapshot).usage("n") == usage(shares=1000)
    assert QuotaTable(fleet(leased("a", 1), pod).snapshot).usage("n").gpus == 1


@pytest.mark.parametrize(
    ("quotas", "pod", "expected"),
    [
        pytest.param([], a_pod("p", gpus=2), "a", id="no-quota"),
        pytest.param([a_quota(gpus=1, namespace="other")], a_pod("p", gpus=2), "a", id="another-namespace's"),
        pytest.param([a_quota(gpus=2)], a_pod("p", gpus=2), "a", id="just-enough"),
        pytest.param([a_quota(gpus=9), a_quota("r", gpus=1)], a_pod("p", gpus=2), "QuotaExceeded", id="the-strictest"),
        pytest.param([a_quota(by_model=(("A100", 0),))], a_pod("p", gpus=2), "b", id="a-model-it-may-have"),
        pytest.param(
            [a_quota(by_model=(("A100", 0), ("H100", 1)))],
            a_pod("p", gpus=2),
            "QuotaExceeded",
            id="no-model-it-may-have",
        ),
        pytest.param(
            [a_quota(by_model=(("A100", 0),))],
            a_pod("p", gpus=2, ask=DeviceRequest(count=2, model="A100|H100")),
            "b",
            id="one-of-several-models-it-may-have",
        ),
        pytest.param([a_quota(gpus=0)], a_pod("p"), "a", id="a-pod-without-gpus"),
        pytest.param([a_quota(shares=499)], a_pod("p", gpus=1, ask=HALF), "QuotaExceeded", id="a-share-too-large"),
        pytest.param([a_quota(shares=500)], a_pod("p", gpus=1, ask=HALF), "a", id="a-share-that-is-not"),
    ],
)
def test_seats_a_namespace_may_have(quotas: list[Quota], pod: Pod, expected: str) -> None:
    """Node a has A100s and is the better one for all of these; b has H100s."""
    engine = fleet(leased("a", 2, model=A100), leased("b", 4), *quotas)
    table = QuotaTable(engine.snapshot)
    answer = engine.place(pod, now=NOW, closed=table.closed([pod]))
    if isinstance(answer, NoFit):
        assert set(answer.reasons) == {Reason(expected)}
    else:
        assert answer.node == expected
        assert table.verdict([(pod, answer)])


def test_a_gang_is_asked_about_as_a_whole() -> None:
    engine = fleet(leased("a", 4), a_quota(gpus=3))
    table = QuotaTable(engine.snapshot)
    pods = [a_pod(f"p{n}", gpus=2) for n in range(2)]
    assert table.closed(pods[:1]) is None
    assert table.closed(pods) is not None
    placements = []
    for pod in pods:
        placement = engine.place(pod, now=NOW)
        assert isinstance(placement, Placement)
        placements.append((pod, placement))
    assert table.verdict(placements[:1])
    assert table.verdict(placements).detail == "4 GPUs asked, 0 of 3 are held"


def test_a_quota_that_appears_and_goes_is_heeded() -> None:
    engine = fleet(leased("a", 4))
    table = QuotaTable(engine.snapshot)
    pod, quota = a_pod("p", gpus=2), a_quota(gpus=1)
    assert table.closed([pod]) is None
    engine.snapshot.apply(Added(quota.key, quota))
    assert table.closed([pod]) is not None
    engine.snapshot.apply(Deleted(quota.key, quota))
    assert table.closed([pod]) is None


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_nobody_ever_holds_more_than_allowed_and_sums_do_not_drift(seed: int) -> None:
    rng = Random(seed)
    limits: dict[str, Any] = {"gpus": rng.randint(0, 6), "by_model": (("H100", rng.randint(0, 4)),), "shares": 1200}
    engine = fleet(leased("a", 2, 2), leased("b", 4, model=A100), leased("c", 2), a_quota(**limits))
    table = QuotaTable(engine.snapshot)
    for step in range(25):
        if engine.snapshot.pods and rng.random() < 0.3:
            engine.snapshot.forget(rng.choice(sorted(engine.snapshot.pods)))
        ask = rng.choice((WHOLE, DeviceRequest(model="H100"), HALF))
        pod = a_pod(f"p{step}", gpus=rng.randint(1, 3), ask=ask)
        answer = engine.place(pod, now=NOW, closed=table.closed([pod]))
        if isinstance(answer, Placement) and table.verdict([(pod, answer)]):
            hold(engine.snapshot, pod, answer)
        held = table.usage("n")
        assert held == QuotaTable(engine.snapshot).usage("n")
        assert held.gpus <= limits["gpus"]
        assert dict(held.by_model).get(H100, 0) <= limits["by_model"][0][1]
        assert held.shares <= limits["shares"]
