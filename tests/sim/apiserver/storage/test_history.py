"""The watch history and the list are two views of one thing, at every moment that is kept."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.apiserver.asking import MAPS, Client, HandClock, events
from ullage.sim.apiserver.server import SimulatedApiServer
from ullage.testing.builders import a_config_map

NAMES = st.sampled_from(["a", "b", "c-d", "c", "e"])
STEP = st.one_of(
    st.tuples(st.just("create"), NAMES, st.sampled_from("123")),
    st.tuples(st.just("change"), NAMES, st.sampled_from("123")),
    st.tuples(st.just("label"), NAMES, st.sampled_from("xy")),
    st.tuples(st.just("delete"), NAMES, st.just("")),
)


def take(client: Client, step: tuple[str, str, str]) -> None:
    """One write, which may be refused."""
    verb, name, value = step
    match verb:
        case "create":
            client.post(MAPS, a_config_map(name, labels={"l": "x"}, v=value))
        case "change":
            client.merge(f"{MAPS}/{name}", {"data": {"v": value}})
        case "label":
            client.merge(f"{MAPS}/{name}", {"metadata": {"labels": {"l": value}}})
        case _:
            client.delete(f"{MAPS}/{name}")


def shown(client: Client, moment: str, **query: str) -> dict[str, Any]:
    page = client.get(MAPS, resourceVersion=moment, resourceVersionMatch="Exact", **query)
    assert page.status == 200
    return {item["metadata"]["name"]: item for item in page.body["items"]}


@settings(max_examples=60, deadline=None)
@given(st.lists(STEP, max_size=25), st.sampled_from(["", "l=x"]))
def test_replaying_the_history_gives_the_list_of_every_moment(steps: list[tuple[str, str, str]], labels: str) -> None:
    client = Client(SimulatedApiServer(HandClock(), seed=1))
    query = {"labelSelector": labels} if labels else {}
    client.get(MAPS)
    start = client.server.revision
    for step in steps:
        take(client, step)
    replayed: dict[str, Any] = {}
    seen = start
    for kind, obj in events(client.watch(MAPS, resourceVersion=str(start), **query)):
        moment, name = obj["metadata"]["resourceVersion"], obj["metadata"]["name"]
        for quiet in range(seen, int(moment)):
            assert shown(client, str(quiet), **query).keys() == replayed.keys()
        obj = {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}
        if kind == "DELETED":
            del replayed[name]
        else:
            assert (name in replayed) is (kind == "MODIFIED")
            replayed[name] = obj
        assert shown(client, moment, **query) == replayed
        seen = int(moment)
    assert shown(client, str(client.server.revision), **query) == replayed


@settings(max_examples=40, deadline=None)
@given(st.lists(STEP, max_size=15), st.lists(STEP, max_size=10), st.integers(1, 3))
def test_pages_of_a_moment_add_up_to_its_list(
    before: list[tuple[str, str, str]], between: list[tuple[str, str, str]], limit: int
) -> None:
    client = Client(SimulatedApiServer(HandClock(), seed=1))
    for step in before:
        take(client, step)
    whole = client.get(MAPS).body
    page = client.get(MAPS, limit=str(limit)).body
    found = list(page["items"])
    waiting = list(between)
    while token := page["metadata"].get("continue"):
        if waiting:
            take(client, waiting.pop())
        assert page["metadata"]["remainingItemCount"] == len(whole["items"]) - len(found)
        page = client.get(MAPS, limit=str(limit), **{"continue": token}).body
        found += page["items"]
    assert found == whole["items"]
