"""The two worlds the contract holds in: how each is entered, and how each is made to forget its history."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from tests.contract.expect import SOON_SECONDS, eventually
from tests.contract.kinds import CONFIG_MAP, CRD, NAMESPACE, WIDGET
from tests.contract.steps import ended, widgets_served
from ullage.errors import Gone, NotFound, TooManyRequests
from ullage.kube.api import JsonPatch, KubeApi, Page
from ullage.kube.connect import connect
from ullage.kube.resource import JsonObject
from ullage.testing.controlplane import ControlPlane

Forget = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class World:
    """An API server, a namespace of one's own in it, and a way to make it forget what was."""

    api: KubeApi
    namespace: str
    forget_history: Forget


async def fresh_namespace(api: KubeApi) -> str:
    """A namespace nobody else uses."""
    made = await api.create(NAMESPACE, {"metadata": {"generateName": "contract-"}})
    return str(made["metadata"]["name"])


@asynccontextmanager
async def real_world(plane: ControlPlane) -> AsyncIterator[World]:
    """A kube-apiserver with etcd behind it."""
    api = connect(plane.kubeconfig, seed=0)
    try:

        async def forget() -> None:
            await forget_lists(api, plane.etcd)
            await forget_watches(api)

        yield World(api, await fresh_namespace(api), forget)
    finally:
        await api.close()


async def forget_lists(api: KubeApi, etcd: str) -> None:
    """Compact etcd, and wait until a continue token from before is no longer honoured."""
    begun = [await _begin_list(api) for _ in range(int(SOON_SECONDS / TOKEN_PAUSE_SECONDS))]
    await compact(etcd)
    async with asyncio.timeout(SOON_SECONDS):
        for pages in begun:
            async with ended(pages):
                try:
                    await anext(pages)
                except Gone:
                    return
                await asyncio.sleep(TOKEN_PAUSE_SECONDS)


TOKEN_PAUSE_SECONDS = 0.1


async def _begin_list(api: KubeApi) -> AsyncIterator[Page[JsonObject]]:
    """A list of which one page has been read. There are always config maps: the server keeps some of its own."""
    pages = api.pages(CONFIG_MAP, chunk=1)
    await anext(pages)
    return pages


async def compact(etcd: str) -> None:
    """Drop every revision before this one, and tell the API server as its own compaction would.

    The server honours continue tokens from snapshots in memory, and drops those older than what this key says.
    """
    key = base64.b64encode(b"compact_rev_key").decode()
    async with aiohttp.ClientSession(etcd) as session:

        async def ask(path: str, body: dict[str, Any]) -> Any:
            async with session.post(path, json=body, raise_for_status=True) as response:
                return await response.json()

        revision = str(int((await ask("/v3/kv/range", {"key": key}))["header"]["revision"]) + 1)
        await ask("/v3/kv/put", {"key": key, "value": base64.b64encode(revision.encode()).decode()})
        await ask("/v3/kv/compaction", {"revision": revision})


async def forget_watches(api: KubeApi) -> None:
    """Change the definition of widgets: the server then begins their history anew, as at any upgrade of a definition."""
    await widgets_served(api)
    before = (await api.list(WIDGET)).resource_version
    described = {"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/description", "value": before}
    await api.patch(CRD, WIDGET.id, JsonPatch([described]))
    await eventually(lambda: _is_forgotten(api, before), until=bool)


async def _is_forgotten(api: KubeApi, since: str) -> bool:
    try:
        async with ended(api.watch(WIDGET, since=since, seconds=1)) as stream:
            async for _ in stream:
                pass
    except Gone:
        return True
    except (NotFound, TooManyRequests):
        return False
    return False
