"""Informers against a server that breaks every promise but those a list and a watch make."""

import asyncio
import itertools
import random

import pytest

from tests.watch.hostile import Mishap, Reader, read, status
from tests.watch.listening import Fact, a_server, listening, one_key
from ullage.errors import ApiError, Forbidden, Unauthorized, Unreachable, Unreadable
from ullage.kube.client.resource import JsonObject
from ullage.kube.client.resources import CONFIG_MAPS
from ullage.kube.client.rest import RestApi
from ullage.kube.client.transport import Response
from ullage.model.fact_event import Added, Deleted, Synced, Updated
from ullage.sim.virtual_time import loop_clock, run_virtual
from ullage.watch.informer import Informer, InformerSpec, InformerTiming, run_all, wait_all_synced


def test_a_list_then_every_change_in_order() -> None:
    async def story() -> None:
        async with listening(a_server("a", "b")) as world:
            await world.informer.wait_synced()
            uid = {name: thing["metadata"]["uid"] for name, thing in world.server.things.items()}
            world.server.put("b", "2")
            world.server.put("c", "1")
            world.server.delete("a")
            await asyncio.sleep(1)
            assert world.reader.events == [
                Added(one_key("a"), (uid["a"], "1")),
                Added(one_key("b"), (uid["b"], "1")),
                Synced("configmaps"),
                Updated(one_key("b"), (uid["b"], "1"), (uid["b"], "2")),
                Added(one_key("c"), (world.server.things["c"]["metadata"]["uid"], "1")),
                Deleted(one_key("a"), (uid["a"], "1")),
            ]
            assert dict(world.informer.facts) == world.reader.view
            assert len(world.informer.facts) == 2
            assert one_key("a") not in world.informer.facts

    run_virtual(story())


def test_a_long_list_comes_in_pages_and_is_told_whole() -> None:
    async def story() -> None:
        async with listening(a_server(*"abcdefgh"), chunk=5) as world:
            await world.informer.wait_synced()
            assert world.server.asked[:2] == ["list", "next page"]
            assert "".join(world.reader.values) == "abcdefgh"

    run_virtual(story())


def test_after_a_gap_only_the_differences_are_told() -> None:
    async def story() -> None:
        async with listening(a_server("same", "changed", "gone", "replaced")) as world:
            await world.informer.wait_synced()
            told = len(world.reader.events)
            world.server.unreachable_until = 5.0
            world.server.happen(Mishap.BREAK)
            await asyncio.sleep(1)
            world.server.put("changed", "2")
            world.server.delete("gone")
            world.server.delete("replaced")
            world.server.put("replaced", "1")
            world.server.put("new", "1")
            world.server.happen(Mishap.COMPACT)
            await asyncio.sleep(60)
            kinds = [(type(event).__name__, event.key.name) for event in world.reader.events[told:-1]]  # type: ignore[union-attr]  # the last one is Synced
            assert kinds == [
                ("Deleted", "gone"),
                ("Deleted", "replaced"),
                ("Updated", "changed"),
                ("Added", "new"),
                ("Added", "replaced"),
            ]
            assert world.reader.syncs == 2
            assert world.informer.counts.gaps == 1

    run_virtual(story())


@pytest.mark.parametrize("mishap", [Mishap.CLOSE, Mishap.BREAK, Mishap.GARBAGE, Mishap.HANG, Mishap.REFUSE])
def test_a_watch_that_ends_goes_on_where_it_was(mishap: Mishap) -> None:
    async def story() -> None:
        async with listening(a_server("a")) as world:
            await world.informer.wait_synced()
            world.server.put("a", "2")
            await asyncio.sleep(1)
            world.server.happen(mishap)
            await asyncio.sleep(0.01)
            world.server.put("a", "3")
            await asyncio.sleep(300)
            assert world.reader.values == {"a": "3"}
            assert world.server.asked.count("list") == 1
            assert world.informer.counts.resumes >= 1
            assert world.informer.health.trouble is None

    run_virtual(story())


