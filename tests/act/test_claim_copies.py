"""Making claims from templates, in both worlds: once for each pod, as the server has the template."""

from typing import Any

import pytest

from ullage.act.claims import ClaimCreator
from ullage.kube.client.api import KubeApi, MergePatch
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import GPU_CLAIMS, PODS
from ullage.kube.crds.install import install
from ullage.kube.objects.gpu import GpuClaim
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import CreateClaimFromTemplate
from ullage.model.outcomes import ClaimCreated, ClaimCreateFailure, ClaimNotCreated
from ullage.testing.builders import a_pod

SPEC: JsonObject = {
    "devices": {"count": 2, "model": "H100", "memory": "40Gi", "policy": "spread"},
    "selector": {"matchLabels": {"zone": "b"}},
    "topology": {"mode": "Required", "minBandwidthGBps": 300},
    "gangRef": "g",
    "gangMinMember": 2,
    "pool": "p",
}


@pytest.fixture
async def template(api: KubeApi, ns: str) -> GpuClaim:
    await install(api)
    return await api.create(GPU_CLAIMS, {"metadata": {"name": "t"}, "spec": SPEC}, ns)


async def wanted(api: KubeApi, ns: str, template: GpuClaim, pod: str = "p") -> CreateClaimFromTemplate:
    made = await api.create(PODS, a_pod(pod), ns)
    meta = template.metadata
    return CreateClaimFromTemplate(
        pod=ObjectKey(ns, pod),
        uid=made.metadata.uid,
        template="t",
        template_uid=meta.uid,
        generation=meta.generation,
    )


async def test_a_copy_asks_for_what_the_template_asks_for(api: KubeApi, ns: str, template: GpuClaim) -> None:
    action = await wanted(api, ns, template)
    assert await ClaimCreator(api).perform(action) == ClaimCreated(action, written=True)
    copy = await api.get(GPU_CLAIMS, f"p-{action.uid[:8]}", ns)
    assert copy.spec == template.spec
    (owner,) = copy.metadata.owner_references
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("Pod", "p", action.uid, True)
    assert copy.metadata.labels == {"gpu.scheduling/template": "t"}


async def test_a_copy_is_made_once(api: KubeApi, ns: str, template: GpuClaim) -> None:
    action = await wanted(api, ns, template)
    await ClaimCreator(api).perform(action)
    assert await ClaimCreator(api).perform(action) == ClaimCreated(action, written=False)
    assert len((await api.list(GPU_CLAIMS, ns)).items) == 2


async def test_a_claim_of_somebody_else_is_left_alone(api: KubeApi, ns: str, template: GpuClaim) -> None:
    action = await wanted(api, ns, template)
    await api.create(GPU_CLAIMS, {"metadata": {"name": f"p-{action.uid[:8]}"}, "spec": {}}, ns)
    outcome = await ClaimCreator(api).perform(action)
    assert isinstance(outcome, ClaimNotCreated)
    assert outcome.setback is ClaimCreateFailure.NAME_TAKEN


async def test_a_template_that_is_gone_is_an_outcome(api: KubeApi, ns: str, template: GpuClaim) -> None:
    action = await wanted(api, ns, template)
    await api.delete(GPU_CLAIMS, "t", ns)
    outcome = await ClaimCreator(api).perform(action)
    assert isinstance(outcome, ClaimNotCreated)
    assert outcome.setback is ClaimCreateFailure.TEMPLATE_GONE


async def test_a_template_is_read_once_for_all_its_pods_and_again_when_it_changed(
    api: KubeApi, ns: str, template: GpuClaim
) -> None:
    reading: Any = _Counting(api)
    copier = ClaimCreator(reading)
    for number in range(3):
        await copier.perform(await wanted(api, ns, template, f"p{number}"))
    assert reading.reads == 1
    changed = await api.patch(GPU_CLAIMS, "t", MergePatch({"spec": {"devices": {"count": 4}}}), ns)
    action = await wanted(api, ns, changed, "p3")
    await copier.perform(action)
    assert reading.reads == 2
    assert (await api.get(GPU_CLAIMS, f"p3-{action.uid[:8]}", ns)).spec.devices.count == 4


class _Counting:
    """An API that counts what is read."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self.reads = 0

    async def get(self, *arguments: Any) -> Any:
        self.reads += 1
        return await self._api.get(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)
