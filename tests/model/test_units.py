"""Units: arithmetic of instants, and no bare `float` for time in signatures and fields of the core."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ullage
from ullage.model.units import Instant, Seconds, after, elapsed

PACKAGE = Path(ullage.__file__).parent
CORE = ("model", "state", "decide")

TIME = re.compile(
    r"(^|_)(now|at|since|until|after|before_run|deadline|deadlines|due|delay|delays|timeout|seconds|age|backoff|"
    r"pause|wait|waited|patience|period|window|interval|elapsed|steady|created|renewed|timestamp|lag|staleness)(_|$)"
)
"""Names of times: an instant, a length of time, or a steady clock's reading."""


def test_a_clock_that_is_set_back_makes_nothing_younger_than_new() -> None:
    assert elapsed(Instant(100.0), Instant(130.0)) == 30.0
    assert elapsed(Instant(100.0), Instant(70.0)) == 0.0
    assert after(Instant(100.0), Seconds(5.0)) == 105.0


def bare_floats(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Parameters, fields and results with a time-like name whose annotation has a bare `float`."""
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name, annotation=ast.expr() as said):
                pass
            case ast.AnnAssign(target=ast.Name(id=name) | ast.Attribute(attr=name), annotation=said):
                pass
            case ast.FunctionDef(name=name, returns=ast.expr() as said):
                pass
            case _:
                continue
        if TIME.search(name) and any(isinstance(one, ast.Name) and one.id == "float" for one in ast.walk(said)):
            yield node.lineno, name


@pytest.mark.parametrize("layer", CORE)
def test_no_bare_float_for_time_in_the_core(layer: str) -> None:
    found = [
        f"{file.relative_to(PACKAGE)}:{line}: {name}"
        for file in sorted((PACKAGE / layer).rglob("*.py"))
        for line, name in bare_floats(ast.parse(file.read_text()))
    ]
    assert found == []


def test_a_bare_float_is_found() -> None:
    module = ast.parse(
        "class A:\n    created: float\n    def f(self, load: float, *, now: float) -> dict[str, float]: ...\n"
        "    def next_deadline(self) -> float | None: ...\n    def g(self, now: Instant) -> Seconds: ..."
    )
    assert sorted(name for _, name in bare_floats(module)) == ["created", "next_deadline", "now"]
