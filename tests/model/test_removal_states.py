"""States of a removal: every step of ours is an edge of the lifecycle, and another step is refused."""

from itertools import pairwise

import pytest

from ullage.model.lifecycle import IllegalTransition
from ullage.model.lifecycles import REMOVAL, REMOVAL_ENDED
from ullage.model.lifecycles import RemovalState as R

WALKS = {
    "removed": (R.PLANNED, R.TAINTED, R.EVICTING, R.EMPTY, R.DELETING, R.REMOVED),
    "nothing-to-evict": (R.PLANNED, R.TAINTED, R.EMPTY, R.DELETING, R.REMOVED),
    "left-to-its-owner": (R.PLANNED, R.TAINTED, R.EVICTING, R.EMPTY, R.LEFT_TO_OWNER),
    "the-cloud-does-not-answer": (R.PLANNED, R.TAINTED, R.EMPTY, R.DELETING, R.MACHINE_UNKNOWN),
}


@pytest.mark.parametrize("walk", WALKS.values(), ids=WALKS)
def test_a_removal_walks_along_edges(walk: tuple[R, ...]) -> None:
    for start, end in pairwise(walk):
        assert REMOVAL.advance("n", start, end) is end


@pytest.mark.parametrize("state", [one for one in REMOVAL.states if one not in REMOVAL_ENDED])
def test_a_removal_can_be_abandoned_from_every_state(state: R) -> None:
    assert REMOVAL.advance("n", state, R.RELEASED) is R.RELEASED


@pytest.mark.parametrize(("start", "end"), [(R.PLANNED, R.EVICTING), (R.TAINTED, R.DELETING), (R.EVICTING, R.REMOVED)])
def test_a_step_that_skips_a_check_is_refused(start: R, end: R) -> None:
    with pytest.raises(IllegalTransition, match="is not in the table"):
        REMOVAL.advance("n", start, end)
