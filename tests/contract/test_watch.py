"""Watches: every change after a moment, once, in order; bookmarks; moments that are gone."""

import asyncio

from tests.contract.expect import refused
from tests.contract.kinds import CONFIG_MAP, POD, UNKNOWN, WIDGET, a_widget
from tests.contract.steps import ended, read_watch, told, uid, version, widgets_served
from tests.contract.worlds import Forget
from ullage.errors import Gone, NotFound
from ullage.kube.client.api import DELETE_NOW, Binding, KubeApi, ListSelector, MergePatch, WatchEvent, WatchEventType
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import PODS
from ullage.testing.builders import a_config_map, a_pod, with_meta

ADDED, MODIFIED, DELETED = WatchEventType.ADDED, WatchEventType.MODIFIED, WatchEventType.DELETED


async def now(api: KubeApi, ns: str) -> str:
    return (await api.list(CONFIG_MAP, ns)).resource_version


async def change(api: KubeApi, ns: str, name: str, **data: str) -> None:
    await api.patch(CONFIG_MAP, name, MergePatch({"data": data}), ns)


async def test_life_of_an_object_is_told_in_order(api: KubeApi, ns: str) -> None:
    start = await now(api, ns)
    made = await api.create(CONFIG_MAP, a_config_map("a", x="1"), ns)
    changed = await api.patch(CONFIG_MAP, "a", MergePatch({"data": {"x": "2"}}), ns)
    await api.delete(CONFIG_MAP, "a", ns)
    events = await read_watch(api, CONFIG_MAP, ns, start, count=3)
    assert told(events) == [(ADDED, "a"), (MODIFIED, "a"), (DELETED, "a")]
    assert [event.object for event in events[:2]] == [made, changed]


async def test_event_carries_the_version_of_its_object(api: KubeApi, ns: str) -> None:
    start = await now(api, ns)
    made = await api.create(CONFIG_MAP, a_config_map("a"), ns)
    (event,) = await read_watch(api, CONFIG_MAP, ns, start, count=1)
    assert event.resource_version == version(made)


async def test_deletion_has_the_last_state_and_a_later_version(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, a_config_map("a", x="1"), ns)
    start = await now(api, ns)
    await api.delete(CONFIG_MAP, "a", ns)
    (event,) = await read_watch(api, CONFIG_MAP, ns, start, count=1)
    assert event.object is not None
    assert (event.change, event.object["data"], uid(event.object)) == (DELETED, {"x": "1"}, uid(made))
    assert int(event.resource_version) > int(version(made))


async def test_watch_hears_what_happens_while_it_listens(api: KubeApi, ns: str) -> None:
    heard = asyncio.create_task(read_watch(api, CONFIG_MAP, ns, await now(api, ns), count=2))
    await asyncio.sleep(0.05)
    await api.create(CONFIG_MAP, a_config_map("a"), ns)
    await change(api, ns, "a", x="1")
    assert told(await heard) == [(ADDED, "a"), (MODIFIED, "a")]


async def test_resumed_watch_neither_repeats_nor_skips(api: KubeApi, ns: str) -> None:
    start = await now(api, ns)
    for name in ("a", "b", "c"):
        await api.create(CONFIG_MAP, a_config_map(name), ns)
    first = (await read_watch(api, CONFIG_MAP, ns, start, count=3))[0]
    rest = await read_watch(api, CONFIG_MAP, ns, first.resource_version, count=2)
    assert told(rest) == [(ADDED, "b"), (ADDED, "c")]


async def test_watch_of_any_moment_begins_with_what_there_is(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, a_config_map("a", x="1"), ns)
    await change(api, ns, "a", x="2")
    events = await read_watch(api, CONFIG_MAP, ns, "0", count=1)
    assert events[0].change is ADDED
    assert events[0].object is not None
    assert uid(events[0].object) == uid(made)


async def test_other_namespaces_are_not_heard(api: KubeApi, ns: str) -> None:
    start = await now(api, ns)
    await api.create(CONFIG_MAP, a_config_map(f"{ns}-x"), "default")
    await api.delete(CONFIG_MAP, f"{ns}-x", "default")
    await api.create(CONFIG_MAP, a_config_map("a"), ns)
    assert told(await read_watch(api, CONFIG_MAP, ns, start, count=1)) == [(ADDED, "a")]


async def test_watch_without_a_namespace_hears_all(api: KubeApi, ns: str) -> None:
    start = await now(api, ns)
    mark = {"contract": ns}
    await api.create(CONFIG_MAP, a_config_map(f"{ns}-x", labels=mark), "default")
    await api.create(CONFIG_MAP, a_config_map("a", labels=mark), ns)
    chosen = ListSelector(labels=f"contract={ns}")
    events = await read_watch(api, CONFIG_MAP, "", start, count=2, selection=chosen)
    await api.delete(CONFIG_MAP, f"{ns}-x", "default")
    assert told(events) == [(ADDED, f"{ns}-x"), (ADDED, "a")]


