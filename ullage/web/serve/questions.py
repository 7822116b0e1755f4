"""Questions a page asks once: why is this object as it is, what was at that time. GET only."""

import asyncio
import math
from collections.abc import Awaitable, Callable

from aiohttp import web

from ullage.model.fact_event import ObjectKey
from ullage.web.history.answers import LONGEST_AROUND, LONGEST_RANGE, MOST_POINTS, HistoryAnswers
from ullage.web.view.answers import ANSWERED, CLUSTER_WIDE

Explain = Callable[[ObjectKey], Awaitable[bytes | None]]
"""Verdict of every node on a pod, as JSON; None if there is no such pod."""
Answer = Callable[[str, ObjectKey], Awaitable[bytes | None]]
"""Answer about an object of a kind, as JSON; None if there is no such object."""

PATIENCE = 30.0
"""Seconds an answer may take."""
FAR = 10_000_000_000.0
"""Largest instant that is understood."""


class PageQuestions:
    """Handlers of questions."""

    def __init__(self, explain: Explain, answer: Answer, past: HistoryAnswers | None = None) -> None:
        self._explain = explain
        self._answer = answer
        self._past = past

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/explain/{namespace}/{name}", self.explanation),
            web.get("/api/answer/{kind}/{name}", self.answer),
            web.get("/api/answer/{kind}/{namespace}/{name}", self.answer),
            web.get("/api/history", self.history),
            web.get("/api/moment", self.at_instant),
        ]

    async def explanation(self, request: web.Request) -> web.Response:
        """Explanation of a pod."""
        key = ObjectKey(request.match_info["namespace"], request.match_info["name"])
        return await _answered(self._explain(key), f"pod {key}")

    async def answer(self, request: web.Request) -> web.Response:
        """Answer about a claim, gang, quota, pool or node."""
        kind, key = request.match_info["kind"], _key(request)
        if kind not in ANSWERED or bool(key.namespace) == (kind in CLUSTER_WIDE):
            return web.Response(status=404, text=f"there is no {kind} {key}\n")
        return await _answered(self._answer(kind, key), f"{kind} {key}")

    async def history(self, request: web.Request) -> web.Response:
        """Series of a time: `from`, `to` in seconds since the epoch, `points`."""
        if self._past is None:
            return _no_history()
        begin, end = _number(request, "from"), _number(request, "to")
        points = _number(request, "points", 240.0)
        if not begin < end <= begin + LONGEST_RANGE:
            raise web.HTTPBadRequest(text="to: must be after from, and at most 400 days\n")
        if not 1 <= points <= MOST_POINTS:
            raise web.HTTPBadRequest(text=f"points: from 1 to {MOST_POINTS}\n")
        return await _answered(self._past.range(begin, end, int(points)), "history")

    async def at_instant(self, request: web.Request) -> web.Response:
        """The fleet at `at`, and what changed `around` seconds before and after it."""
        if self._past is None:
            return _no_history()
        at, around = _number(request, "at"), _number(request, "around", 600.0)
        if not 1 <= around <= LONGEST_AROUND:
            raise web.HTTPBadRequest(text=f"around: from 1 to {LONGEST_AROUND:.0f} seconds\n")
        return await _answered(self._past.at_instant(at, around), "moment")


def _key(request: web.Request) -> ObjectKey:
    return ObjectKey(request.match_info.get("namespace", ""), request.match_info["name"])


def _no_history() -> web.Response:
    return web.Response(status=404, text="no history is kept here\n")


def _number(request: web.Request, name: str, default: float | None = None) -> float:
    """A number of the query. Raises HTTPBadRequest that names it."""
    text = request.query.get(name)
    if text is None and default is not None:
        return default
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or not 0 <= value <= FAR:
        raise web.HTTPBadRequest(text=f"{name}: a number of seconds is needed\n")
    return value


async def _answered(asking: Awaitable[bytes | None], what: str) -> web.Response:
    try:
        async with asyncio.timeout(PATIENCE):
            said = await asking
    except TimeoutError:
        return web.Response(status=503, text="the cluster is too busy to say\n")
    if said is None:
        return web.Response(status=404, text=f"there is no {what}\n")
    return web.Response(body=said, content_type="application/json")
