"""Watches: what a client hears, from when, and when the server ends it."""

import json

import pytest

from tests.sim.apiserver.asking import (
    DEFINITIONS,
    MAPS,
    WIDGETS,
    Client,
    HandClock,
    a_definition,
    a_widget,
    events,
)
from ullage.sim.apiserver.server import SimulatedApiServer
from ullage.testing.builders import a_config_map


def heard(found: list[tuple[str, dict[str, object]]]) -> list[tuple[str, object]]:
    """Type and value of `data.v` of each event."""
    return [(kind, (obj.get("data") or {}).get("v")) for kind, obj in found]  # type: ignore[attr-defined]  # JSON


def test_a_selection_sees_objects_come_and_go_that_only_changed(client: Client) -> None:
    watcher = client.watch(MAPS, resourceVersion=str(client.server.revision), labelSelector="mine=yes")
    client.post(MAPS, a_config_map("a", labels={"mine": "no"}, v="1"))
    client.merge(f"{MAPS}/a", {"metadata": {"labels": {"mine": "yes"}}, "data": {"v": "2"}})
    client.merge(f"{MAPS}/a", {"data": {"v": "3"}})
    gone = client.merge(f"{MAPS}/a", {"metadata": {"labels": {"mine": "no"}}, "data": {"v": "4"}}).body
    client.delete(f"{MAPS}/a")
    found = events(watcher)
    assert heard(found) == [("ADDED", "2"), ("MODIFIED", "3"), ("DELETED", "3")]
    assert found[-1][1]["metadata"]["resourceVersion"] == gone["metadata"]["resourceVersion"]


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}], ids=["no-version", "version-0"])
def test_without_a_moment_what_is_there_comes_first(client: Client, query: dict[str, str]) -> None:
    client.post(MAPS, a_config_map("b", v="b"))
    client.post(MAPS, a_config_map("a", v="a"))
    watcher = client.watch(MAPS, **query)
    client.merge(f"{MAPS}/a", {"data": {"v": "c"}})
    assert heard(events(watcher)) == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "c")]


def test_from_a_moment_of_the_past_everything_since(client: Client) -> None:
    since = client.post(MAPS, a_config_map("a", v="1")).body["metadata"]["resourceVersion"]
    client.merge(f"{MAPS}/a", {"data": {"v": "2"}})
    client.delete(f"{MAPS}/a")
    watcher = client.watch(MAPS, resourceVersion=since)
    client.post(MAPS, a_config_map("a", v="3"))
    assert heard(events(watcher)) == [("MODIFIED", "2"), ("DELETED", "2"), ("ADDED", "3")]


def test_a_moment_of_the_future_is_waited_for(client: Client) -> None:
    client.get(MAPS)
    watcher = client.watch(MAPS, resourceVersion=str(client.server.revision + 1))
    client.post(MAPS, a_config_map("a", v="1"))
    client.merge(f"{MAPS}/a", {"data": {"v": "2"}})
    assert heard(events(watcher)) == [("MODIFIED", "2")]


def test_a_forgotten_moment_is_an_error_line_and_the_end(client: Client) -> None:
    since = client.post(MAPS, a_config_map("a")).body["metadata"]["resourceVersion"]
    client.merge(f"{MAPS}/a", {"data": {"v": "2"}})
    oldest = client.server.compact()
    watcher = client.watch(MAPS, resourceVersion=since)
    ((kind, status),) = events(watcher)
    assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
    assert status["message"] == f"too old resource version: {since} ({oldest})"
    assert watcher.finished


def test_writes_that_change_nothing_are_not_heard(client: Client) -> None:
    before = client.post(MAPS, a_config_map("a", v="1")).body
    watcher = client.watch(MAPS, resourceVersion=before["metadata"]["resourceVersion"])
    assert client.merge(f"{MAPS}/a", {"data": {"v": "1"}}).body == before
    assert client.ask("PUT", f"{MAPS}/a", before).body == before
    assert events(watcher) == []


def test_who_does_not_keep_up_is_cut_off_after_what_was_kept_for_him(clock: HandClock) -> None:
    client = Client(SimulatedApiServer(clock, watch_buffer=3))
    client.post(MAPS, a_config_map("a", v="0"))
    slow = client.watch(MAPS, resourceVersion=str(client.server.revision))
    quick = client.watch(MAPS, resourceVersion=str(client.server.revision))
    for value in "12345":
        client.merge(f"{MAPS}/a", {"data": {"v": value}})
        assert len(events(quick)) == 1
    assert slow.closed
    assert heard(events(slow)) == [("MODIFIED", "1"), ("MODIFIED", "2"), ("MODIFIED", "3")]
    assert slow.finished
    assert not quick.closed


