"""Label selectors: the string syntax and what it matches."""

import pytest

from ullage.model.selector import Operator, Requirement, Selector, parse_selector

LABELS = {"app": "web", "tier": "front", "gpus": "8", "empty": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        pytest.param("", True, id="nothing-asked-matches-all"),
        pytest.param("app=web", True, id="equal"),
        pytest.param("app==web", True, id="double-equal"),
        pytest.param("app=db", False, id="other-value"),
        pytest.param("app!=db", True, id="not-equal"),
        pytest.param("missing!=db", True, id="not-equal-matches-an-absent-key"),
        pytest.param("app in (web, db)", True, id="in"),
        pytest.param("app notin (web,db)", False, id="not-in"),
        pytest.param("missing notin (web)", True, id="not-in-matches-an-absent-key"),
        pytest.param("app", True, id="exists"),
        pytest.param("missing", False, id="does-not-exist"),
        pytest.param("!missing", True, id="absent-as-asked"),
        pytest.param("!app", False, id="present-though-absence-asked"),
        pytest.param("empty=", True, id="empty-value"),
        pytest.param("gpus>4", True, id="greater"),
        pytest.param("gpus<4", False, id="less"),
        pytest.param("tier>4", False, id="compare-of-a-word-is-false"),
        pytest.param("app=web,tier in (front,back),!old", True, id="all-must-hold"),
        pytest.param("app=web,tier=back", False, id="one-fails"),
        pytest.param(" app = web , tier = front ", True, id="spaces"),
    ],
)
def test_matches(text: str, matches: bool) -> None:
    assert parse_selector(text).matches(LABELS) is matches


@pytest.mark.parametrize("text", ["=web", "app in web", "app in (a", "a b", "app=web,", "app=-x", "key in ()x"])
def test_refuses_and_names_the_part(text: str) -> None:
    with pytest.raises(ValueError, match="as a label requirement"):
        parse_selector(text)


def test_an_empty_in_matches_nothing() -> None:
    assert not Selector((Requirement("app", Operator.IN),)).matches(LABELS)
