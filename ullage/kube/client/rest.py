"""`RestApi`: the whole of `KubeApi` over any transport.

Bodies, paths, queries, paging, watch lines, retries and typed errors are here and in the files this one imports; how
bytes travel is not. So the same code speaks to a real API server and to the one in memory.
"""

import random
from collections.abc import AsyncGenerator, Sequence
from typing import Any, TypeVar

import msgspec

from ullage import errors
from ullage.kube.client import discovery, json_codec, request_paths, status_errors, watch_decoder
from ullage.kube.client.api import (
    EVERYTHING,
    Binding,
    Body,
    Deletion,
    ListSelector,
    MergePatch,
    Page,
    Patch,
    ServedResources,
    WatchEvent,
)
from ullage.kube.client.calling import RetryingCaller, RetryPolicy
from ullage.kube.client.rate import RateLimiter
from ullage.kube.client.resource import Resource
from ullage.kube.client.resources import PODS
from ullage.kube.client.transport import Request, StreamRejected, Transport

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
        rate: RateLimiter | None = None,
        patience: RetryPolicy = RetryPolicy(),  # noqa: B008 - frozen
        watch_seconds: tuple[int, int] = _WATCH_SECONDS,
        lossless: bool = False,
    ) -> None:
        self.lossless = lossless
        self._transport = transport
        self._caller = RetryingCaller(transport, rng=rng, rate=rate, patience=patience)
        self._watch_seconds = watch_seconds

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        what = request_paths.words("get", resource, namespace, name)
        body = await self._caller.ask(Request("GET", request_paths.object_path(resource, namespace, name)), what)
        return json_codec.decode_object(resource, body, what)

    async def pages(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        selection: ListSelector = EVERYTHING,
        chunk: int = 500,
        at_least: str | None = None,
    ) -> AsyncGenerator[Page[T], None]:
        what = request_paths.words("list", resource, namespace)
        path = resource.path(namespace)
        query = request_paths.selected(selection) | ({"limit": str(chunk)} if chunk else {})
        following = query | request_paths.not_older_than(at_least)
        while True:
            body = await self._caller.ask(Request("GET", path, following), what)
            page = json_codec.decode_list(resource, body, what)
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
        selection: ListSelector = EVERYTHING,
        chunk: int = 500,
    ) -> Page[T]:
        # A list whose moment is compacted away between two pages twice over is asked for in one piece.
        for size in (chunk,) * _CHUNKED_LISTS:
            try:
                return await self._joined(resource, namespace, selection, size)
            except errors.Gone:
                continue
        return await self._joined(resource, namespace, selection, 0)

    async def _joined(self, resource: Resource[T], namespace: str, selection: ListSelector, chunk: int) -> Page[T]:
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
        selection: ListSelector = EVERYTHING,
        seconds: int | None = None,
    ) -> AsyncGenerator[Sequence[WatchEvent[T]], None]:
        what = request_paths.words("watch", resource, namespace)
        lasting = seconds if seconds is not None else self._lasting()
        bookmarks = {} if self.lossless else {"allowWatchBookmarks": "true"}
        query = {"watch": "true", "timeoutSeconds": str(lasting)} | bookmarks
        query |= request_paths.selected(selection) | ({"resourceVersion": since} if since else {})
        request = Request("GET", resource.path(namespace), query, timeout=lasting + _WATCH_MARGIN)
        await self._caller.turn()
        try:
            async with watch_decoder.closed_after(self._transport.stream(request)) as batches:
                async for lines in batches:
                    events, error = watch_decoder.read_batch(resource, lines, what)
                    if events:
                        yield events
                    if error is not None:
                        raise error
        except StreamRejected as refused:
            raise status_errors.from_response(refused.response, what) from refused

    def _lasting(self) -> int:
        """Bounded: a connection that died without a word would otherwise look like a quiet cluster for ever."""
        return _FOR_EVER if self.lossless else self._caller.rng.randint(*self._watch_seconds)

    async def create(self, resource: Resource[T], body: Body, namespace: str = "", *, dry_run: bool = False) -> T:
        written = json_codec.whole_object(resource, body)
        name, inside = request_paths.address(written)
        where = namespace or inside
        what = request_paths.words("create", resource, where, name)
        request = request_paths.post_request(resource.path(where), request_paths.writing(dry_run), written)
        return json_codec.decode_object(resource, await self._caller.ask(request, what), what)

    async def replace(self, resource: Resource[T], body: Body, *, subresource: str = "", dry_run: bool = False) -> T:
        written = json_codec.whole_object(resource, body)
        name, namespace = request_paths.address(written)
        what = request_paths.words("replace", resource, namespace, name, subresource)
        path = request_paths.object_path(resource, namespace, name, subresource)
        request = Request("PUT", path, request_paths.writing(dry_run), json_codec.encode(written))
        return json_codec.decode_object(resource, await self._caller.ask(request, what), what)

    async def patch(
        self, resource: Resource[T], name: str, patch: Patch, namespace: str = "", *, subresource: str = ""
    ) -> T:
        what = request_paths.words("patch", resource, namespace, name, subresource)
        request = request_paths.patch_request(
            resource, request_paths.object_path(resource, namespace, name, subresource), patch
        )
        return json_codec.decode_object(resource, await self._caller.ask(request, what), what)

    async def delete(
        self,
        resource: Resource[Any],
        name: str,
        namespace: str = "",
        *,
        how: Deletion = Deletion(),  # noqa: B008 - frozen
    ) -> None:
        options = json_codec.encode({"apiVersion": "v1", "kind": "DeleteOptions"} | request_paths.deletion_options(how))
        request = Request("DELETE", request_paths.object_path(resource, namespace, name), body=options)
        await self._caller.ask(request, request_paths.words("delete", resource, namespace, name))

    async def bind(self, pod: str, namespace: str, binding: Binding) -> None:
        body = request_paths.binding_body(pod, namespace, binding)
        path = request_paths.object_path(PODS, namespace, pod, "binding")
        request = request_paths.post_request(path, request_paths.writing(False), body)
        await self._caller.ask(request, request_paths.words("bind", PODS, namespace, pod))

    async def evict(self, pod: str, namespace: str, *, how: Deletion = Deletion()) -> None:  # noqa: B008 - frozen
        body = request_paths.eviction_body(pod, namespace, how)
        request = Request(
            "POST",
            request_paths.object_path(PODS, namespace, pod, "eviction"),
            request_paths.writing(False),
            json_codec.encode(body),
        )
        # 429 is a disruption budget's answer here, and it is the caller who knows whether to wait.
        await self._caller.ask(request, request_paths.words("evict", PODS, namespace, pod), retry_when_busy=False)

    async def scale(self, resource: Resource[Any], name: str, namespace: str, replicas: int) -> None:
        patch = MergePatch({"spec": {"replicas": replicas}})
        request = request_paths.patch_request(
            resource, request_paths.object_path(resource, namespace, name, "scale"), patch
        )
        await self._caller.ask(request, request_paths.words("scale", resource, namespace, name))

    async def read_scale(self, resource: Resource[Any], name: str, namespace: str) -> int:
        what = request_paths.words("read the scale of", resource, namespace, name)
        body = await self._caller.ask(
            Request("GET", request_paths.object_path(resource, namespace, name, "scale")), what
        )
        return json_codec.decode_as(_Scale, body, what).spec.replicas

    async def discover(self) -> ServedResources:
        return await discovery.discover(self._caller)

    async def close(self) -> None:
        await self._transport.close()
