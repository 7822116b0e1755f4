"""Karpenter beside NodeProvisioners: a request is served by one of them, the cheaper that can, and never by both."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as changed

from tests.control.karpenter.stage import Stage, play, settings
from tests.decide.karpenter.cluster import H100, mapping
from ullage.decide.karpenter.node_pool_mapping import Chosen
from ullage.decide.karpenter.service_choice import prefers_karpenter
from ullage.kube.client.api import MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import NODE_PROVISIONERS
from ullage.model.claim import DeviceRequest
from ullage.model.provisioner import BackOff, CloudFailure, GpuTemplate, NodeTemplate, PoolThresholds, Provisioner
from ullage.model.units import Bytes, Instant, Micros, Milli
from ullage.testing.karpenter_cluster import G1

MICROS = 1_000_000
GIB = 1 << 30


def provisioner(price: float, gpus: int = 1, *, back_off: BackOff | None = None, **limits: Any) -> Provisioner:
    """`price` of one node."""
    board = GpuTemplate(model=H100, count=gpus, memory=Bytes(80 * GIB))
    template = NodeTemplate(resources={}, gpus=board, price=Micros(int(price * MICROS)))
    thresholds = PoolThresholds(max_size=4, **limits)
    return Provisioner(
        name="pool", uid="u", generation=1, template=template, thresholds=thresholds, provider="x", back_off=back_off
    )


AWAY = BackOff(failure=CloudFailure.CAPACITY, failures=1, until=Instant(100.0))


@pytest.mark.parametrize(
    ("mine", "theirs", "ask", "karpenter"),
    [
        pytest.param(3.0, [provisioner(4.0)], {}, True, id="cheaper"),
        pytest.param(4.0, [provisioner(4.0)], {}, False, id="as-cheap"),
        pytest.param(5.0, [provisioner(4.0)], {}, False, id="dearer"),
        pytest.param(3.0, [provisioner(16.0, 8)], {"count": 8}, False, id="by-gpu-and-not-by-node"),
        pytest.param(0.0, [provisioner(4.0)], {}, False, id="mine-is-not-known"),
        pytest.param(5.0, [provisioner(0.0)], {}, True, id="theirs-is-not-known"),
        pytest.param(0.0, [provisioner(0.0)], {}, False, id="neither-is-known"),
        pytest.param(5.0, [provisioner(4.0, paused=True), provisioner(6.0)], {}, True, id="the-cheaper-is-paused"),
        pytest.param(5.0, [provisioner(4.0, back_off=AWAY), provisioner(6.0)], {}, True, id="the-cheaper-has-failed"),
        pytest.param(5.0, [provisioner(4.0), provisioner(9.0, 8)], {"count": 4}, False, id="only-the-large-one-counts"),
        pytest.param(3.0, [provisioner(4.0)], {"model": "L4"}, False, id="none-fits:-the-plan-says-so"),
    ],
)
def test_the_cheaper_that_fits_serves(
    mine: float, theirs: list[Provisioner], ask: dict[str, Any], karpenter: bool
) -> None:
    request = DeviceRequest(**ask)
    chosen = Chosen(mapping(price_per_gpu=int(mine * MICROS)), request.count, Milli(1000))
    assert prefers_karpenter(chosen, request, theirs, now=Instant(50.0)) is karpenter


def node_provisioner(price: str, **spec: Any) -> JsonObject:
    gpus = {"model": H100, "count": 1, "memory": "80Gi", "islands": 1}
    template = {"resources": {"cpu": "12", "memory": "96Gi"}, "gpus": gpus, "pricePerHour": price}
    said = {"provider": {"name": "kwok"}, "template": template, "minSize": 0, "maxSize": 4} | spec
    return {"metadata": {"name": "pool"}, "spec": said}


def priced(price: float) -> Any:
    chosen = settings()
    (name, one), *_ = chosen.node_pools.items()
    return replace(chosen, node_pools={name: changed(one, price_per_gpu=int(price * MICROS))})


@pytest.mark.story
@pytest.mark.parametrize(
    ("karpenter", "theirs", "by_karpenter"),
    [
        pytest.param(3.0, node_provisioner("4"), True, id="karpenter-is-cheaper"),
        pytest.param(5.0, node_provisioner("4"), False, id="the-provisioner-is-cheaper"),
        pytest.param(5.0, node_provisioner("4", paused=True), True, id="the-provisioner-is-paused"),
    ],
)
def test_one_of_them_buys_and_never_both(karpenter: float, theirs: JsonObject, by_karpenter: bool) -> None:
    async def story(stage: Stage) -> None:
        await stage.api.create(NODE_PROVISIONERS, theirs)
        await asyncio.sleep(5.0)
        for name in ("a", "b"):
            await stage.claim_pod(name)
        await asyncio.sleep(60.0)
        assert (len(stage.claims_made), len(stage.cloud.made)) == ((2, 0) if by_karpenter else (0, 2))

    play(story, chosen=priced(karpenter))


@pytest.mark.story
def test_a_pool_that_waited_before_the_start_is_compared_as_well() -> None:
    async def story(stage: Stage) -> None:
        stage.controller.crash()
        await stage.api.create(NODE_PROVISIONERS, node_provisioner("4"))
        await stage.claim_pod("a")
        await asyncio.sleep(2.0)
        stage.controller.restart()
        await asyncio.sleep(60.0)
        assert len(stage.claims_made) + len(stage.cloud.made) == 1

    play(story, chosen=priced(3.0))


@pytest.mark.story
def test_where_karpenter_has_no_capacity_the_provisioner_buys() -> None:
    async def story(stage: Stage) -> None:
        await stage.api.create(NODE_PROVISIONERS, node_provisioner("4"))
        await asyncio.sleep(5.0)
        await stage.claim_pod("a")

        async def bought() -> bool:
            return bool(stage.cloud.made)

        await stage.until(bought, 200.0)
        await asyncio.sleep(60.0)
        assert len(stage.cloud.made) == 1
        assert not await stage.smart_pods(), "Karpenter is not asked beside it"

    play(story, chosen=priced(3.0), types=(replace(G1, available=False),))


@pytest.mark.story
def test_a_choice_that_was_acted_upon_stays_when_prices_change() -> None:
    async def story(stage: Stage) -> None:
        await stage.api.create(NODE_PROVISIONERS, node_provisioner("4"))
        await asyncio.sleep(5.0)
        await stage.claim_pod("a")

        async def asked() -> bool:
            return bool(await stage.smart_pods())

        await stage.until(asked)
        cheaper = MergePatch({"spec": {"template": {"pricePerHour": "1"}}})
        await stage.api.patch(NODE_PROVISIONERS, "pool", cheaper)
        await stage.bound("a")
        await stage.settled()
        assert (len(stage.claims_made), len(stage.cloud.made)) == (1, 0)

    play(story, chosen=priced(3.0))
