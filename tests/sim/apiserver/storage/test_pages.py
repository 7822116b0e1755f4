"""Lists in pages: all of one moment, until that moment is forgotten."""

import pytest

from tests.sim.apiserver.asking import MAPS, Client, HandClock
from ullage.sim.apiserver.server import SimulatedApiServer
from ullage.testing.builders import a_config_map


def fill(client: Client, *names: str) -> None:
    for name in names:
        assert (
            client.post(MAPS, a_config_map(name, labels={"parity": "odd" if ord(name) % 2 else "even"})).status == 201
        )


def names_of(page: dict[str, object]) -> list[str]:
    items = page["items"]
    assert isinstance(items, list)
    return [item["metadata"]["name"] for item in items]


def test_pages_show_the_moment_of_the_first(client: Client) -> None:
    fill(client, *"bcdef")
    first = client.get(MAPS, limit="2").body
    assert names_of(first) == ["b", "c"]
    assert first["metadata"]["remainingItemCount"] == 3

    fill(client, "a", "g")
    client.delete(f"{MAPS}/d")
    client.merge(f"{MAPS}/e", {"data": {"x": "later"}})

    second = client.get(MAPS, limit="2", **{"continue": first["metadata"]["continue"]}).body
    assert names_of(second) == ["d", "e"]
    assert "x" not in second["items"][1].get("data", {})
    third = client.get(MAPS, limit="2", **{"continue": second["metadata"]["continue"]}).body
    assert names_of(third) == ["f"]
    assert "continue" not in third["metadata"]
    moments = {page["metadata"]["resourceVersion"] for page in (first, second, third)}
    assert len(moments) == 1


def test_a_forgotten_moment_is_gone_but_the_rest_can_be_had(client: Client) -> None:
    fill(client, *"abcd")
    first = client.get(MAPS, limit="2").body
    client.delete(f"{MAPS}/c")
    client.server.compact()
    gone = client.get(MAPS, limit="2", **{"continue": first["metadata"]["continue"]})
    assert (gone.status, gone.body["reason"]) == (410, "Expired")
    rest = client.get(MAPS, limit="2", **{"continue": gone.body["metadata"]["continue"]})
    assert names_of(rest.body) == ["d"]


def test_history_is_kept_up_to_a_number_of_changes(clock: HandClock) -> None:
    client = Client(SimulatedApiServer(clock, history=3))
    fill(client, *"abc")
    asked = client.get(MAPS).body["metadata"]["resourceVersion"]
    for value in "123":
        client.merge(f"{MAPS}/a", {"data": {"x": value}})
    exactly = {"resourceVersion": asked, "resourceVersionMatch": "Exact"}
    assert "data" not in client.get(MAPS, **exactly).body["items"][0]
    client.merge(f"{MAPS}/a", {"data": {"x": "4"}})
    assert client.get(MAPS, **exactly).status == 410


@pytest.mark.parametrize(
    ("query", "names"),
    [
        pytest.param({"labelSelector": "parity=odd"}, ["a", "c", "e"], id="label"),
        pytest.param({"labelSelector": "parity!=odd"}, ["b", "d"], id="not-label"),
        pytest.param({"fieldSelector": "metadata.name=c"}, ["c"], id="name"),
        pytest.param({"fieldSelector": "metadata.name!=c", "labelSelector": "parity in (odd)"}, ["a", "e"], id="both"),
        pytest.param({"fieldSelector": "metadata.namespace=other"}, [], id="another-namespace"),
        pytest.param({"resourceVersion": "0", "limit": "1"}, ["a", "b", "c", "d", "e"], id="version-0-has-no-pages"),
    ],
)
def test_selection(client: Client, query: dict[str, str], names: list[str]) -> None:
    fill(client, *"abcde")
    assert names_of(client.get(MAPS, **query).body) == names


def test_a_page_of_a_selection_does_not_say_how_much_is_left(client: Client) -> None:
    fill(client, *"abcde")
    page = client.get(MAPS, labelSelector="parity=odd", limit="2").body
    assert names_of(page) == ["a", "c"]
    assert "remainingItemCount" not in page["metadata"]
    rest = client.get(MAPS, labelSelector="parity=odd", limit="2", **{"continue": page["metadata"]["continue"]})
    assert names_of(rest.body) == ["e"]


def test_lists_are_in_the_order_of_namespace_and_name(client: Client) -> None:
    for namespace in ("b", "a-b", "a"):
        client.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
        for name in ("y", "x"):
            client.post(f"/api/v1/namespaces/{namespace}/configmaps", a_config_map(name))
    everywhere = client.get("/api/v1/configmaps").body["items"]
    found = [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in everywhere]
    assert found == [(ns, name) for ns in ("a-b", "a", "b") for name in ("x", "y")]
    assert names_of(client.get("/api/v1/namespaces/a/configmaps").body) == ["x", "y"]
