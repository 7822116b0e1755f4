"""Units: arithmetic of instants; no bare `float` for time, nor `int` for a share, bytes or money, in the core."""

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


AMOUNT = re.compile(r"(^|_)(milli|thousandths|share|bytes|memory|price|micros|cpu)(_|$)")
"""Names of amounts with a unit: thousandths, bytes, millionths of money."""

ALLOWED = {
    "model/quantity.py": "text of an amount by resource, which is a number by name",
    "model/shape.py": "sums of requests, which are numbers by resource name",
    "model/vm.py": "two resources that are added, compared and multiplied together, column by column",
    "decide/vm_agent/goal.py": "the same",
    "decide/placement/score/gpu_scorer.py": "the edge of NumPy arrays",
    "decide/placement/score_view.py": "the same",
}
"""Modules that keep amounts as plain numbers, and why."""


def bare(tree: ast.Module, names: re.Pattern[str], plain: str) -> Iterator[tuple[int, str]]:
    """Parameters, fields and results with such a name whose annotation has a bare `float` or `int`."""
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
        if names.search(name) and any(isinstance(one, ast.Name) and one.id == plain for one in ast.walk(said)):
            yield node.lineno, name


@pytest.mark.parametrize("layer", CORE)
def test_no_bare_float_for_time_in_the_core(layer: str) -> None:
    found = [
        f"{file.relative_to(PACKAGE)}:{line}: {name}"
        for file in sorted((PACKAGE / layer).rglob("*.py"))
        for line, name in bare(ast.parse(file.read_text()), TIME, "float")
    ]
    assert found == []


def test_no_bare_int_for_a_share_bytes_or_money_in_the_core() -> None:
    files = [file for layer in CORE for file in sorted((PACKAGE / layer).rglob("*.py"))]
    found = {str(file.relative_to(PACKAGE)): [*bare(ast.parse(file.read_text()), AMOUNT, "int")] for file in files}
    assert {file: names for file, names in found.items() if names and file not in ALLOWED} == {}
    assert [file for file in ALLOWED if not found[file]] == [], "an exception that is not needed any more"


def test_a_bare_float_is_found() -> None:
    module = ast.parse(
        "class A:\n    created: float\n    def f(self, load: float, *, now: float) -> dict[str, float]: ...\n"
        "    def next_deadline(self) -> float | None: ...\n    def g(self, now: Instant) -> Seconds: ..."
    )
    assert sorted(name for _, name in bare(module, TIME, "float")) == ["created", "next_deadline", "now"]


def test_a_bare_int_is_found() -> None:
    module = ast.parse(
        "class A:\n    memory: tuple[int, ...]\n    def f(self, share: Milli, price_per_gpu: int) -> int: ..."
    )
    assert sorted(name for _, name in bare(module, AMOUNT, "int")) == ["memory", "price_per_gpu"]
