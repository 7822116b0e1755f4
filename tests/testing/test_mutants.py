"""Mutants: each kind changes what it says, nothing else, and the same seed chooses the same."""

import pytest

from ullage.testing.mutants import MutantKind, chosen, importers, imports_of, mutants_of

SOURCE = """async def f(a, b, api):
    if a < b:
        return None
    x = a + b  # ä
    if a and not b:
        x = 1
    await api.get(a)
    await api.delete(b, resource_version=a)
    match x:
        case 1:
            x = 2
    return x
"""


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (MutantKind.COMPARISON, "    if a >= b:"),
        (MutantKind.GUARD, "    if False:"),
        (MutantKind.OPERATOR, "    x = a  # ä"),
        (MutantKind.JUNCTION, "    if a or not b:"),
        (MutantKind.NEGATION, "    if a and (b):"),
        (MutantKind.PRECONDITION, '    await api.delete(b, resource_version="")'),
        (MutantKind.EVENT, "            pass"),
    ],
    ids=lambda value: value.value if isinstance(value, MutantKind) else "",
)
def test_a_mutant_changes_one_line(kind: MutantKind, line: str) -> None:
    (mutant,) = [one for one in mutants_of("f.py", SOURCE) if one.kind is kind]
    before, after = SOURCE.splitlines(), mutant.applied(SOURCE).splitlines()
    assert [new for old, new in zip(before, after, strict=True) if old != new] == [line]


def test_awaits_change_their_order() -> None:
    (mutant,) = [one for one in mutants_of("f.py", SOURCE) if one.kind is MutantKind.AWAITS]
    lines = [line.strip() for line in mutant.applied(SOURCE).splitlines()]
    assert lines.index("await api.delete(b, resource_version=a)") < lines.index("await api.get(a)")


def test_equal_seeds_choose_equally_and_from_every_kind() -> None:
    mutants = mutants_of("f.py", SOURCE)
    assert chosen(mutants, 5, 1) == chosen(mutants, 5, 1)
    assert {one.kind for one in chosen(mutants, len(MutantKind), 1)} == set(MutantKind)
    assert len(chosen(mutants, 999, 1)) == len(mutants)


def test_the_nearest_tests_come_first_then_those_with_the_fewest_imports() -> None:
    tests = {
        "tests/far.py": imports_of("from ullage.control.loop import Loop\n"),
        "tests/many.py": imports_of("from ullage.act import bind, leases\nimport os\n"),
        "tests/one.py": imports_of("from ullage.act.bind import PodBinder\n"),
        "tests/none.py": imports_of("import os\n"),
    }
    product = {
        "ullage.control.loop": imports_of("from ullage.act.bind import PodBinder\n"),
        "ullage.act.bind": frozenset(),
    }
    assert importers("ullage.act.bind", tests, product) == ["tests/one.py", "tests/many.py", "tests/far.py"]
