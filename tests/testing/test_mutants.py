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
    slow_last = importers("ullage.act.bind", tests, product, slow={"tests/one.py"})
    assert slow_last == ["tests/many.py", "tests/one.py", "tests/far.py"]


def test_tests_of_the_same_folder_come_before_those_with_fewer_imports() -> None:
    tests = {
        "tests/cli/a.py": imports_of("from ullage.act.bind import PodBinder\n"),
        "tests/act/b.py": imports_of("import os\nfrom ullage.act.bind import PodBinder\n"),
    }
    assert importers("ullage.act.bind", tests, {}) == ["tests/act/b.py", "tests/cli/a.py"]


def test_a_mutant_keeps_its_name_and_digest_when_other_places_of_the_file_change() -> None:
    before = {one.name: one.digest for one in mutants_of("f.py", SOURCE)}
    after = {one.name: one.digest for one in mutants_of("f.py", f"def g(a):\n    return a + 1\n\n\n{SOURCE}")}
    assert len(before) == len(mutants_of("f.py", SOURCE))
    assert before.items() <= after.items()
    assert after.keys() - before.keys() == {"f.py:g:operator-dropped:0"}


def test_a_change_of_one_place_changes_only_its_own_mutants_in_the_choice() -> None:
    others = [one for number in range(20) for one in mutants_of(f"f{number}.py", SOURCE)]
    more = mutants_of("g.py", "def g(a, b):\n    return a + b\n")
    before = {one.name for one in chosen(others, 40, 1)}
    after = {one.name for one in chosen([*others, *more], 40, 1)}
    assert len(before - after) <= 1
    assert after - before <= {more[0].name}
