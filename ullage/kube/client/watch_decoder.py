"""Lines of a watch to typed events. Pure: bytes in, events or a typed error out."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec

from ullage.errors import ApiError, Unreadable
from ullage.kube.client import json_codec, status_errors
from ullage.kube.client.api import WatchEvent, WatchEventType
from ullage.kube.client.resource import Resource

T = TypeVar("T")

_CHANGES: dict[str, WatchEventType] = {change.value: change for change in WatchEventType}


def read_batch(resource: Resource[T], lines: Sequence[bytes], what: str) -> tuple[list[WatchEvent[T]], ApiError | None]:
    """The events of some lines, and the error that ends the watch after them, if one does.

    Events before a bad line are good: they are handed on first, so that a resumed watch starts after them.
    """
    events: list[WatchEvent[T]] = []
    for line in lines:
        try:
            events.append(_read_line(resource, line, what))
        except ApiError as error:
            return events, error
    return events, None


def _read_line(resource: Resource[T], line: bytes, what: str) -> WatchEvent[T]:
    try:
        raw = json_codec.decode_event(line)
        change = _CHANGES.get(raw.type)
        if change is WatchEventType.BOOKMARK:
            return WatchEvent(change, None, json_codec.decode_versioned(raw.object).metadata.resource_version)
    except msgspec.DecodeError as error:
        raise Unreadable(f"{what}: a line of the watch is not an event: {error}; it begins {line[:80]!r}") from error
    if raw.type == "ERROR":
        raise status_errors.from_error_event(raw.object, what)
    if change is None:
        raise Unreadable(f"{what}: a watch event of unknown type {raw.type!r}")
    thing = json_codec.decode_object(resource, raw.object, what)
    version = json_codec.version_of(thing)
    if not version:
        raise Unreadable(f"{what}: a watch event whose object has no resourceVersion; it begins {line[:80]!r}")
    return WatchEvent(change, thing, version)


@asynccontextmanager
async def closed_after(stream: AsyncIterator[T]) -> AsyncGenerator[AsyncIterator[T], None]:
    """The stream, closed when its reader leaves, not when the garbage collector finds it."""
    try:
        yield stream
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