async def test_other_kinds_are_not_heard(api: KubeApi, ns: str) -> None:
    start = await now(api, ns)
    await api.create(POD, a_pod("pod"), ns)
    await api.create(CONFIG_MAP, a_config_map("a"), ns)
    assert told(await read_watch(api, CONFIG_MAP, ns, start, count=1)) == [(ADDED, "a")]


async def test_entering_and_leaving_a_selection_is_birth_and_death(api: KubeApi, ns: str) -> None:
    start = await now(api, ns)
    await api.create(CONFIG_MAP, a_config_map("a"), ns)
    for value in ("yes", "yes-still", "no", "yes"):
        labels = {"chosen": "yes" if value.startswith("yes") else "no"}
        await api.patch(CONFIG_MAP, "a", MergePatch({"metadata": {"labels": labels}, "data": {"x": value}}), ns)
    await api.delete(CONFIG_MAP, "a", ns)
    events = await read_watch(api, CONFIG_MAP, ns, start, count=5, selection=ListSelector(labels="chosen=yes"))
    assert [event.change for event in events] == [ADDED, MODIFIED, DELETED, ADDED, DELETED]


async def test_object_leaving_a_selection_is_shown_as_it_was_inside(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, a_config_map("a", labels={"chosen": "yes"}, x="1"), ns)
    start = await now(api, ns)
    patch = MergePatch({"metadata": {"labels": {"chosen": "no"}}, "data": {"x": "2"}})
    left = await api.patch(CONFIG_MAP, "a", patch, ns)
    (event,) = await read_watch(api, CONFIG_MAP, ns, start, count=1, selection=ListSelector(labels="chosen=yes"))
    assert event.object is not None
    assert (event.change, event.object["data"]) == (DELETED, {"x": "1"})
    assert event.resource_version == version(left), "but at the moment it left"


async def test_binding_takes_a_pod_out_of_the_unbound(api: KubeApi, ns: str, node: str) -> None:
    start = await now(api, ns)
    await api.create(POD, a_pod("a"), ns)
    await api.bind("a", ns, Binding(node))
    unbound = ListSelector(fields="spec.nodeName=")
    assert told(await read_watch(api, POD, ns, start, count=2, selection=unbound)) == [(ADDED, "a"), (DELETED, "a")]


async def test_binding_brings_a_pod_to_those_of_its_node(api: KubeApi, ns: str, node: str) -> None:
    start = await now(api, ns)
    await api.create(POD, a_pod("a"), ns)
    await api.bind("a", ns, Binding(node))
    on_node = ListSelector(fields=f"spec.nodeName={node}")
    assert told(await read_watch(api, POD, ns, start, count=1, selection=on_node)) == [(ADDED, "a")]


async def test_write_that_changes_nothing_is_not_told(api: KubeApi, ns: str) -> None:
    made = await api.create(CONFIG_MAP, a_config_map("a", x="1"), ns)
    start = await now(api, ns)
    await api.replace(CONFIG_MAP, made)
    await change(api, ns, "a", x="1")
    await change(api, ns, "a", x="2")
    (event,) = await read_watch(api, CONFIG_MAP, ns, start, count=1)
    assert event.object is not None
    assert event.object["data"] == {"x": "2"}


async def test_dry_run_is_not_told(api: KubeApi, ns: str) -> None:
    start = await now(api, ns)
    await api.create(CONFIG_MAP, a_config_map("a"), ns, dry_run=True)
    await api.create(CONFIG_MAP, a_config_map("b"), ns)
    assert told(await read_watch(api, CONFIG_MAP, ns, start, count=1)) == [(ADDED, "b")]


async def test_held_deletion_is_a_change_and_then_a_deletion(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, with_meta(a_config_map("a"), finalizers=["ullage.dev/hold"]), ns)
    start = await now(api, ns)
    await api.delete(CONFIG_MAP, "a", ns)
    await api.patch(CONFIG_MAP, "a", MergePatch({"metadata": {"finalizers": None}}), ns)
    going, gone = await read_watch(api, CONFIG_MAP, ns, start, count=2)
    assert (going.change, gone.change) == (MODIFIED, DELETED)
    assert going.object is not None
    assert going.object["metadata"]["deletionTimestamp"]


async def test_graceful_deletion_of_a_pod_is_a_change_and_then_a_deletion(api: KubeApi, ns: str, node: str) -> None:
    await api.create(POD, a_pod("a", nodeName=node), ns)
    start = await now(api, ns)
    await api.delete(POD, "a", ns)
    await api.delete(POD, "a", ns, how=DELETE_NOW)
    events = await read_watch(api, POD, ns, start, count=2)
    assert told(events)[0] == (MODIFIED, "a")
    assert told(await read_watch(api, POD, ns, start, count=3))[-1] == (DELETED, "a")


async def test_status_writes_are_told(api: KubeApi, ns: str) -> None:
    await api.create(POD, a_pod("a"), ns)
    start = await now(api, ns)
    await api.patch(POD, "a", MergePatch({"status": {"phase": "Running"}}), ns, subresource="status")
    (event,) = await read_watch(api, POD, ns, start, count=1)
    assert event.object is not None
    assert (event.change, event.object["status"]["phase"]) == (MODIFIED, "Running")


