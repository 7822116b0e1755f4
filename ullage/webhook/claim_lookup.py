"""Claims for the reviewer: from an informer's cache, else from the API server, for claims created a moment ago."""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from ullage.clock import Clock
from ullage.decide.admission.mutate import ClaimLookup
from ullage.errors import NotFound, Unreachable, Unreadable
from ullage.kube.client.api import KubeApi, ListSelector
from ullage.kube.client.resource import Resource
from ullage.kube.client.resources import GPU_CLAIMS, PODS
from ullage.kube.objects.gpu import GpuClaim
from ullage.kube.objects.meta import PartialObject
from ullage.kube.read.gpu import read_claim
from ullage.model.allocation import CLAIM
from ullage.model.claim import Claim
from ullage.model.fact_event import ObjectKey
from ullage.watch.informer import Informer, InformerSpec

_ANSWER_SECONDS = 2.0
"""Seconds. The API server itself waits only a few seconds for the webhook."""
_ON_NODES = ListSelector(fields="spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed")
_POD_NAMES = Resource("", "v1", PODS.plural, PODS.kind, True, PartialObject)

_is_name = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?").fullmatch


class ClaimCache:
    """Claims of all namespaces. Run `informer` beside it."""

    def __init__(self, api: KubeApi, *, rng: random.Random, clock: Clock) -> None:
        self._api = api
        interest: InformerSpec[GpuClaim, Claim] = InformerSpec(GPU_CLAIMS, read_claim)
        self.informer = Informer(api, interest, lambda _: None, rng=rng, clock=clock)

    async def find(self, key: ObjectKey) -> ClaimLookup:
        """The claim, or why there is none. Raises ApiError if the API server does not say."""
        known = self.informer.facts.get(key)
        if known is not None:
            return ClaimLookup(known)
        if not _is_name(key.name):
            return ClaimLookup(
                trouble=f"GpuClaim {key.name[:253]!r} cannot be there: that is no name of this namespace"
            )
        try:
            async with _in_time(f"GpuClaim {key}"):
                return ClaimLookup(read_claim(await self._api.get(GPU_CLAIMS, key.name, key.namespace)))
        except NotFound:
            return ClaimLookup(trouble=f"GpuClaim {key} is not there")
        except Unreadable as error:
            return ClaimLookup(trouble=error.message)

    async def holders(self, key: ObjectKey) -> Sequence[ObjectKey]:
        """Pods on nodes that name this claim. Read from the API server each time: rarely needed, and must be right."""
        async with _in_time(f"who uses GpuClaim {key}"):
            page = await self._api.list(_POD_NAMES, key.namespace, selection=_ON_NODES)
        metas = [pod.metadata for pod in page.items]
        return [ObjectKey(meta.namespace, meta.name) for meta in metas if meta.annotations.get(CLAIM) == key.name]


@asynccontextmanager
async def _in_time(what: str) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            yield
    except TimeoutError:
        raise Unreachable(f"{what} was not read within {_ANSWER_SECONDS:g} s") from None
