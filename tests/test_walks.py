"""The walks of docs/ARCHITECTURE.md: every file and name on them exists, so that they cannot rot."""

import ast
import re
from pathlib import Path

import pytest

import ullage

PACKAGE = Path(ullage.__file__).parent
PAGE = PACKAGE.parent / "docs" / "ARCHITECTURE.md"
STEPS = sorted(set(re.findall(r"`([\w/]+\.py)::([\w.]+)`", PAGE.read_text(encoding="utf-8"))))


def names(file: Path) -> set[str]:
    """Top-level names of a module, and `Class.method` of its classes."""
    found: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            functions = (one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
            found |= {f"{node.name}.{one.name}" for one in functions}
    return found


def test_there_are_walks() -> None:
    assert len(STEPS) > 25


@pytest.mark.parametrize(("file", "name"), STEPS, ids=lambda part: part)
def test_a_step_exists(file: str, name: str) -> None:
    assert (PACKAGE / file).is_file(), f"docs/ARCHITECTURE.md names {file}, which is gone: correct the walk"
    assert name in names(PACKAGE / file), f"docs/ARCHITECTURE.md names {file}::{name}, which is gone: correct the walk"