def test_a_bookmark_moves_the_place_to_resume_from() -> None:
    async def story() -> None:
        async with listening(a_server("a")) as world:
            await world.informer.wait_synced()
            world.server.version += 50
            await asyncio.sleep(1)
            world.server.happen(Mishap.BOOKMARK)
            await asyncio.sleep(1)
            world.server.oldest = world.server.version
            world.server.happen(Mishap.CLOSE)
            await asyncio.sleep(30)
            assert world.server.asked == ["list", "watch", "watch"]

    run_virtual(story())


def test_gaps_in_quick_succession_do_not_become_a_storm_of_lists() -> None:
    async def story() -> None:
        server = a_server("a")
        async with listening(server) as world:
            await world.informer.wait_synced()
            for number in range(600):
                server.put("a", f"{number}")
                server.happen(Mishap.COMPACT_SPOKEN)
                await asyncio.sleep(0.1)
            assert server.asked.count("list") < 20

    run_virtual(story())


def test_garbage_twice_in_a_row_means_a_new_list() -> None:
    async def story() -> None:
        server = a_server("a")
        async with listening(server) as world:
            await world.informer.wait_synced()
            server.put("a", "2")
            await asyncio.sleep(1)
            for _ in range(2):
                server.happen(Mishap.GARBAGE)
                await asyncio.sleep(2)
            assert server.asked == ["list", "watch", "watch", "list", "watch"]
            assert [type(error) for error in world.troubles] == [Unreadable, Unreadable]

    run_virtual(story())


def test_a_list_torn_between_pages_is_asked_for_in_one_piece_in_the_end() -> None:
    async def story() -> None:
        server = a_server(*"abcdefgh")
        server.torn_pages = 10
        async with listening(server, chunk=5) as world:
            await world.informer.wait_synced()
            assert server.asked == ["list", "next page", "list", "next page", "list", "watch"]
            assert len(world.reader.view) == 8

    run_virtual(story())


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        pytest.param(status(403), Forbidden, id="a-role-is-missing"),
        pytest.param(status(401), Unauthorized, id="the-token-expired"),
        pytest.param(Response(200, b"<html>sign in</html>"), Unreadable, id="a-portal-answers-instead"),
    ],
)
def test_trouble_is_reported_until_it_ends_and_listening_goes_on(answer: Response, trouble: type[ApiError]) -> None:
    async def story() -> None:
        server = a_server("a")
        server.refusals = [answer] * 6
        async with listening(server) as world:
            await asyncio.sleep(0.1)
            before = world.informer.health
            assert not before.synced
            assert isinstance(before.trouble, trouble)
            await asyncio.sleep(120)
            assert [type(error) for error in world.troubles] == [trouble] * 6
            after = world.informer.health
            assert after.synced
            assert after.trouble is None
            assert world.reader.values == {"a": "1"}

    run_virtual(story())


def test_waits_grow_with_each_failure_and_follow_the_servers_wish() -> None:
    async def story() -> list[float]:
        server = a_server("a")
        server.unreachable_until = 100.0
        moments = list[float]()
        async with listening(server) as world:
            seen = 0
            while server.unreachable_until > asyncio.get_running_loop().time():
                await asyncio.sleep(0.05)
                if len(world.troubles) > seen:
                    seen = len(world.troubles)
                    moments.append(asyncio.get_running_loop().time())
            server.refusals = [Response(429, b"{}", retry_after=40.0)]
            await world.informer.wait_synced()
            assert asyncio.get_running_loop().time() > 140
        return [later - earlier for earlier, later in itertools.pairwise(moments)]

    waits = run_virtual(story())
    assert waits[0] < 0.5
    assert waits[2] > waits[0]
    assert 7.4 < max(waits) < 15.1


def test_a_resync_lists_again_and_tells_only_what_was_missed() -> None:
    async def story() -> None:
        async with listening(a_server("a", "b"), pace=InformerTiming(resync=600)) as world:
            await world.informer.wait_synced()
            await asyncio.sleep(1)
            # A change the watch never spoke of.
            world.server.things["a"]["data"] = {"value": "9"}
            world.server.things["a"]["metadata"]["resourceVersion"] = "150"
            world.server.version = 150
            await asyncio.sleep(700)
            assert world.reader.values == {"a": "9", "b": "1"}
            assert world.reader.syncs == 2
            assert world.informer.counts.events == 3
            assert world.troubles == []

    run_virtual(story())


