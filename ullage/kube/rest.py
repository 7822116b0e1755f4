"""`RestApi`: the whole of `KubeApi` over any transport.

Bodies, paths, queries, paging, watch lines, retries and typed errors are here and in the files this one imports; how
bytes travel is not. So the same code speaks to a real API server and to the one in memory.
"""

import random
from collections.abc import AsyncGenerator, Sequence
from typing import Any, TypeVar

import msgspec

from ullage import errors
from ullage.kube import discovery, encoding, failure, spelling, watching
from ullage.kube.api import (
    EVERYTHING,
    Binding,
    Body,
    Deletion,
    MergePatch,
    Page,
    Patch,
    Selection,
    Served,
    WatchEvent,
)
from ullage.kube.calling import Caller, Patience
from ullage.kube.rate import Rate
from ullage.kube.resource import Resource
from ullage.kube.resources import PODS
from ullage.kube.transport import Refused, Request, Transport

T = TypeVar("T")

_WATCH_MARGIN = 30.0
_WATCH_SECONDS = (300, 600)
_FOR_EVER = 1_000_000_000
_CHUNKED_LISTS = 2


class _ScaleSpec(msgspec.Struct, gc=False):
    replicas: int = 0


class _Scale(msgspec.Struct, gc=False):
    spec: _ScaleSpec = msgspec.field(default_factory=_ScaleSpec)


