"""One grammar of durations, and the pattern that custom resources carry agrees with the reader."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.model.duration import PATTERN, parse_duration, read_duration, write_duration
from ullage.model.units import Seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90.0),
        ("1h30m", 5400.0),
        ("250ms", 0.25),
        ("2d", 172_800.0),
        (5, 5.0),
        ("1.5h", 5400.0),
        ("1m1h", 3660.0),
    ],
)
def test_times(text: str | float, seconds: float) -> None:
    assert read_duration(text) == seconds
    assert read_duration(write_duration(Seconds(seconds))) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "s", "5", "10 m", "-5s", -1, True, None, "1h 5", "1h5", "1s.5", ".5s", [], float("nan"), float("inf"), "5s\n"],
)
def test_what_is_no_time(text: object) -> None:
    assert read_duration(text) is None


@given(st.from_regex(r"[0-9.dhms ]{0,8}", fullmatch=True))
def test_the_pattern_of_custom_resources_takes_what_is_read(text: str) -> None:
    assert (re.fullmatch(PATTERN, text) is not None) == (read_duration(text) is not None)


def test_an_error_has_the_text_in_it() -> None:
    with pytest.raises(ValueError, match="'soon' is not a duration such as 30s, 10m or 1h30m"):
        parse_duration("soon")
