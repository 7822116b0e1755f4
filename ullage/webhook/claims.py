"""What is known of claims: an informer's cache first, the API server itself for what was created a moment ago."""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from ullage.clock import Clock
from ullage.decide.admit.mutate import Found
from ullage.errors import NotFound, Unreachable, Unreadable
from ullage.kube.api import KubeApi, Selection
from ullage.kube.gpu_read import read_claim
from ullage.kube.objects.gpu import GpuClaim
from ullage.kube.objects.meta import PartialObject
from ullage.kube.resource import Resource
from ullage.kube.resources import GPU_CLAIMS, PODS
from ullage.model.allocation import CLAIM
from ullage.model.claim import Claim
from ullage.model.event import ObjectKey
from ullage.watch.informer import Informer, Interest

_ANSWER_SECONDS = 2.0
"""The API server itself waits for us, for a few seconds."""
_ON_NODES = Selection(fields="spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed")
_POD_NAMES = Resource("", "v1", PODS.plural, PODS.kind, True, PartialObject)

_is_name = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?").fullmatch


class ClaimBook:
    """Claims of all namespaces. Run `informer` beside it."""

    def __init__(self, api: KubeApi, *, rng: random.Random, clock: Clock) -> None:
        self._api = api
        interest: Interest[GpuClaim, Claim] = Interest(GPU_CLAIMS, read_claim)
        self.informer = Informer(api, interest, lambda _: None, rng=rng, clock=clock)

    async def find(self, key: ObjectKey) -> Found:
        """The claim, or why there is none. Raises ApiError if the API server does not say."""
        known = self.informer.facts.get(key)
        if known is not None:
            return Found(known)
        if not _is_name(key.name):
            return Found(trouble=f"GpuClaim {key.name[:253]!r} cannot be there: that is no name of this namespace")
        try:
            async with _in_time(f"GpuClaim {key}"):
                return Found(read_claim(await self._api.get(GPU_CLAIMS, key.name, key.namespace)))
        except NotFound:
            return Found(trouble=f"GpuClaim {key} is not there")
        except Unreadable as error:
            return Found(trouble=error.message)

    async def holders(self, key: ObjectKey) -> Sequence[ObjectKey]:
        """Pods on nodes that name this claim. Read at this moment: it happens rarely, and must be right."""
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
