"""The vocabulary: a public class name stands for one class, and the glossary speaks of classes there are."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import ullage

PACKAGE = Path(ullage.__file__).parent
GLOSSARY = PACKAGE.parent / "docs" / "glossary.md"

ALLOWED: dict[str, str] = {}
"""Names two classes have, and why."""


def classes() -> dict[str, list[str]]:
    """Public classes of the product by name, with the files that define them."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(file.relative_to(PACKAGE)))
    return found


def test_no_two_public_classes_share_a_name() -> None:
    shared = {name: files for name, files in classes().items() if len(files) > 1}
    assert {name: files for name, files in shared.items() if name not in ALLOWED} == {}
    assert sorted(ALLOWED) == sorted(set(ALLOWED) & shared.keys()), "an exception that is not needed any more"


def test_the_glossary_speaks_of_classes_there_are() -> None:
    kinds = {"GpuClaim", "GpuNodeStatus", "GpuQuota", "NodeProvisioner", "FactEvent"}  # kinds of the API; a union
    rows = [line.split("|")[1] for line in GLOSSARY.read_text().splitlines() if line.startswith("| ")]
    named = {name for row in rows for name in re.findall(r"`([A-Z][A-Za-z]+)`", row)}
    assert len(named) > 30
    assert sorted(named - classes().keys() - kinds) == []


def docstrings(file: Path) -> list[tuple[int, str]]:
    """Docstrings of modules, classes, functions and attributes, with their lines."""
    bodies = (getattr(node, "body", None) for node in ast.walk(ast.parse(file.read_text())))
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
