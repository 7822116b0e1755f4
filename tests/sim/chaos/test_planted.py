"""Planted bugs: each patch fits the tree, and chaos finds the bug that it puts back."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from bench import planted as bench_planted
from ullage.errors import UserError
from ullage.sim.chaos.run import play
from ullage.sim.chaos.story import read_story
from ullage.testing.planted_bugs import BugFound, PlantedBug, planted_bugs, planted_tree, replay, why_not_applied

ROOT = Path(__file__).parents[3]
BUGS = planted_bugs(Path(__file__).parent / "planted")
CHEAPEST = [one for one in BUGS if one.name in ("claim-not-protected", "mig-instance-not-leased")]
"""Played by every run: their stories end after seconds."""


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_each_patch_fits_the_tree(bug: PlantedBug) -> None:
    """A patch that does not fit is made anew: `git apply --3way` shows what is in its way."""
    assert not why_not_applied(bug, ROOT)


def test_a_patch_says_what_it_breaks(tmp_path: Path) -> None:
    (tmp_path / "a.patch").write_text("diff\n")
    with pytest.raises(UserError, match=r"a\.patch: its first two lines"):
        planted_bugs(tmp_path)


def test_a_patch_that_does_not_fit_is_told(tmp_path: Path) -> None:
    diff = "--- a/ullage/errors.py\n+++ b/ullage/errors.py\n@@ -1 +1 @@\n-no such line\n+x\n"
    patch = f"Bug: none.\nBreaks: nothing\n\n{diff}"
    (tmp_path / "a.patch").write_text(patch)
    (bug,) = planted_bugs(tmp_path)
    assert "ullage/errors.py" in why_not_applied(bug, ROOT)
    with pytest.raises(UserError, match="a does not apply"), planted_tree(bug, ROOT):
        pass


def _is_found(bug: PlantedBug) -> None:
    with planted_tree(bug, ROOT) as tree:
        found = replay(tree, bug.story)
    assert found is not None, f"its own story does not show it: {bug.summary}"
    assert found in bug.breaks


@pytest.mark.story
@pytest.mark.fault
@pytest.mark.parametrize("bug", CHEAPEST, ids=lambda bug: bug.name)
def test_the_story_of_a_cheap_bug_finds_it(bug: PlantedBug) -> None:
    _is_found(bug)


@pytest.mark.story
@pytest.mark.fault
@pytest.mark.full
@pytest.mark.parametrize("bug", [one for one in BUGS if one not in CHEAPEST], ids=lambda bug: bug.name)
def test_the_story_of_each_bug_finds_it(bug: PlantedBug) -> None:
    _is_found(bug)


@pytest.mark.story
@pytest.mark.fault
@pytest.mark.full
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_without_its_bug_a_story_passes(bug: PlantedBug) -> None:
    assert play(read_story(bug.story.read_bytes(), bug.name)).failure is None


def test_a_search_is_kept_for_its_tree_and_a_bug_that_seeds_find_by_another_promise_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`bench.planted` plays the seeds; here a few of its own words stand for them."""
    (tmp_path / "a.patch").write_text("Bug: a.\nBreaks: one promise; another\n")
    (tmp_path / "b.patch").write_text("Bug: b.\nBreaks: one promise\n")
    answers = [BugFound(5, "another", "x"), BugFound(7, "another", "x"), BugFound(3, "another", "x")]
    monkeypatch.setattr(bench_planted, "_fails_anyway", lambda found: found.seed == 5)
    monkeypatch.setattr(bench_planted, "PATCHES", tmp_path)
    monkeypatch.setattr(bench_planted, "KEPT", tmp_path / "planted.json")
    monkeypatch.setattr(bench_planted, "planted_tree", lambda *_: nullcontext(tmp_path))
    monkeypatch.setattr(bench_planted, "search", lambda *_, **__: answers.pop(0))
    assert bench_planted.main([]) == 1
    told = ["a: found, seed 7: another", "b: NOT FOUND: another promise broke, seed 3: another"]
    assert capsys.readouterr().out.splitlines() == told
    assert bench_planted.main([]) == 1
    assert capsys.readouterr().out.splitlines() == told
    answers.append(BugFound(3, "one promise", "x"))
    (tmp_path / "b.patch").write_text("Bug: b, again.\nBreaks: one promise\n")
    assert bench_planted.main([]) == 0
