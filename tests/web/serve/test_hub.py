"""Patches to browsers: each once, in order, from where they were; who cannot keep up is let go."""

import json

import pytest

from ullage.web.serve.hub import KEPT, MOST_BEHIND, MOST_LISTENERS, BrowserStream, PatchHub, TooMany
from ullage.web.view.patch import PageSection, ViewPatch
from ullage.web.view.rows import NodeRow

Frame = tuple[str, str, dict[str, object]]
"""Id, event, data."""


def patch(number: int, *gone: str) -> ViewPatch:
    rows: dict[str, NodeRow | None] = {f"n{number}": NodeRow(name=f"n{number}")}
    return ViewPatch(now=float(number), sections={PageSection.NODES: {**rows, **dict.fromkeys(gone)}})


async def taken(listener: BrowserStream, count: int) -> list[Frame]:
    """What waits for a browser."""
    found: list[Frame] = []
    frames = listener.frames(quiet=5.0)
    while len(found) < count:
        text = (await anext(frames)).decode()
        fields = dict(line.split(": ", 1) for line in text.strip().splitlines())
        found.append((fields["id"], fields["event"], json.loads(fields["data"])))
    return found


async def test_a_newcomer_gets_everything_and_then_patches() -> None:
    hub = PatchHub("x")
    hub.publish(patch(1))
    hub.publish(patch(2, "n1"))
    with hub.listening("") as listener:
        hub.publish(patch(3))
        frames = await taken(listener, 2)
    assert [(one[0], one[1]) for one in frames] == [("x.2", "snapshot"), ("x.3", "patch")]
    assert frames[0][2]["nodes"] == {"n2": {"name": "n2"}}
    assert frames[1][2] == {"now": 3.0, "nodes": {"n3": {"name": "n3"}}}


async def test_who_comes_back_gets_what_was_missed_and_nothing_else() -> None:
    hub = PatchHub("x")
    for number in range(1, 6):
        hub.publish(patch(number))
    with hub.listening("x.3") as listener:
        frames = await taken(listener, 2)
    assert [(one[0], one[1]) for one in frames] == [("x.4", "patch"), ("x.5", "patch")]


async def test_who_missed_nothing_gets_nothing_at_first() -> None:
    hub = PatchHub("x")
    hub.publish(patch(1))
    with hub.listening("x.1") as listener:
        hub.publish(patch(2))
        assert [one[:2] for one in await taken(listener, 1)] == [("x.2", "patch")]


@pytest.mark.parametrize("last", ["y.3", "x.99", "x.", "x.-1", "nonsense", "x.1"])
async def test_who_was_away_too_long_or_elsewhere_gets_everything(last: str) -> None:
    hub = PatchHub("x")
    for number in range(KEPT + 5):
        hub.publish(patch(number))
    with hub.listening(last) as listener:
        assert (await taken(listener, 1))[0][1] == "snapshot"


async def test_who_does_not_take_what_it_is_given_is_let_go() -> None:
    hub = PatchHub("x")
    hub.publish(patch(0))
    with hub.listening("") as slow, hub.listening("") as fast:
        await taken(fast, 1)
        for number in range(1, MOST_BEHIND + 2):
            hub.publish(patch(number))
            await taken(fast, 1)
        assert (slow.left_behind, fast.left_behind) == (True, False)
        assert [frame async for frame in slow.frames(quiet=5.0)] == []


async def test_silence_is_broken_now_and_then() -> None:
    with PatchHub("x").listening("x.0") as listener:
        assert (await anext(listener.frames(quiet=0.01))).startswith(b":")


async def test_as_many_listen_as_may() -> None:
    hub = PatchHub("x")
    doors = [hub.listening("") for _ in range(MOST_LISTENERS)]
    for door in doors:
        door.__enter__()
    with pytest.raises(TooMany), hub.listening(""):
        pass
    doors[0].__exit__(None, None, None)
    with hub.listening(""):
        assert hub.listeners == MOST_LISTENERS
