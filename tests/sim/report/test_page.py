"""The page: whole in itself, readable without seeing colours, and the same bytes for the same run."""

import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree as Xml

import pytest

from tests.sim.report.sheets import a_sheet
from ullage.sim.report.axes import linear, logarithmic_time, spoken, spoken_time, time_axis
from ullage.sim.report.comparison import ComparedDecision, compared
from ullage.sim.report.page import page

ONE, OTHER = a_sheet("plain"), a_sheet("a <b> & c", gpus={"hours": {"waste": 1.0}, "allocation": 0.9})
SAME = ComparedDecision(1.0, "scheduler", "Scheduled", "Pod default/a", "on node-1")


class _Tags(HTMLParser):
    """Every element that is opened is closed, and what they are."""

    VOID = ("meta", "path", "line", "rect", "polyline")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(text: str) -> _Tags:
    tags = _Tags()
    tags.feed(text)
    assert tags.open == []
    return tags


def test_the_page_is_whole_in_itself() -> None:
    text = page([ONE, OTHER], compared([ONE, OTHER], [[SAME], [SAME]]))
    tags = parsed(text)
    assert not re.search(r"https?:|src=|href=|url\(|@import", text)
    assert "prefers-color-scheme: dark" in text
    assert [dict(attributes).get("lang") for tag, attributes in tags.seen if tag == "html"] == ["en"]


def test_plots_have_titles_descriptions_and_figures_below() -> None:
    text = page([ONE], [])
    pictures = re.findall(r"<svg role=.*?</svg>", text, re.DOTALL)
    assert len(pictures) == 8
    for picture in pictures:
        root = Xml.fromstring(picture)
        assert root[0].tag == "title"
        assert root[0].text
        assert root[1].tag == "desc"
        assert root[1].text
        assert root.get("aria-labelledby") == f"{root[0].get('id')} {root[1].get('id')}"
    assert text.count("Figures of this plot") == 8
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_words_of_users_are_words() -> None:
    text = page([OTHER, ONE], [])
    assert "<b>" not in text.split("<script")[0]
    assert "a &lt;b&gt; &amp; c" in text
    data = json.loads(text.split('id="report">')[1].split("</script>")[0])
    assert [run["label"] for run in data["runs"]] == ["a <b> & c", "plain"]


def test_the_same_runs_are_the_same_bytes() -> None:
    assert page([ONE, OTHER], []) == page([a_sheet("plain"), OTHER], [])
    assert page([ONE], []) != page([OTHER], [])


def test_lines_are_where_values_are() -> None:
    text = page([ONE], [])
    line = re.search(r'class="line c0" points="([^"]+)"', text)
    assert line is not None
    points = [tuple(map(float, pair.split(","))) for pair in line[1].split()]
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert points[0][1] == 260.0, "nothing was given at first: on the axis"
    assert points[2][1] == min(y for _, y in points), "most was given in the third minute"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (0.25, "0.25 s"), (59, "59 s"), (90, "1.5 min"), (7200, "2 h"), (172_800, "2 d"), (1e8, "1,157 d")],
)
def test_times_are_said_in_the_largest_unit(seconds: float, said: str) -> None:
    assert spoken_time(seconds) == said


@pytest.mark.parametrize(
    ("value", "said"), [(0, "0"), (1234.5, "1,234"), (12.345, "12.3"), (0.01234, "0.0123"), (100.0, "100"), (7.0, "7")]
)
def test_numbers_have_three_digits(value: float, said: str) -> None:
    assert spoken(value) == said


@pytest.mark.parametrize("highest", [0.0, 0.3, 1.0, 7.0, 99.0, 6212.0, 1e6])
def test_axes_reach_above_all_values_in_round_steps(highest: float) -> None:
    axis = linear(highest)
    assert axis.high >= highest
    assert 2 <= len(axis.marks) <= 8
    assert axis.at(0.0) == 0.0
    assert axis.at(axis.high) == 1.0


def test_a_logarithmic_axis_holds_everything() -> None:
    axis = logarithmic_time([0.0, 3.0, 86_400.0])
    assert axis.at(0.0) == 0.0
    assert 0 < axis.at(3.0) < axis.at(86_400.0) <= 1.0


@pytest.mark.parametrize("seconds", [1.0, 100.0, 86_400.0, 149 * 86_400.0, 1e9])
def test_a_time_axis_has_few_marks(seconds: float) -> None:
    assert 1 <= len(time_axis(seconds).marks) <= 9
