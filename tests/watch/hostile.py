"""An API server that serves one resource and does to a watch whatever can be done to it; and a reader that checks."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ullage.errors import Unreachable
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.transport import Request, Response, StreamRejected
from ullage.model.fact_event import Added, Deleted, FactEvent, ObjectKey, Synced, Updated


class Mishap(StrEnum):
    """What may happen to a watch."""

    CLOSE = "the server ends it"
    BREAK = "the connection breaks"
    REFUSE = "the server cannot be reached for a while"
    COMPACT = "history is forgotten, and the watch broken"
    COMPACT_SPOKEN = "history is forgotten, and the watch is told so in a line"
    GARBAGE = "a line is no JSON"
    REPLAY = "the next watch repeats old lines"
    HANG = "it falls silent for ever"
    BOOKMARK = "a bookmark comes"


def a_thing(name: str, uid: str, version: int, value: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": name, "uid": uid, "resourceVersion": str(version)},
        "data": {"value": value},
    }


@dataclass(slots=True)
class _Watch:
    news: asyncio.Event
    mishap: Mishap | None = None


@dataclass(slots=True)
class HostileServer:
    """A transport. Objects are ConfigMaps with one value; `happen` does something to every watch that is open."""

    things: dict[str, JsonObject] = field(default_factory=dict)
    version: int = 100
    oldest: int = 0
    unreachable_until: float = 0.0
    refusals: list[Response] = field(default_factory=list)
    """Answers to the next requests, whatever they ask."""
    asked: list[str] = field(default_factory=list)
    """list, next page, watch: in the order they were asked for."""
    lists: list[tuple[str | None, str | None]] = field(default_factory=list)
    """Of each first page: not older than what, and how many at a time."""
    torn_pages: int = 0
    """So many times a second page finds its moment compacted away."""
    _history: list[tuple[int, str, JsonObject]] = field(default_factory=list)
    _watches: list[_Watch] = field(default_factory=list)
    _replay: bool = False

    def put(self, name: str, value: str) -> None:
        """Create it, or change it if there is one."""
        self.version += 1
        known = self.things.get(name)
        uid = known["metadata"]["uid"] if known else f"uid-{self.version}"
        self.things[name] = a_thing(name, uid, self.version, value)
        self._log("MODIFIED" if known else "ADDED", self.things[name])

    def delete(self, name: str) -> None:
        if (thing := self.things.pop(name, None)) is not None:
            self.version += 1
            meta = thing["metadata"] | {"resourceVersion": str(self.version)}
            self._log("DELETED", thing | {"metadata": meta})

    def happen(self, mishap: Mishap) -> None:
        if mishap in (Mishap.COMPACT, Mishap.COMPACT_SPOKEN):
            self.version += 1  # as if something else was written
            self.oldest = self.version
        if mishap is Mishap.REFUSE:
            self.unreachable_until = asyncio.get_running_loop().time() + 20
        if mishap is Mishap.REPLAY:
            self._replay = True
        for watch in self._watches:
            watch.mishap = mishap
            watch.news.set()

    def _log(self, change: str, thing: JsonObject) -> None:
        self._history.append((self.version, change, thing))
        for watch in self._watches:
            watch.news.set()

    async def send(self, request: Request) -> Response:
        if (refusal := self._refusal(request)) is not None:
            return refusal
        token = request.query.get("continue", "")
        names = sorted(self.things)[int(token.partition("@")[2] or 0) :]
        if token and self.torn_pages:
            self.torn_pages -= 1
            return status(410)
        limit = int(request.query.get("limit", "0")) or len(names)
        follows = f"page@{limit}" if len(names) > limit and not token else ""
        shown = names[:limit] if follows else names
        meta = {"resourceVersion": str(self.version), "continue": follows}
        return Response(
            200,
            json.dumps({"kind": "PodList", "metadata": meta, "items": [self.things[name] for name in shown]}).encode(),
        )

    async def stream(self, request: Request) -> AsyncIterator[Sequence[bytes]]:
        if (refusal := self._refusal(request)) is not None:
            raise StreamRejected(refusal)
        position = int(request.query["resourceVersion"])
        if position < self.oldest:
            raise StreamRejected(status(410))
        if self._replay:
            self._replay, position = False, max(self.oldest, position - 5)
        watch = _Watch(asyncio.Event())
        self._watches.append(watch)
        try:
            while True:
                lines = [line(change, thing) for at, change, thing in self._history if at > position]
                position = self.version
                if lines:
                    yield lines
                mishap, watch.mishap = watch.mishap, None
                if mishap is None:
                    watch.news.clear()
                    await watch.news.wait()
                    continue
                async for batch in self._suffer(mishap):
                    yield batch
                if mishap not in (Mishap.BOOKMARK, Mishap.REPLAY):
                    return
        finally:
            self._watches.remove(watch)

    async def _suffer(self, mishap: Mishap) -> AsyncIterator[Sequence[bytes]]:
        match mishap:
            case Mishap.BREAK | Mishap.REFUSE | Mishap.COMPACT:
                raise Unreachable("the connection broke")
            case Mishap.COMPACT_SPOKEN:
                yield [line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})]
            case Mishap.GARBAGE:
                yield [b'{"type": "MODIFIED", "object": <html>']
            case Mishap.HANG:
                await asyncio.Event().wait()
            case Mishap.BOOKMARK:
                yield [line("BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}})]

    def _refusal(self, request: Request) -> Response | None:
        kind = "watch" if "watch" in request.query else "next page" if "continue" in request.query else "list"
        self.asked.append(kind)
        if kind == "list":
            self.lists.append((request.query.get("resourceVersion"), request.query.get("limit")))
        if asyncio.get_running_loop().time() < self.unreachable_until:
            raise Unreachable("connection refused")
        return self.refusals.pop(0) if self.refusals else None

    async def close(self) -> None:
        return None


def line(change: str, thing: JsonObject) -> bytes:
    return json.dumps({"type": change, "object": thing}).encode()


def status(code: int) -> Response:
    return Response(code, json.dumps({"kind": "Status", "code": code, "message": f"status {code}"}).encode())


class Reader:
    """Takes events in as a cache would, and fails on one that does not follow from those before it."""

    def __init__(self) -> None:
        self.view: dict[ObjectKey, tuple[str, str]] = {}
        self.syncs = 0
        self.events: list[FactEvent[tuple[str, str]]] = []
        self._uids: list[str] = []

    def deliver(self, event: FactEvent[tuple[str, str]]) -> None:
        self.events.append(event)
        match event:
            case Added(key, new):
                assert key not in self.view, f"{key} appeared twice"
                assert new[0] not in self._uids, f"{new[0]} was new before"
                self._uids.append(new[0])
                self.view[key] = new
            case Updated(key, old, new):
                assert self.view[key] == old != new
                assert old[0] == new[0]
                self.view[key] = new
            case Deleted(key, old):
                assert self.view.pop(key) == old
            case Synced():
                self.syncs += 1

    @property
    def values(self) -> dict[str, str]:
        return {key.name: value for key, (_, value) in self.view.items()}


def read(thing: JsonObject) -> tuple[str, str]:
    """uid and value."""
    return thing["metadata"]["uid"], thing["data"]["value"]
