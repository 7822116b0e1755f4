"""Lines of a watch as typed events, and every way in which a watch can end."""

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import pytest

from tests.kube.scripted import Batch, ScriptedTransport, a_pod, an_event, api_over, refused, status
from ullage import errors
from ullage.kube.client.api import ListSelector, WatchEvent, WatchEventType
from ullage.kube.client.resources import CONFIG_MAPS, PODS
from ullage.kube.objects.pod import KubePod
from ullage.sim.virtual_time import run_virtual

ADDED = an_event("ADDED", a_pod("a", "5"))
# A real bookmark of pods has null where our struct wants a list.
BOOKMARK = an_event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "9"}, "spec": {"containers": None}})


def watched(batches: list[Batch], **how: Any) -> tuple[list[Sequence[WatchEvent[KubePod]]], Exception | None]:
    """The batches a reader gets, and the error that ends the watch."""
    seen: list[Sequence[WatchEvent[KubePod]]] = []

    async def story() -> Exception | None:
        try:
            async for batch in api_over(ScriptedTransport(batches=batches)).watch(PODS, since="1", **how):
                seen.append(batch)  # noqa: PERF401 - what came before an error counts
        except errors.ApiError as error:
            return error
        return None

    return seen, run_virtual(story())


def test_events_come_in_the_batches_they_arrived_in() -> None:
    seen, error = watched([[ADDED, an_event("MODIFIED", a_pod("a", "6"))], [an_event("DELETED", a_pod("a", "7"))]])
    assert error is None
    assert [[(event.change, event.resource_version) for event in batch] for batch in seen] == [
        [(WatchEventType.ADDED, "5"), (WatchEventType.MODIFIED, "6")],
        [(WatchEventType.DELETED, "7")],
    ]
    thing = seen[0][0].object
    assert isinstance(thing, KubePod)
    assert thing.metadata.name == "a"


def test_a_bookmark_is_a_moment_without_an_object() -> None:
    seen, _ = watched([[BOOKMARK]])
    assert seen == [[WatchEvent(WatchEventType.BOOKMARK, None, "9")]]


@pytest.mark.parametrize(
    ("line", "kind", "text"),
    [
        pytest.param(b"not json at all", errors.Unreadable, "watch pods: a line .* begins b'not json", id="garbage"),
        pytest.param(ADDED[:-9], errors.Unreadable, "watch pods: a line of the watch is not an event", id="cut-short"),
        pytest.param(b"[]", errors.Unreadable, "watch pods", id="not-an-object"),
        pytest.param(b'{"type":"ADDED"}', errors.Unreadable, "watch pods", id="no-object"),
        pytest.param(an_event("NEWS", a_pod("a")), errors.Unreadable, "unknown type 'NEWS'", id="unknown-type"),
        pytest.param(
            an_event("ADDED", {"metadata": {"name": 3}}), errors.Unreadable, "not a readable Pod", id="wrong-fields"
        ),
        pytest.param(an_event("ADDED", {}), errors.Unreadable, "no resourceVersion", id="object-of-nothing"),
        pytest.param(
            an_event("BOOKMARK", {"metadata": None}), errors.Unreadable, "watch pods", id="bookmark-of-nothing"
        ),
        pytest.param(
            an_event("ERROR", {"code": 410, "reason": "Expired", "message": "too old resource version: 1 (9)"}),
            errors.Gone,
            "too old resource version",
            id="410",
        ),
        pytest.param(
            an_event("ERROR", {"code": 500, "reason": "InternalError", "message": "oops"}),
            errors.ServerFailure,
            "oops",
            id="500",
        ),
        pytest.param(an_event("ERROR", {"code": 429}), errors.TooManyRequests, "watch pods: .*429", id="429"),
        pytest.param(an_event("ERROR", {"code": "x"}), errors.Unreadable, "without a readable status", id="no-status"),
    ],
)
def test_a_line_that_is_no_event_ends_the_watch_by_name(line: bytes, kind: type[errors.ApiError], text: str) -> None:
    seen, error = watched([[ADDED, line, ADDED]])
    assert type(error) is kind
    assert error is not None
    with pytest.raises(kind, match=text):
        raise error
    # What came before the bad line was good: a reader resumes after it.
    assert [[event.resource_version for event in batch] for batch in seen] == [["5"]]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        pytest.param(status(410, "Expired", "too old"), errors.Gone, id="410"),
        pytest.param(status(403, "Forbidden", "no"), errors.Forbidden, id="403"),
        pytest.param(status(429, "TooManyRequests", "later"), errors.TooManyRequests, id="429"),
    ],
)
def test_a_refused_watch_raises_what_it_was_refused_with(answer: Any, kind: type[errors.ApiError]) -> None:
    seen, error = watched([refused(answer)])
    assert seen == []
    assert type(error) is kind


def test_a_broken_connection_ends_the_watch_after_what_arrived() -> None:
    seen, error = watched([[ADDED], errors.Unreachable("cut")])
    assert len(seen) == 1
    assert isinstance(error, errors.Unreachable)


def test_what_is_asked() -> None:
    transport = ScriptedTransport()

    async def story() -> None:
        watch = api_over(transport).watch(PODS, "n", since="7", selection=ListSelector("a=b", "c=d"), seconds=60)
        assert [batch async for batch in watch] == []

    run_virtual(story())
    (request,) = transport.requests
    assert request.path == "/api/v1/namespaces/n/pods"
    assert dict(request.query) == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "60",
        "resourceVersion": "7",
        "labelSelector": "a=b",
        "fieldSelector": "c=d",
    }
    assert request.timeout is not None
    assert 60 < request.timeout <= 120


def test_a_watch_always_ends_and_not_all_at_once() -> None:
    transport = ScriptedTransport()

    async def story() -> None:
        api = api_over(transport)
        for _ in range(20):
            async for _ in api.watch(PODS, since="7"):
                pass

    run_virtual(story())
    lasting = [int(request.query["timeoutSeconds"]) for request in transport.requests]
    assert all(300 <= seconds <= 600 for seconds in lasting)
    assert len(set(lasting)) > 10


def test_plain_objects_are_watched_too() -> None:
    async def story() -> list[WatchEvent[dict[str, Any]]]:
        api = api_over(ScriptedTransport(batches=[[an_event("ADDED", a_pod("c", "5") | {"data": {"k": "v"}})]]))
        return [event async for batch in api.watch(CONFIG_MAPS, since="1") for event in batch]

    (event,) = run_virtual(story())
    assert event.object is not None
    assert event.object["data"] == {"k": "v"}
    assert event.resource_version == "5"


def test_leaving_early_closes_the_stream() -> None:
    transport = ScriptedTransport(batches=[[ADDED], [ADDED]])

    async def story() -> None:
        async with aclosing(api_over(transport).watch(PODS, since="1")) as watch:
            async for _ in watch:
                break
        assert transport.streams_closed == 1

    run_virtual(story())
