"""What a browser loads: all of it comes with the package, and it knows every word there is."""

import re
import zipfile
from pathlib import Path

import pytest

import ullage
from ullage.decide.explaining import Outcome
from ullage.model.verdict import Reason
from ullage.observe.events import EventReason
from ullage.web.serve.app import read_assets
from ullage.web.view.rows import GpuState

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


@pytest.mark.parametrize("reason", [*Reason, *Outcome])
def test_every_reason_can_be_said_in_words(reason: str) -> None:
    assert re.search(rf"^\s+{reason}: \"", ASSETS["words.js"], re.MULTILINE)


@pytest.mark.parametrize("reason", list(EventReason))
def test_every_decision_has_a_sign(reason: EventReason) -> None:
    assert re.search(rf"\b{reason.value}: \[", ASSETS["lists.js"])


@pytest.mark.parametrize("state", list(GpuState))
def test_every_state_of_a_gpu_is_in_the_legend(state: GpuState) -> None:
    assert f'<i class="g {state.value}">' in ASSETS["index.html"]


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
