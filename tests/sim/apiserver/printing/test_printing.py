"""Parts of tables: ages in few letters, and the paths of custom columns."""

from typing import Any

import pytest

from ullage.sim.apiserver.printing.ages import human_duration, since
from ullage.sim.apiserver.printing.jsonpath import BadPath, compiled

M, H, D, Y = 60, 3600, 86_400, 31_536_000


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (-1, "0s"), (0, "0s"), (1.9, "1s"), (119, "119s"),
        (2 * M, "2m"), (2 * M + 5, "2m5s"), (10 * M - 1, "9m59s"), (10 * M + 30, "10m"), (3 * H - 1, "179m"),
        (3 * H, "3h"), (3 * H + 61, "3h1m"), (8 * H, "8h"), (47 * H, "47h"), (2 * D, "2d"), (2 * D + H, "2d1h"),
        (8 * D, "8d"), (700 * D, "700d"), (2 * Y, "2y"), (2 * Y + D, "2y1d"), (9 * Y, "9y"),
    ],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


@pytest.mark.parametrize(
    ("moment", "text"), [("2026-01-01T00:00:00Z", "90s"), (None, "<unknown>"), ("", "<unknown>"), ("soon", "<invalid>")]
)
def test_ages(moment: str | None, text: str) -> None:
    assert since(moment, 1_767_225_690.0) == text


THING: Any = {
    "a": {"b.c/d": 1, "e": [{"n": "x", "v": 1}, {"n": "y", "v": 2}]},
    "deep": {"v": 3},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.e[0].n", ["x"]),
        (".a.e[-1].v", [2]),
        (".a.e[5].n", []),
        (".a.e[*].v", [1, 2]),
        (".a.b\\.c/d", [1]),
        (".a['b.c/d']", [1]),
        ('.a.e[?(@.n=="y")].v', [2]),
        (".a.e[?(@.v!=1)].n", ["y"]),
        ("..v", [1, 2, 3]),
        (".nothing.here", []),
        ("$.deep.v", [3]),
        ("deep.v", [3]),
    ],
)
def test_paths(path: str, found: list[Any]) -> None:
    assert compiled(path)(THING) == found


def test_what_is_no_path_is_said() -> None:
    with pytest.raises(BadPath, match="unrecognized"):
        compiled(".a[x")