class RestApi:
    """`KubeApi` over a transport. `rng` gives the jitter of waits; `rate` None means no limit of our own."""

    def __init__(
        self,
        transport: Transport,
        *,
        rng: random.Random,
        rate: Rate | None = None,
        patience: Patience = Patience(),  # noqa: B008 - frozen
        watch_seconds: tuple[int, int] = _WATCH_SECONDS,
        lossless: bool = False,
    ) -> None:
        self.lossless = lossless
        self._transport = transport
        self._caller = Caller(transport, rng=rng, rate=rate, patience=patience)
        self._watch_seconds = watch_seconds

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        what = spelling.words("get", resource, namespace, name)
        body = await self._caller.ask(Request("GET", spelling.object_path(resource, namespace, name)), what)
        return encoding.decode_object(resource, body, what)

    async def pages(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        selection: Selection = EVERYTHING,
        chunk: int = 500,
        at_least: str | None = None,
    ) -> AsyncGenerator[Page[T], None]:
        what = spelling.words("list", resource, namespace)
        path = resource.path(namespace)
        query = spelling.selected(selection) | ({"limit": str(chunk)} if chunk else {})
        following = query | spelling.not_older_than(at_least)
        while True:
            body = await self._caller.ask(Request("GET", path, following), what)
            page = encoding.decode_list(resource, body, what)
            del body  # the page may be worked on for long, its bytes are of no use
            meta = page.metadata
            yield Page(page.items or (), meta.resource_version, meta.remaining_item_count)
            if not meta.continue_:
                return
            following = query | {"continue": meta.continue_}

    async def list(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        selection: Selection = EVERYTHING,
        chunk: int = 500,
    ) -> Page[T]:
        # A list whose moment is compacted away between two pages twice over is asked for in one piece.
        for size in (chunk,) * _CHUNKED_LISTS:
            try:
                return await self._joined(resource, namespace, selection, size)
            except errors.Gone:
                continue
        return await self._joined(resource, namespace, selection, 0)

    async def _joined(self, resource: Resource[T], namespace: str, selection: Selection, chunk: int) -> Page[T]:
        items: list[T] = []
        version = ""
        async for page in self.pages(resource, namespace, selection=selection, chunk=chunk):
            items.extend(page.items)
            version = page.resource_version
        return Page(items, version)

    async def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        since: str,
        selection: Selection = EVERYTHING,
        seconds: int | None = None,
    ) -> AsyncGenerator[Sequence[WatchEvent[T]], None]:
        what = spelling.words("watch", resource, namespace)
        lasting = seconds if seconds is not None else self._lasting()
        bookmarks = {} if self.lossless else {"allowWatchBookmarks": "true"}
        query = {"watch": "true", "timeoutSeconds": str(lasting)} | bookmarks
        query |= spelling.selected(selection) | ({"resourceVersion": since} if since else {})
        request = Request("GET", resource.path(namespace), query, timeout=lasting + _WATCH_MARGIN)
        await self._caller.turn()
        try:
            async with watching.closed_after(self._transport.stream(request)) as batches:
                async for lines in batches:
                    events, error = watching.read_batch(resource, lines, what)
                    if events:
                        yield events
                    if error is not None:
                        raise error
        except Refused as refused:
            raise failure.from_response(refused.response, what) from refused

    def _lasting(self) -> int:
        """Bounded: a connection that died without a word would otherwise look like a quiet cluster for ever."""
        return _FOR_EVER if self.lossless else self._caller.rng.randint(*self._watch_seconds)

    async def create(self, resource: Resource[T], body: Body, namespace: str = "", *, dry_run: bool = False) -> T:
        written = encoding.whole_object(resource, body)
        name, inside = spelling.address(written)
        where = namespace or inside
        what = spelling.words("create", resource, where, name)
        request = spelling.post_request(resource.path(where), spelling.writing(dry_run), written)
        return encoding.decode_object(resource, await self._caller.ask(request, what), what)

    async def replace(self, resource: Resource[T], body: Body, *, subresource: str = "", dry_run: bool = False) -> T:
        written = encoding.whole_object(resource, body)
        name, namespace = spelling.address(written)
        what = spelling.words("replace", resource, namespace, name, subresource)
        path = spelling.object_path(resource, namespace, name, subresource)
        request = Request("PUT", path, spelling.writing(dry_run), encoding.encode(written))
        return encoding.decode_object(resource, await self._caller.ask(request, what), what)

    async def patch(
        self, resource: Resource[T], name: str, patch: Patch, namespace: str = "", *, subresource: str = ""
    ) -> T:
        what = spelling.words("patch", resource, namespace, name, subresource)
        request = spelling.patch_request(resource, spelling.object_path(resource, namespace, name, subresource), patch)
        return encoding.decode_object(resource, await self._caller.ask(request, what), what)

    async def delete(
        self,
        resource: Resource[Any],
        name: str,
        namespace: str = "",
        *,
        how: Deletion = Deletion(),  # noqa: B008 - frozen
    ) -> None:
        options = encoding.encode({"apiVersion": "v1", "kind": "DeleteOptions"} | spelling.deletion_options(how))
        request = Request("DELETE", spelling.object_path(resource, namespace, name), body=options)
        await self._caller.ask(request, spelling.words("delete", resource, namespace, name))

    async def bind(self, pod: str, namespace: str, binding: Binding) -> None:
        body = spelling.binding_body(pod, namespace, binding)
        path = spelling.object_path(PODS, namespace, pod, "binding")
        request = spelling.post_request(path, spelling.writing(False), body)
        await self._caller.ask(request, spelling.words("bind", PODS, namespace, pod))

    async def evict(self, pod: str, namespace: str, *, how: Deletion = Deletion()) -> None:  # noqa: B008 - frozen
        body = spelling.eviction_body(pod, namespace, how)
        request = Request(
            "POST",
            spelling.object_path(PODS, namespace, pod, "eviction"),
            spelling.writing(False),
            encoding.encode(body),
        )
        # 429 is a disruption budget's answer here, and it is the caller who knows whether to wait.
        await self._caller.ask(request, spelling.words("evict", PODS, namespace, pod), retry_when_busy=False)

    async def scale(self, resource: Resource[Any], name: str, namespace: str, replicas: int) -> None:
        patch = MergePatch({"spec": {"replicas": replicas}})
        request = spelling.patch_request(resource, spelling.object_path(resource, namespace, name, "scale"), patch)
        await self._caller.ask(request, spelling.words("scale", resource, namespace, name))

    async def read_scale(self, resource: Resource[Any], name: str, namespace: str) -> int:
        what = spelling.words("read the scale of", resource, namespace, name)
        body = await self._caller.ask(Request("GET", spelling.object_path(resource, namespace, name, "scale")), what)
        return encoding.decode_as(_Scale, body, what).spec.replicas

    async def discover(self) -> Served:
        return await discovery.discover(self._caller)

    async def close(self) -> None:
        await self._transport.close()
