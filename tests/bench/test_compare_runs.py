"""The comparison of two trees: equal worlds are equal, and a planted difference is found."""

from dataclasses import replace
from typing import Any

import pytest

from bench import recorded_world
from bench.compare_runs import changes, difference
from ullage.sim.world.run import simulate
from ullage.sim.world.spec import WorldSpec

LINES = ["1.000 scheduler pods default/a None -> n1", "2.000 scheduler pods default/b None -> n2"]
LATER = ["1.500 scheduler pods default/a None -> n1", "2.000 scheduler pods default/b None -> n2"]


@pytest.mark.parametrize(
    ("after", "ignore_times", "found"),
    [
        pytest.param(LINES, False, None, id="equal"),
        pytest.param(LATER, False, f"  - {LINES[0]}\n  + {LATER[0]}", id="later"),
        pytest.param(LATER, True, None, id="later-and-times-do-not-count"),
        pytest.param(LINES[:1], False, f"    {LINES[0]}\n  - {LINES[1]}\n  + (nothing more)", id="a-write-is-missing"),
        pytest.param([*LINES, "x"], False, f"    {LINES[0]}\n    {LINES[1]}\n  - (nothing more)\n  + x", id="one-more"),
    ],
)
def test_the_first_difference_is_shown(after: list[str], ignore_times: bool, found: str | None) -> None:
    assert difference(LINES, after, ignore_times=ignore_times) == found


@pytest.mark.parametrize(
    ("recordings", "found"),
    [
        pytest.param("aaaaaaa", [], id="no-change"),
        pytest.param("aaabbbb", ["cd"], id="one"),
        pytest.param("abbbbcc", ["ab", "ef"], id="two"),
        pytest.param("aa??bbb", ["be"], id="two-that-cannot-run-are-named-with-the-next"),
        pytest.param("a?", ["ab"], id="the-last-cannot-run"),
    ],
)
def test_commits_that_brought_a_difference_are_found(recordings: str, found: list[str]) -> None:
    known = {chr(ord("a") + place): None if one == "?" else [one] for place, one in enumerate(recordings)}
    assert changes(list(known), known.__getitem__) == [tuple(pair) for pair in found]


@pytest.mark.full
@pytest.mark.story
def test_another_policy_is_a_difference_and_the_same_tree_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    before = recorded_world.recorded(1)
    assert difference(before, recorded_world.recorded(1)) is None

    def planted(spec: WorldSpec, *args: Any, **more: Any) -> Any:
        spread = replace(spec.settings.scheduling, policy="spread")
        return simulate(replace(spec, settings=replace(spec.settings, scheduling=spread)), *args, **more)

    monkeypatch.setattr(recorded_world, "simulate", planted)
    found = difference(before, recorded_world.recorded(1))
    assert found is not None
    assert "scheduler" in found
