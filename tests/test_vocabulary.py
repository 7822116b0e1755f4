"""The vocabulary: one class per public name, no retired words in names, and a glossary of classes there are."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NewType

import ullage
from ullage.model import units

PACKAGE = Path(ullage.__file__).parent
GLOSSARY = PACKAGE.parent / "docs" / "glossary.md"


@cache
def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


ALLOWED: dict[str, str] = {}
"""Names two classes have, and why."""


def classes() -> dict[str, list[str]]:
    """Public classes of the product by name, with the files that define them."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in _parsed(file).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(file.relative_to(PACKAGE)))
    return found


def test_no_two_public_classes_share_a_name() -> None:
    shared = {name: files for name, files in classes().items() if len(files) > 1}
    assert {name: files for name, files in shared.items() if name not in ALLOWED} == {}
    assert sorted(ALLOWED) == sorted(set(ALLOWED) & shared.keys()), "an exception that is not needed any more"


RETIRED = set(
    """
    agenda board books broom candidacy desk doom door errand estate eyes floors foretold grace ground hands hear
    hearsay hopeless judge keeper loner market moment news objection panel picture promise rounds scratch seat
    sights spare spelling standing stock stray sweep tell teller tending trade turns vault voice weather wishes
    witness workshop
    """.split()  # noqa: SIM905 - a list of words
)
"""Words of before the redesign (decision 006). Names use the words of docs/glossary.md instead; prose is free."""

FORMS = set(
    """
    boards candidacies doomed doors errands grounds heard hearing judged judging keepers loners markets moments
    objections panels pictures promised promises seated seating seats spared sparing spelled standings strays
    sweeper sweeping telling told wish
    """.split()  # noqa: SIM905 - a list of words
)

KUBERNETES = re.compile(r"grace_?(period|seconds)", re.IGNORECASE)
"""`gracePeriodSeconds` and its relatives are the API's own words."""

OTHERS_WORDS = {
    "GraphPanel": "panels are what Grafana has",
    "_panel": "the same",
    "panel": "the same",
}
"""Names with a retired word, and whose word it is."""


def names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Names that a module declares: classes, functions, parameters, fields and attributes, with their lines."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield node.lineno, name
            case _:
                pass


def is_retired(name: str) -> bool:
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", KUBERNETES.sub("", name))
    return not name.startswith("test_") and any(word.lower() in RETIRED | FORMS for word in words)


def test_retired_words_stand_in_no_name_of_the_product() -> None:
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        place = file.relative_to(PACKAGE)
        found += [str(place)] if any(map(is_retired, place.with_suffix("").parts)) else []
        found += [
            f"{place}:{line}: {name}"
            for line, name in names(_parsed(file))
            if is_retired(name) and name not in OTHERS_WORDS
        ]
    assert found == []


def test_retired_words_name_no_helper_of_the_tests() -> None:
    files = (PACKAGE.parent / "tests").rglob("*.py")
    assert sorted(str(file) for file in files if is_retired(file.stem.removeprefix("test_"))) == []


def test_a_retired_word_is_recognised() -> None:
    module = ast.parse("class SeatPicker:\n    weather: int\n    def hear(self, news: str) -> None: ...")
    assert [name for _, name in names(module) if is_retired(name)] == ["SeatPicker", "weather", "hear", "news"]
    assert not is_retired("termination_grace_period_seconds")
    assert not is_retired("understanding")


def test_the_glossary_speaks_of_classes_there_are() -> None:
    kinds = {"GpuClaim", "GpuNodeStatus", "GpuQuota", "NodeProvisioner", "FactEvent"}  # kinds of the API; a union
    known_units = {name for name, one in vars(units).items() if isinstance(one, NewType)}
    rows = [line.split("|")[1] for line in GLOSSARY.read_text().splitlines() if line.startswith("| ")]
    named = {name for row in rows for name in re.findall(r"`([A-Z][A-Za-z]+)`", row)}
    assert len(named) > 30
    assert sorted(named - classes().keys() - kinds - known_units) == []


def docstrings(file: Path) -> list[tuple[int, str]]:
    """Docstrings of modules, classes, functions and attributes, with their lines."""
    bodies = (getattr(node, "body", None) for node in ast.walk(_parsed(file)))
    statements = [statement for body in bodies if isinstance(body, list) for statement in body]
    return [
        (one.lineno, one.value.value.strip())
        for one in statements
        if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) and isinstance(one.value.value, str)
    ]


def test_docstrings_begin_with_the_noun_or_the_verb() -> None:
    riddles = re.compile(r"(What|Who|Whose|Whom|Which|Whether|How|Where|When|Why|The one)\b")
    found = [
        f"{file.relative_to(PACKAGE)}:{line}: {text.splitlines()[0]}"
        for file in sorted(PACKAGE.rglob("*.py"))
        for line, text in docstrings(file)
        if riddles.match(text)
    ]
    assert found == []
