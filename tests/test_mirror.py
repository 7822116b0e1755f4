"""The tree of tests: its folders are those of the package, and what names a test file names one there is."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import ullage
from bench.full import APART
from ullage.testing.order import KEPT

PACKAGE = Path(ullage.__file__).parent
ROOT = PACKAGE.parent
TESTS = Path(__file__).parent

NO_MIRROR = {
    "contract": "one suite on both Kubernetes APIs: the real one has no folder here",
    "contract/wire": "what only the bytes of an answer show",
    "contract/workloads": "controllers of Kubernetes, simulated and real",
    "control/draining/at_scale": "the drain loop in one cluster of many nodes: with fixtures of its own",
    "control/signals": "processes of all kinds, killed, stopped and continued",
}
"""Folders of tests that mirror nothing, and why."""

PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
_NAMED = re.compile(r"\btests/[\w/]+(?:\.py|\b)(?![\w*])")


def test_a_folder_of_tests_mirrors_one_of_the_package() -> None:
    missing = {name for name in _folders() if not _mirrored(name)}
    assert missing - NO_MIRROR.keys() == set()
    assert NO_MIRROR.keys() - missing == set(), "an exception that is not needed any more"


def test_a_file_of_tests_is_in_the_folder_of_what_it_tests() -> None:
    assert dict(_too_far_up()) == {}


def test_named_test_files_exist() -> None:
    kept = json.loads((TESTS / KEPT).read_text())
    pages = {name for page in PAGES for name in _NAMED.findall(page.read_text())}
    assert [name for name in sorted({*kept, *APART, *pages}) if not (ROOT / name).exists()] == []


def _folders() -> set[str]:
    """Folders that hold tests, as paths below `tests/`."""
    return {file.parent.relative_to(TESTS).as_posix() for file in TESTS.rglob("test_*.py")} - {"."}


def _mirrored(folder: str) -> bool:
    """True for a folder of the package, a module of it with a folder of tests, or a folder beside the package."""
    return any(one.exists() for one in (PACKAGE / folder, PACKAGE / f"{folder}.py", ROOT / folder))


def _too_far_up() -> Iterator[tuple[str, str]]:
    """Files whose imports from the package of their folder are all from one folder below it, with that folder."""
    for file in sorted(TESTS.rglob("test_*.py")):
        own = file.parent.relative_to(TESTS)
        package = PACKAGE / own
        if own == Path() or not package.is_dir():
            continue
        imported = {PACKAGE.joinpath(*name.split(".")[1:]) for name in _imports(file)}
        below = {one.relative_to(package).parts[0] for one in imported if package in one.parents}
        if len(below) == 1 and (package / next(iter(below))).is_dir():
            yield file.relative_to(ROOT).as_posix(), next(iter(below))


def _imports(file: Path) -> set[str]:
    """Modules of the package that a file imports."""
    statements = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom)]
    return {node.module for node in statements if node.module and node.module.startswith("ullage.")}