async def test_watch_reads_as_the_struct_of_its_resource(api: KubeApi, ns: str) -> None:
    start = await now(api, ns)
    await api.create(POD, a_pod("a", gpus=1), ns)
    async with ended(api.watch(PODS, ns, since=start, seconds=20)) as stream:
        (event, *_) = await anext(stream)
    assert event.object is not None
    assert event.object.spec.containers[0].resources.limits == {"nvidia.com/gpu": "1"}


async def test_parallel_writes_are_each_told_once_in_one_order(api: KubeApi, ns: str) -> None:
    start = await now(api, ns)
    made = await asyncio.gather(*(api.create(CONFIG_MAP, a_config_map(f"item-{i}"), ns) for i in range(20)))
    events = await read_watch(api, CONFIG_MAP, ns, start, count=20)
    versions = [int(event.resource_version) for event in events]
    assert versions == sorted(int(version(one)) for one in made)
    again = await read_watch(api, CONFIG_MAP, ns, start, count=20)
    assert told(again) == told(events)


async def test_two_watchers_hear_the_same(api: KubeApi, ns: str) -> None:
    start = await now(api, ns)
    listeners = [asyncio.create_task(read_watch(api, CONFIG_MAP, ns, start, count=4)) for _ in range(2)]
    await asyncio.sleep(0.05)
    for name in ("a", "b"):
        await api.create(CONFIG_MAP, a_config_map(name), ns)
        await change(api, ns, name, x="1")
    first, second = await asyncio.gather(*listeners)
    assert told(first) == told(second) == [(ADDED, "a"), (MODIFIED, "a"), (ADDED, "b"), (MODIFIED, "b")]


async def test_list_and_watch_fit_together(api: KubeApi, ns: str) -> None:
    await api.create(CONFIG_MAP, a_config_map("before"), ns)
    page = await api.list(CONFIG_MAP, ns)
    await api.create(CONFIG_MAP, a_config_map("after"), ns)
    events = await read_watch(api, CONFIG_MAP, ns, page.resource_version, count=1)
    assert told(events) == [(ADDED, "after")]


async def test_watch_ends_when_its_time_is_over(api: KubeApi, ns: str) -> None:
    start = await now(api, ns)
    async with asyncio.timeout(15):
        batches = [batch async for batch in api.watch(CONFIG_MAP, ns, since=start, seconds=1)]
    assert told([event for batch in batches for event in batch]) == []


async def test_bookmark_before_the_end_says_how_far_the_server_is(api: KubeApi, ns: str) -> None:
    heard = asyncio.create_task(read_to_bookmark(api, ns, await now(api, ns)))
    await asyncio.sleep(0.1)
    elsewhere = await api.create(CONFIG_MAP, a_config_map(f"{ns}-x"), "default")
    (bookmark,) = await heard
    await api.delete(CONFIG_MAP, f"{ns}-x", "default")
    assert (bookmark.change, bookmark.object) == (WatchEventType.BOOKMARK, None)
    assert int(bookmark.resource_version) >= int(version(elsewhere))


async def read_to_bookmark(api: KubeApi, ns: str, since: str) -> list[WatchEvent[JsonObject]]:
    """All events up to the bookmark that is sent about two seconds before the end of a watch."""
    seen: list[WatchEvent[JsonObject]] = []
    async with ended(api.watch(CONFIG_MAP, ns, since=since, seconds=4)) as stream:
        async for batch in stream:
            seen += batch
            if seen[-1].change is WatchEventType.BOOKMARK:
                break
    return seen


async def test_moment_before_all_history_is_gone(api: KubeApi, ns: str, forget_history: Forget) -> None:
    await widgets_served(api)
    await forget_history()
    with refused(Gone, reason="Expired", says="too old resource version"):
        await read_watch(api, WIDGET, ns, "1", count=1)


async def test_forgotten_moment_is_gone(api: KubeApi, ns: str, forget_history: Forget) -> None:
    await widgets_served(api)
    made = await api.create(WIDGET, a_widget("a"), ns)
    await api.patch(WIDGET, "a", MergePatch({"spec": {"size": 2}}), ns)
    await forget_history()
    with refused(Gone, reason="Expired", says="too old resource version"):
        await read_watch(api, WIDGET, ns, version(made), count=1)


async def test_fresh_list_is_the_way_on_after_gone(api: KubeApi, ns: str, forget_history: Forget) -> None:
    await widgets_served(api)
    await api.create(WIDGET, a_widget("a"), ns)
    await forget_history()
    page = await api.list(WIDGET, ns)
    await api.create(WIDGET, a_widget("b"), ns)
    assert told(await read_watch(api, WIDGET, ns, page.resource_version, count=1)) == [(ADDED, "b")]


async def test_watch_of_a_kind_nobody_serves_is_not_found(api: KubeApi, ns: str) -> None:
    with refused(NotFound, reason=""):
        await read_watch(api, UNKNOWN, ns, "1", count=1)
