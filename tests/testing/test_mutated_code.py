"""Mutants in live functions: whoever has imported one sees the change, and nothing else changes."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ullage.testing.mutants import Mutant, MutantKind, mutants_of
from ullage.testing.mutated_code import changes_code, put_in

SOURCE = """LIMIT = 1 + 2


def plain(a, b=1 + 1):
    return a + b


class Box:
    @property
    def size(self):
        return self._size + 1

    @size.setter
    def size(self, value):
        self._size = value + 10


def adder(more):
    def add(a):
        return a + more + 1

    return add


ADD_FIVE = adder(5)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    """Module of its own for each test: there is no way back from a mutant."""
    name = f"box_{request.node.name.split('[')[0]}"
    (tmp_path / f"{name}.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return import_module(name)


def operators(module: Any) -> dict[tuple[str, int], Mutant]:
    """Operators of the module that can be dropped, by place and line."""
    every = mutants_of(f"{module.__name__}.py", SOURCE)
    return {(one.place, one.line): one for one in every if one.kind is MutantKind.OPERATOR}


def put(module: Any, place: str, line: int) -> int:
    return put_in(operators(module)[place, line], SOURCE, module.__file__)


def test_a_function_that_was_imported_before_has_the_mutant(module: Any) -> None:
    imported = module.plain
    assert put(module, "plain", 5) == 1
    assert imported(3) == 3


def test_a_setter_is_told_from_its_property(module: Any) -> None:
    box = module.Box()
    assert put(module, "Box.size", 15) == 1
    box.size = 4
    assert box.size == 5, "set without its addition, read with it"


def test_a_function_that_another_has_made_before_has_the_mutant(module: Any) -> None:
    assert put(module, "adder", 20) == 2, "the maker and what it made"
    assert module.ADD_FIVE(1) == 6
    assert module.adder(5)(1) == 6


@pytest.mark.parametrize(
    ("place", "line", "changes"),
    [("plain", 5, True), ("plain", 4, False), ("", 1, False)],
    ids=["in the body", "a default", "a constant of the module"],
)
def test_only_a_change_of_the_body_of_a_function_counts(module: Any, place: str, line: int, changes: bool) -> None:
    assert changes_code(operators(module)[place, line], SOURCE) is changes


def test_what_does_not_compile_does_not_count() -> None:
    source = "def f(a, b):\n    return (a) < b\n"
    nonsense = [one for one in mutants_of("f.py", source) if not changes_code(one, source)]
    assert len(nonsense) == len(mutants_of("f.py", source)) == 1
