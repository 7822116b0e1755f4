"""What a browser loads: all of it comes with the package, and it knows every word there is."""

import re
import zipfile
from pathlib import Path

import pytest

import ullage
from ullage.decide.explain.pod import ExplainedState
from ullage.model.verdict import Reason
from ullage.observe.events import EventReason
from ullage.web.serve.pages import read_assets
from ullage.web.view.rows import GpuCell

ASSETS = {name: body.decode() for name, (body, _) in read_assets().items()}
REFERENCE = re.compile(r"""(?:src|href)="([^"]+)"|from "([^"]+)"|url\(([^)]+)\)""")


def test_whatever_is_loaded_is_there() -> None:
    for name, text in ASSETS.items():
        for found in REFERENCE.findall(text):
            wanted = next(filter(None, found))
            if not wanted.startswith("#"):
                assert wanted.removeprefix("/static/").removeprefix("./") in ASSETS, f"{name} loads {wanted}"


def test_nothing_is_loaded_from_elsewhere() -> None:
    for name, text in ASSETS.items():
        addresses = [
            one for one in re.findall(r"(?:https?:)?//[\w.]+\.\w+[\w./]*", text) if "w3.org/2000/svg" not in one
        ]
        assert addresses == [], name


def test_no_script_or_style_is_in_the_page() -> None:
    page = ASSETS["index.html"]
    assert re.findall(r"<script[^>]*>", page) == ['<script type="module" src="/static/main.js">']
    assert "<style" not in page
    assert re.findall(r"\s(?:style|on\w+)=", page) == []


@pytest.mark.parametrize("reason", [*Reason, *ExplainedState])
def test_every_reason_can_be_said_in_words(reason: str) -> None:
    assert re.search(rf"^\s+{reason}: \"", ASSETS["words.js"], re.MULTILINE)


@pytest.mark.parametrize("reason", list(EventReason))
def test_every_decision_has_a_sign(reason: EventReason) -> None:
    assert re.search(rf"\b{reason.value}: \[", ASSETS["lists.js"])


@pytest.mark.parametrize("state", list(GpuCell))
def test_every_state_of_a_gpu_is_in_the_legend(state: GpuCell) -> None:
    assert f'<i class="g {state.value}">' in ASSETS["index.html"]


def _contrast(one: str, other: str) -> float:
    """As WCAG has it."""

    def light(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    bright, dark = sorted((light(one), light(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("front", "ground", "least"),
    [
        *[(text, ground, 4.5) for text in ("ink", "soft", "accent") for ground in ("panel", "ground", "faint", "isle")],
        *[(text, "panel", 4.5) for text in ("going", "warn", "bad", "good")],
        ("going", "going-ground", 4.5),
        *[
            (mark, ground, 3.0)
            for mark in ("free-edge", "leased", "shared", "reserved", "unhealthy", "focus")
            for ground in ("panel", "isle", "going-ground")
        ],
    ],
)
def test_colours_can_be_told_from_what_is_behind_them(front: str, ground: str, least: float, scheme: int) -> None:
    found = dict(re.findall(r"--([\w-]+): light-dark\((#\w{6}, #\w{6})\)", ASSETS["page.css"]))
    one, other = (found[name].split(", ")[scheme] for name in (front, ground))
    assert _contrast(one, other) >= least


def test_files_are_short_enough_to_be_read() -> None:
    assert {name for name, text in ASSETS.items() if text.count("\n") > 400} == set()


def test_the_wheel_has_them(tmp_path: Path) -> None:
    wheel = pytest.importorskip("hatchling.builders.wheel")
    root = Path(ullage.__file__).parents[1]
    if not (root / "pyproject.toml").exists():
        pytest.skip("only a source tree can be built")
    built = next(iter(wheel.WheelBuilder(str(root)).build(directory=str(tmp_path), versions=["standard"])))
    with zipfile.ZipFile(built) as archive:
        packed = {Path(name).name for name in archive.namelist() if name.startswith("ullage/web/static/")}
    assert packed == set(ASSETS)
