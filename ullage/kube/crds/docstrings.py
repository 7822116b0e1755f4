"""The docstrings of a struct and of its fields, as one line each. A field's docstring is the string below it.

Python keeps no docstrings of fields, so they are read from the source.
"""

import ast
import inspect
import textwrap
from functools import cache

import msgspec


@cache
def describe(kind: type[msgspec.Struct]) -> tuple[str, dict[str, str]]:
    """Return the docstring of a struct, and the docstrings of its own fields by name."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    if not isinstance(tree, ast.ClassDef):
        raise TypeError(f"{kind} is not a class")
    fields: dict[str, str] = {}
    for said, below in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(said, ast.AnnAssign) and isinstance(said.target, ast.Name) and (text := _text(below)):
            fields[said.target.id] = text
    return _one_line(ast.get_docstring(tree) or ""), fields


def _text(node: ast.stmt) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return _one_line(node.value.value)
    return ""


def _one_line(text: str) -> str:
    return " ".join(text.split())
