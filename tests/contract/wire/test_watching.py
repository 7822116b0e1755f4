"""Watches over HTTP: as objects, as tables, with what is there first, and to their end."""

import asyncio
from typing import Any

from tests.contract.wire.asking import TABLE, Wire

MAPS = "/api/v1/namespaces/{ns}/configmaps"
FROM_THE_START = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


async def made(wire: Wire, name: str) -> Any:
    return (await wire.post(MAPS, {"metadata": {"name": name}, "data": {"a": "1"}})).body


async def test_changes_come_as_they_happen(wire: Wire) -> None:
    first = await made(wire, "a")
    since = first["metadata"]["resourceVersion"]
    seen = asyncio.ensure_future(wire.lines(f"{MAPS}?watch=true&resourceVersion={since}&timeoutSeconds=20", 2))
    await made(wire, "b")
    await wire.ask("DELETE", MAPS + "/b")
    found = [(line["type"], line["object"]["metadata"]["name"]) for line in await seen]
    assert found == [("ADDED", "b"), ("DELETED", "b")]


async def test_what_is_there_comes_first_and_its_end_is_marked(wire: Wire) -> None:
    await made(wire, "a")
    await made(wire, "b")
    lines = await wire.lines(f"{MAPS}?watch=true{FROM_THE_START}&timeoutSeconds=20&fieldSelector=metadata.name!=x", 3)
    assert [line["type"] for line in lines] == ["ADDED", "ADDED", "BOOKMARK"]
    assert sorted(line["object"]["metadata"]["name"] for line in lines[:2]) == ["a", "b"]
    assert lines[2]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_watch_of_tables_names_the_columns_once(wire: Wire) -> None:
    first = await made(wire, "a")
    since = first["metadata"]["resourceVersion"]
    await made(wire, "b")
    await made(wire, "c")
    lines = await wire.lines(f"{MAPS}?watch=true&resourceVersion={since}&timeoutSeconds=20", 2, TABLE)
    tables = [line["object"] for line in lines]
    assert [table["kind"] for table in tables] == ["Table", "Table"]
    assert [column["name"] for column in tables[0]["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert tables[1]["columnDefinitions"] is None
    assert [table["rows"][0]["cells"][:2] for table in tables] == [["b", 1], ["c", 1]]
    assert [table["rows"][0]["object"]["metadata"]["name"] for table in tables] == ["b", "c"]


async def test_a_bookmark_in_a_watch_of_tables_is_a_table(wire: Wire) -> None:
    (line,) = await wire.lines(f"{MAPS}?watch=true{FROM_THE_START}&timeoutSeconds=20&labelSelector=none", 1, TABLE)
    assert (line["type"], line["object"]["kind"]) == ("BOOKMARK", "Table")
    carried = line["object"]["rows"][0]["object"]["metadata"]
    assert carried["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_watch_ends_when_its_time_is_over(wire: Wire) -> None:
    since = (await wire.get(MAPS)).body["metadata"]["resourceVersion"]
    async with asyncio.timeout(15):
        assert await wire.lines(f"{MAPS}?watch=true&resourceVersion={since}&timeoutSeconds=1", 1) == []


async def test_one_object_is_watched_by_name(wire: Wire) -> None:
    await made(wire, "a")
    await made(wire, "b")
    (line,) = await wire.lines(f"{MAPS}?watch=true&fieldSelector=metadata.name%3Db&timeoutSeconds=20", 1)
    assert line["object"]["metadata"]["name"] == "b"


async def test_a_watch_that_makes_no_sense_is_refused(wire: Wire) -> None:
    told = await wire.get(MAPS + "?watch=true&sendInitialEvents=true")
    assert (told.status, told.body["reason"]) == (422, "Invalid")
