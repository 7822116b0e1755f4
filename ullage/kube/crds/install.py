"""Install the CustomResourceDefinitions: apply them, and wait until the API server serves their kinds."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, cast

from ullage.errors import Gone, NotFound, TooManyRequests, UserError
from ullage.kube.client.api import Apply, KubeApi, ListSelector
from ullage.kube.client.resource import JsonObject, Resource
from ullage.kube.client.resources import CRDS
from ullage.kube.crds.catalog import OURS
from ullage.kube.crds.definition import CrdDefinition

MANAGER = "ullage-install"
"""Field manager: the name under which the API server records writes of the definitions."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0


async def install(api: KubeApi, definitions: Sequence[CrdDefinition] = OURS, *, seconds: float = 60.0) -> None:
    """Apply all of them and wait until all are served. Idempotent; objects that are there stay.

    Raises UserError when a name is taken by another kind, or when it takes longer than this.
    """
    for definition in definitions:
        await api.patch(CRDS, definition.resource.id, Apply(definition.written(), MANAGER))
    waiting = ", ".join(definition.resource.id for definition in definitions)
    try:
        async with asyncio.timeout(seconds):
            for definition in definitions:
                await _established(api, definition.resource.id)
                await _served(api, definition.resource)
    except TimeoutError as error:
        raise UserError(
            f"the API server did not serve {waiting} within {seconds:g} s; look at their conditions with "
            "`kubectl describe crd` and try again"
        ) from error


async def _established(api: KubeApi, name: str) -> None:
    crd = await api.get(CRDS, name)
    while not _is_established(crd):
        crd = await _next(api, crd)


async def _next(api: KubeApi, crd: JsonObject) -> JsonObject:
    """The definition after its next change."""
    meta = crd["metadata"]
    named = ListSelector(fields=f"metadata.name={meta['name']}")
    watch = api.watch(CRDS, since=meta["resourceVersion"], selection=named)
    try:
        async with aclosing(cast(AsyncGenerator[Any, None], watch)) as batches:
            async for batch in batches:
                for event in batch:
                    if event.object is not None:
                        return cast(JsonObject, event.object)
    except Gone:
        pass
    return await api.get(CRDS, meta["name"])


def _is_established(crd: JsonObject) -> bool:
    conditions = {one["type"]: one for one in (crd.get("status") or {}).get("conditions") or ()}
    names = conditions.get("NamesAccepted", {})
    if names.get("status") == "False":
        raise UserError(
            f"{crd['metadata']['name']}: the API server does not accept its names: {names.get('message', '')}; "
            "remove the other definition first"
        )
    return bool(conditions.get("Established", {}).get("status") == "True")


async def _served(api: KubeApi, resource: Resource[Any]) -> None:
    """Poll until the kind is served: that is some time after it is established, without an event."""
    pause = _FIRST_PAUSE
    while True:
        pages = api.pages(resource.whole(), chunk=1)
        try:
            async with aclosing(cast(AsyncGenerator[Any, None], pages)) as begun:
                await anext(begun)
            return
        except (NotFound, TooManyRequests):
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