def test_a_change_that_reads_the_same_is_no_event() -> None:
    async def story() -> None:
        async with listening(a_server("a")) as world:
            await world.informer.wait_synced()
            told = len(world.reader.events)
            world.server.put("a", "1")
            await asyncio.sleep(1)
            assert len(world.reader.events) == told
            world.server.put("a", "2")
            await asyncio.sleep(1)
            assert len(world.reader.events) == told + 1

    run_virtual(story())


def test_an_object_that_makes_no_sense_keeps_its_last_fact_and_is_reported() -> None:
    def strict(thing: JsonObject) -> Fact:
        if thing["data"]["value"] == "nonsense":
            raise Unreadable("nonsense")
        return read(thing)

    async def story() -> None:
        server = a_server("a", "b")
        server.put("b", "nonsense")
        async with listening(server, read=strict) as world:
            await world.informer.wait_synced()
            assert world.reader.values == {"a": "1"}
            server.put("a", "nonsense")
            server.put("c", "1")
            await asyncio.sleep(1)
            assert world.reader.values == {"a": "1", "c": "1"}
            assert [str(error) for error in world.troubles] == [
                "configmaps default/b: nonsense",
                "configmaps default/a: nonsense",
            ]
            server.put("b", "2")
            server.happen(Mishap.COMPACT)
            await asyncio.sleep(60)
            assert world.reader.values == {"a": "1", "b": "2", "c": "1"}

    run_virtual(story())


def test_a_history_that_was_turned_back_is_believed() -> None:
    """As after etcd was restored from a backup: lower versions, and they are the truth."""

    async def story() -> None:
        async with listening(a_server("a", "b"), pace=InformerTiming(resync=600)) as world:
            await world.informer.wait_synced()
            world.server.version = 50
            world.server.delete("b")
            world.server.put("a", "before")
            world.server._history.clear()
            await asyncio.sleep(700)
            assert world.reader.values == {"a": "before"}
            world.server.put("a", "after")
            await asyncio.sleep(1)
            assert world.reader.values == {"a": "after"}

    run_virtual(story())


def test_lists_at_hand_are_never_older_than_what_was_heard() -> None:
    """The first takes what the server has; after a gap it must not be older; and a server that knows nothing so new,
    because its past was put back, is asked without."""

    async def story() -> None:
        async with listening(a_server("a", "b"), at_hand=True) as world:
            await world.informer.wait_synced()
            last_contact = str(world.server.version)
            world.server.happen(Mishap.COMPACT)
            world.server.refusals = [status(410), status(504)]
            await asyncio.sleep(60)
            assert world.server.lists == [("0", None), (last_contact, None), (None, "3")]
            assert world.reader.values == {"a": "1", "b": "1"}

    run_virtual(story())


def test_an_error_in_the_handler_ends_the_informer_loudly() -> None:
    async def story() -> None:
        def deliver(_: object) -> None:
            raise ZeroDivisionError

        api = RestApi(a_server("a"), rng=random.Random(1))
        interest = InformerSpec(CONFIG_MAPS, read)
        await Informer(api, interest, deliver, rng=random.Random(1), clock=loop_clock()).run()

    with pytest.raises(ZeroDivisionError):
        run_virtual(story())


def test_several_informers_sync_together() -> None:
    async def story() -> None:
        readers = [Reader(), Reader()]
        informers = [
            Informer(
                RestApi(a_server(*names), rng=random.Random(1)),
                InformerSpec(CONFIG_MAPS, read),
                reader.deliver,
                rng=random.Random(1),
                clock=loop_clock(),
            )
            for names, reader in zip(("abc", "xy"), readers, strict=True)
        ]
        task = asyncio.create_task(run_all(*informers))
        await wait_all_synced(*informers)
        assert [len(reader.view) for reader in readers] == [3, 2]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_virtual(story())


def test_an_unreachable_server_is_said_to_be_unreachable() -> None:
    async def story() -> None:
        server = a_server("a")
        server.unreachable_until = 10.0
        async with listening(server) as world:
            await asyncio.sleep(1)
            health = world.informer.health
            assert isinstance(health.trouble, Unreachable)
            assert health.last_contact is None
            await asyncio.sleep(30)
            assert world.informer.health.last_contact == pytest.approx(loop_clock().now() - 20, abs=20)

    run_virtual(story())
