"""A certificate that is played in pieces: what goes on, what begins anew, and what its figures say."""

from pathlib import Path

import pytest

from bench.fidelity import FidelityRun, PlayedStory, begun, figures, write
from ullage.sim.fidelity.compare import FidelityReport
from ullage.testing.fidelity.calibration import QUIET
from ullage.testing.fidelity.stories import STORIES


def played(number: int, *, same: int = 10, wait: float = 3.0) -> PlayedStory:
    report = FidelityReport(
        story=f"{number:02} apart",
        single=10,
        single_same=same,
        bursts=1,
        bursts_same=1,
        bought=(1, 1),
        removed=(1, 1),
        wait=(3.0, wait),
        differences=("p1: somewhere else",) if same < 10 else (),
    )
    return PlayedStory(number=number, report=report, latency=QUIET, load=0.5)


@pytest.mark.parametrize(
    ("tree", "stories", "kept"),
    [
        pytest.param("now", 3, 3, id="goes-on-on-its-tree"),
        pytest.param("before", 3, 0, id="begins-anew-on-another"),
        pytest.param("now", STORIES, 0, id="begins-anew-when-all-are-played"),
    ],
)
def test_a_run_that_was_cut_off_goes_on(tree: str, stories: int, kept: int, tmp_path: Path) -> None:
    there = FidelityRun(tree=tree, stories=[played(number, same=9) for number in range(stories)])
    write(there, tmp_path / "kept.json")
    found = begun("now", tmp_path / "kept.json")
    assert found.stories == there.stories[:kept]
    assert found.missing == list(range(kept, STORIES))


def test_nothing_is_kept_at_first(tmp_path: Path) -> None:
    assert begun("now", tmp_path / "kept.json") == FidelityRun(tree="now")


def test_what_an_older_program_kept_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "kept.json").write_text('{"tree": "now", "stories": [{"number": 1, "wait": 3.0}]}')
    assert begun("now", tmp_path / "kept.json") == FidelityRun(tree="now")


@pytest.mark.parametrize(
    ("last", "broken"),
    [
        pytest.param(played(19), set(), id="all-alike"),
        pytest.param(played(19, same=8), set(), id="one-of-a-hundred-elsewhere"),
        pytest.param(played(19, same=7), {"placements with the same node and GPUs"}, id="more-than-that"),
        pytest.param(played(19, wait=3.2), {"stories whose median wait agrees"}, id="a-wait"),
    ],
)
def test_figures_say_what_was_promised_and_broken(last: PlayedStory, broken: set[str]) -> None:
    found = figures([*(played(number) for number in range(STORIES - 1)), last])
    assert {one.name for one in found if not one.holds} == broken
