"""The finalizer of a claim is there before a pod is bound by it, whatever was known of the claim."""

from typing import Any

import pytest

from ullage.act.claim_protection import ClaimProtection
from ullage.errors import NotFound
from ullage.kube.client.api import KubeApi
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import GPU_CLAIMS
from ullage.kube.crds.install import install
from ullage.model.claim import PROTECTION, ClaimInUse
from ullage.model.fact_event import ObjectKey

OTHER = "example.com/keep"


@pytest.fixture
async def made(api: KubeApi, ns: str) -> Any:
    await install(api)

    async def make(*finalizers: str) -> JsonObject:
        body = {
            "metadata": {"name": "c", "finalizers": list(finalizers)},
            "spec": {"devices": {"count": 1}},
        }
        return dict((await api.create(GPU_CLAIMS.whole(), body, ns))["metadata"])

    return make


async def finalizers(api: KubeApi, ns: str) -> list[str]:
    return list((await api.get(GPU_CLAIMS.whole(), "c", ns))["metadata"].get("finalizers", ()))


@pytest.mark.parametrize(
    ("before", "known", "after"),
    [
        ([], False, [PROTECTION]),
        ([OTHER], False, [OTHER, PROTECTION]),
        ([PROTECTION], False, [PROTECTION]),
        ([PROTECTION], True, [PROTECTION]),
        ([OTHER], True, [OTHER]),
    ],
    ids=["unprotected", "beside another's", "known too late", "known", "what is known is trusted"],
)
async def test_a_claim_is_protected_unless_it_is_known_to_be(
    api: KubeApi, ns: str, made: Any, before: list[str], known: bool, after: list[str]
) -> None:
    claim = await made(*before)
    await ClaimProtection(api).ensure(ClaimInUse(ObjectKey(ns, "c"), claim["uid"], protected=known))
    assert await finalizers(api, ns) == after


async def test_another_claim_of_the_name_is_not_the_one_that_was_decided_on(api: KubeApi, ns: str, made: Any) -> None:
    await made()
    with pytest.raises(NotFound):
        await ClaimProtection(api).ensure(ClaimInUse(ObjectKey(ns, "c"), "another", protected=False))
    assert await finalizers(api, ns) == []


async def test_a_claim_that_is_to_go_places_nobody(api: KubeApi, ns: str, made: Any) -> None:
    claim = await made(OTHER)
    await api.delete(GPU_CLAIMS, "c", ns)
    with pytest.raises(NotFound):
        await ClaimProtection(api).ensure(ClaimInUse(ObjectKey(ns, "c"), claim["uid"], protected=False))
    assert await finalizers(api, ns) == [OTHER]
