"""The judge of every moment finds what was wrong only for one."""

import asyncio
import random

import pytest

from ullage.clock import WallClock
from ullage.kube.client.api import DELETE_NOW, Binding
from ullage.kube.client.resources import LEASES, NAMESPACES, NODES, PODS
from ullage.kube.client.rest import RestApi
from ullage.model.lease import GpuLease, LeaseHold
from ullage.model.pod import Phase, Pod
from ullage.model.units import Milli
from ullage.sim.apiserver import InMemoryTransport, SimulatedApiServer
from ullage.testing.builders import a_namespace, a_node, a_pod
from ullage.testing.checks.placement_history import Change, PlacementHistory, begun_too_early, breaches
from ullage.testing.facts import lease_fact, pod_fact


def pod(name: str, *gpus: int, node: str = "n", share: int = 1000, over: bool = False) -> Pod:
    return pod_fact(
        name,
        node=node,
        phase=Phase.SUCCEEDED if over else Phase.RUNNING,
        scheduler="s",
        gpu_ids=gpus,
        gpu_share=Milli(share),
    )


def lease(gpu: int, **holders: int) -> GpuLease:
    return lease_fact(gpu, *(LeaseHold(f"uid-{name}", Milli(milli)) for name, milli in holders.items()))


Told = Pod | GpuLease | tuple[Pod | GpuLease, bool]
"""A pair is something that is gone."""


def in_order(facts: tuple[Told, ...]) -> list[Change]:
    return [
        Change(version, fact[0] if isinstance(fact, tuple) else fact, isinstance(fact, tuple))
        for version, fact in enumerate(facts, start=1)
    ]


def told(*facts: Told) -> list[str]:
    """Breaches of facts in this order."""
    changes = in_order(facts)
    found = list(breaches(changes))
    assert list(breaches(changes[::-1])) == found
    return found


def test_a_life_without_a_breach() -> None:
    history = (
        lease(0, a=1000),
        pod("a", node=""),
        pod("a", 0),
        pod("a", 0, over=True),
        (lease(0, a=1000), True),
        lease(0, b=1000),
        pod("b", 0),
        (pod("b", 0), True),
        (lease(0, b=1000), True),
    )
    assert told(*history) == []


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        pytest.param(
            (lease(0, a=1000), pod("a", 0), lease(0, a=1000, b=1), pod("b", 0), (pod("a", 0), True)),
            "GPU ('n', 0) was given to default/a and default/b",
            id="two-holders-for-a-moment",
        ),
        pytest.param((pod("a", 0), lease(0, a=1000)), "leased to nobody", id="bound-before-leased"),
        pytest.param((lease(0, b=1000), pod("a", 0)), "leased to uid-b", id="bound-to-what-another-holds"),
        pytest.param(
            (lease(0, a=1000), pod("a", 0), (lease(0, a=1000), True), (pod("a", 0), True)),
            "gpu-n-0 was taken from default/a",
            id="freed-under-a-live-pod",
        ),
        pytest.param(
            (lease(0, a=1000), pod("a", 0), lease(0, b=1000)), "was taken from default/a", id="given-to-another"
        ),
        pytest.param((lease(0, a=600, b=600),), "more than fit", id="shares-above-the-whole"),
        pytest.param(
            (lease(0, a=1000), lease(1, a=1000), pod("a", 0), pod("a", 1)), "was moved", id="allocation-changed"
        ),
        pytest.param(
            (lease(0, a=600, b=400), pod("a", 0, share=600), pod("b", 0, share=600)),
            "was given to default/a and default/b",
            id="shares-given-above-the-whole",
        ),
    ],
)
def test_a_breach_is_found(facts: tuple[Pod | GpuLease, ...], says: str) -> None:
    assert any(says in sentence for sentence in told(*facts))


@pytest.mark.parametrize(
    ("facts", "early"),
    [
        pytest.param((lease(0, a=1000), lease(1, b=1000), pod("a", 0), pod("b", 1)), 0, id="all-leased-before"),
        pytest.param((lease(0, a=1000), pod("a", 0), lease(1, b=1000), pod("b", 1)), 1, id="the-second-leased-after"),
        pytest.param(
            (lease(0, a=1000), lease(1, b=1000), (lease(1, b=1000), True), pod("a", 0)), 1, id="let-go-before-the-first"
        ),
        pytest.param(
            (
                lease(0, a=1000),
                lease(1, b=1000),
                pod("a", 0),
                pod("b", 1),
                (pod("b", 1), True),
                (lease(1, b=1000), True),
                lease(2, b=1000),
                pod("b", 2),
            ),
            0,
            id="one-that-comes-again-beside-the-other",
        ),
    ],
)
def test_a_gang_that_begins_too_early_is_found(facts: tuple[Told, ...], early: int) -> None:
    assert len(list(begun_too_early(in_order(facts), ("uid-a", "uid-b"), 2))) == early


@pytest.mark.parametrize(
    ("window", "early"), [pytest.param(0.0, 1, id="no-window"), pytest.param(0.5, 0, id="left-just-now")]
)
def test_a_member_that_left_between_two_calls_counts(window: float, early: int) -> None:
    facts = (lease(0, a=1000), lease(1, b=1000), pod("a", 0), pod("b", 1))
    gone: tuple[Told, ...] = (
        (pod("b", 1), True),
        (lease(1, b=1000), True),
        (pod("a", 0), True),
        (lease(0, a=1000), True),
    )
    changes = in_order((*facts, *gone, lease(2, c=1000), pod("c", 2)))
    assert len(list(begun_too_early(changes, ("uid-a", "uid-b", "uid-c"), 2, window=window))) == early


async def test_it_records_what_is_there_what_comes_and_what_goes() -> None:
    server = SimulatedApiServer(WallClock(), seed=1)
    api = RestApi(InMemoryTransport(server), rng=random.Random(1))
    await api.create(NODES, a_node("n"))
    await api.create(NAMESPACES, a_namespace("leases"))
    await api.create(PODS, a_pod("early"), "default")
    async with PlacementHistory(api, "leases") as history:
        await api.create(PODS, a_pod("p"), "default")
        for name in ("p", "early"):
            await api.bind(name, "default", Binding("n", annotations={"gpu.scheduling/allocated": "n:0"}))
        await api.delete(PODS, "p", "default", how=DELETE_NOW)
        notes = {"gpu.scheduling/node": "n", "gpu.scheduling/device": "0"}
        meta = {"name": "gpu-n-0", "labels": {"gpu.scheduling/managed": "true"}, "annotations": notes}
        await api.create(LEASES, {"metadata": meta, "spec": {"holderIdentity": "x"}}, "leases")
        await asyncio.sleep(0.1)
        await history.whole()
    found = list(history.breaches())
    assert sum("was bound to GPU ('n', 0), leased to nobody" in one for one in found) == 2
    assert sum("was given to default/early and default/p" in one for one in found) == 1
    assert sum("gpu-n-0 was taken from default/early" in one for one in found) == 1
    assert len(found) == 4