def test_what_is_there_at_the_beginning_never_counts_as_slowness(clock: HandClock) -> None:
    client = Client(SimulatedApiServer(clock, watch_buffer=3))
    for name in "abcde":
        client.post(MAPS, a_config_map(name))
    assert len(events(client.watch(MAPS))) == 5


def test_bookmarks_come_once_a_minute_and_before_the_end(client: Client, clock: HandClock) -> None:
    client.get(MAPS)
    asked = {"resourceVersion": str(client.server.revision), "allowWatchBookmarks": "true", "timeoutSeconds": "130"}
    watcher = client.watch(MAPS, **asked)
    start = clock.moment
    marks: list[tuple[float, str]] = []
    while not watcher.finished:
        clock.moment = max(watcher.due(), clock.moment)
        client.post("/api/v1/namespaces/default/secrets", {"metadata": {"generateName": "s-"}})
        for kind, obj in events(watcher, clock.moment):
            assert kind == "BOOKMARK"
            assert obj["metadata"]["resourceVersion"] == str(client.server.revision)
            marks.append((clock.moment - start, kind))
    assert [moment for moment, _ in marks] == [60.0, 120.0, 128.0]
    assert clock.moment == start + 130


def test_without_a_wish_a_watch_ends_after_half_an_hour_at_the_earliest(client: Client, clock: HandClock) -> None:
    watcher = client.watch(MAPS)
    assert 1800 <= watcher.due() - clock.moment <= 3600


def test_initial_events_end_with_a_marked_bookmark(client: Client) -> None:
    client.post(MAPS, a_config_map("a"))
    streaming = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    (kind, _), (mark, obj) = events(client.watch(MAPS, **streaming))
    assert (kind, mark) == ("ADDED", "BOOKMARK")
    assert obj["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_watching_one_object_by_name(client: Client) -> None:
    watcher = client.watch(f"{MAPS}/a")
    client.post(MAPS, a_config_map("a", v="1"))
    client.post(MAPS, a_config_map("b", v="2"))
    assert heard(events(watcher)) == [("ADDED", "1")]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        pytest.param({"resourceVersion": "x"}, 500, id="no-number"),
        pytest.param({"sendInitialEvents": "true"}, 422, id="initial-events-without-a-match"),
        pytest.param({"resourceVersionMatch": "Exact"}, 422, id="exact"),
        pytest.param({"fieldSelector": "data.v=1"}, 400, id="unknown-field"),
        pytest.param({"labelSelector": "=="}, 400, id="no-selector"),
    ],
)
def test_watches_that_make_no_sense_are_refused(client: Client, query: dict[str, str], status: int) -> None:
    assert client.refused_watch(MAPS, **query).status == status


def test_a_watch_of_a_custom_kind_ends_with_the_kind(client: Client) -> None:
    client.post(DEFINITIONS, a_definition({"type": "object", "x-kubernetes-preserve-unknown-fields": True}))
    client.post(WIDGETS, a_widget("a", v=1))
    watcher = client.watch(WIDGETS)
    client.delete(f"{DEFINITIONS}/widgets.example.dev")
    assert [kind for kind, _ in events(watcher)] == ["ADDED", "DELETED"]
    assert watcher.finished
    assert client.get(WIDGETS).body == "404 page not found\n"


def test_events_are_watched_in_both_spellings(client: Client) -> None:
    old = client.watch("/api/v1/events")
    new = client.watch("/apis/events.k8s.io/v1/events")
    body = {
        "metadata": {"name": "e"}, "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "ullage.dev/x",
        "reportingInstance": "x-0", "action": "Bind", "reason": "Bound", "type": "Normal", "note": "done",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "a"},
    }  # fmt: skip
    assert client.post("/apis/events.k8s.io/v1/namespaces/default/events", body).status == 201
    ((_, as_old),), ((_, as_new),) = events(old), events(new)
    assert (as_old["message"], as_old["involvedObject"]["name"]) == ("done", "a")
    assert (as_new["note"], as_new["regarding"]["name"]) == ("done", "a")


def test_lines_are_json_without_line_breaks(client: Client) -> None:
    client.post(MAPS, a_config_map("a", v="one\ntwo"))
    (line,) = client.watch(MAPS).take(0.0)
    assert b"\n" not in line
    assert json.loads(line)["object"]["data"]["v"] == "one\ntwo"
