"""Mutants of Python source: one small change each, by the syntax tree. Pure and deterministic.

A mutant that no test and no chaos story notices shows a check that is missing, or a line that does nothing.
"""

import ast
import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise, zip_longest


class MutantKind(StrEnum):
    """Kind of a change."""

    COMPARISON = "comparison-turned"
    OPERATOR = "operator-dropped"
    JUNCTION = "and-or-swapped"
    NEGATION = "not-dropped"
    GUARD = "guard-removed"
    """A condition under which a function returns, raises or goes on is never true."""
    PRECONDITION = "precondition-removed"
    """A write does not say any more which version or uid it means."""
    AWAITS = "awaits-reordered"
    EVENT = "event-ignored"
    """A case of a `match` does nothing."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: the characters from `begin` to `end` of a file are replaced."""

    path: str
    line: int
    kind: MutantKind
    begin: int
    end: int
    text: str
    place: str = ""
    """Qualified name of the function or class around it."""
    number: int = 0
    """Number among those of its kind in its place."""
    digest: str = ""
    """Digest of the source of its place: a result counts until that changes."""

    @property
    def name(self) -> str:
        """Name that is unique within a tree, and stays when other places of the file change."""
        return f"{self.path}:{self.place}:{self.kind.value}:{self.number}"

    @property
    def layer(self) -> str:
        """First folder below the package."""
        return "/".join(self.path.split("/")[:2])

    def applied(self, source: str) -> str:
        """Source with the change. Offsets count bytes of UTF-8, as those of the syntax tree."""
        raw = source.encode()
        return (raw[: self.begin] + self.text.encode() + raw[self.end :]).decode()


_TURNED = {
    ast.Lt: ">=",
    ast.LtE: ">",
    ast.Gt: "<=",
    ast.GtE: "<",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_PRECONDITIONS = ("resource_version", "uid")
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Every mutant of a file, in the order of the text. A few do not compile, see `compiles`."""
    places, seen, found = _places(source), Counter[tuple[str, MutantKind]](), list[Mutant]()
    for one in sorted(_Finder(path, source).found(), key=lambda one: (one.begin, one.end, one.kind)):
        place = next((place for place in places if place.first <= one.line <= place.last), _Place("", 0, 0, ""))
        found.append(replace(one, place=place.name, digest=place.digest, number=seen[place.name, one.kind]))
        seen[place.name, one.kind] += 1
    return found


@dataclass(frozen=True, slots=True)
class _Place:
    """A function or class of a file."""

    name: str
    first: int
    last: int
    digest: str


def _places(source: str) -> list[_Place]:
    """Functions and classes, the innermost first; functions within functions belong to the outer one."""
    lines, found = source.splitlines(), list[_Place]()

    def walk(body: Sequence[ast.stmt], within: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                name, last = f"{within}{node.name}", node.end_lineno or node.lineno
                if isinstance(node, ast.ClassDef):
                    walk(node.body, f"{name}.")
                text = "\n".join(lines[node.lineno - 1 : last])
                found.append(_Place(name, node.lineno, last, hashlib.sha256(text.encode()).hexdigest()[:12]))

    walk(ast.parse(source).body, "")
    return found


def chosen(mutants: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """Some mutants, the kinds in turn, and of each kind the layers in turn. Equal seeds choose equally.

    So rare kinds are not drowned by comparisons, nor small layers by large ones. The order is by a digest of each name:
    a change of the tree changes the choice only where it changes the code.
    """
    groups = dict[tuple[MutantKind, str], list[Mutant]]()
    for one in sorted(mutants, key=lambda one: _rank(one, seed)):
        groups.setdefault((one.kind, one.layer), []).append(one)
    kinds = [_in_turn([group for (of, _), group in sorted(groups.items()) if of is kind]) for kind in MutantKind]
    return _in_turn(kinds)[:count]


def _in_turn(groups: Sequence[Sequence[Mutant]]) -> list[Mutant]:
    return [one for row in zip_longest(*groups) for one in row if one is not None]


def _rank(mutant: Mutant, seed: int) -> str:
    return hashlib.sha256(f"{seed}/{mutant.name}".encode()).hexdigest()


def compiles(source: str) -> bool:
    """True if the source is Python."""
    try:
        compile(source, "mutant", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


class _Finder:
    """Places of one file that can be changed."""

    def __init__(self, path: str, source: str) -> None:
        self._path = path
        self._tree = ast.parse(source)
        self._raw = source.encode()
        self._starts = [0]
        for line in self._raw.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def found(self) -> Iterator[Mutant]:
        for node in ast.walk(self._tree):
            yield from self._expressions(node)
            match node:
                case ast.If(test=test, body=[*_, last]) if isinstance(last, _LEAVES):
                    yield self._whole(MutantKind.GUARD, test, "False")
                case ast.Call(keywords=keywords):
                    yield from self._preconditions(keywords)
                case ast.match_case(body=[first, *_]) if not isinstance(first, ast.Pass):
                    yield self._body(node.body)
            for field in ("body", "orelse", "finalbody"):
                statements = getattr(node, field, None)
                if isinstance(statements, list):
                    yield from self._awaits(statements)

    def _expressions(self, node: ast.AST) -> Iterator[Mutant]:
        match node:
            case ast.Compare(ops=[op], left=left, comparators=[right]) if type(op) in _TURNED:
                yield self._between(MutantKind.COMPARISON, left, right, f" {_TURNED[type(op)]} ")
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult(), left=left):
                yield self._whole(MutantKind.OPERATOR, node, self._text(left))
            case ast.BoolOp(op=op, values=[first, second, *_]):
                swapped = " or " if isinstance(op, ast.And) else " and "
                yield self._between(MutantKind.JUNCTION, first, second, swapped)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield self._whole(MutantKind.NEGATION, node, f"({self._text(operand)})")

    def _preconditions(self, keywords: Sequence[ast.keyword]) -> Iterator[Mutant]:
        for keyword in keywords:
            if keyword.arg in _PRECONDITIONS and not isinstance(keyword.value, ast.Constant):
                yield self._whole(MutantKind.PRECONDITION, keyword.value, '""')

    def _awaits(self, statements: Sequence[ast.stmt]) -> Iterator[Mutant]:
        for one, other in pairwise(statements):
            if _awaits(one) and _awaits(other) and one.col_offset == other.col_offset:
                begin, middle, end = self._begin(one), self._begin(other), self._end(other)
                between = self._raw[self._end(one) : middle].decode()
                text = self._text(other) + between + self._text(one)
                yield Mutant(self._path, one.lineno, MutantKind.AWAITS, begin, end, text)

    def _body(self, body: Sequence[ast.stmt]) -> Mutant:
        begin, end = self._begin(body[0]), self._end(body[-1])
        return Mutant(self._path, body[0].lineno, MutantKind.EVENT, begin, end, "pass")

    def _between(self, kind: MutantKind, left: ast.expr, right: ast.expr, text: str) -> Mutant:
        """Replace what stands between two expressions. A bracket there makes it nonsense, which does not compile."""
        return Mutant(self._path, left.lineno, kind, self._end(left), self._begin(right), text)

    def _whole(self, kind: MutantKind, node: ast.expr, text: str) -> Mutant:
        return Mutant(self._path, node.lineno, kind, self._begin(node), self._end(node), text)

    def _text(self, node: ast.expr | ast.stmt) -> str:
        return self._raw[self._begin(node) : self._end(node)].decode()

    def _begin(self, node: ast.expr | ast.stmt) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        return self._starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)


def _awaits(statement: ast.stmt) -> bool:
    simple = isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign)
    return simple and any(isinstance(one, ast.Await) for one in ast.walk(statement))


def importers(
    module: str,
    tests: Mapping[str, frozenset[str]],
    product: Mapping[str, frozenset[str]],
    slow: Collection[str] = (),
) -> list[str]:
    """Test files that execute a module, the nearest first: those in the folder of the same name, then those that import
    it, then those that import its importers.

    `tests` and `product` are the imports by file and by module. Of equally near ones, those that are not slow come
    first, then those with the fewest imports.
    """
    folder = "tests/" + "/".join(module.split(".")[1:-1]) + "/"
    found: dict[str, None] = {}
    near, known = {module}, {module}
    while near:
        files = [name for name, imports in tests.items() if name not in found and near & imports]
        found |= dict.fromkeys(sorted(files, key=lambda name: (name in slow, len(tests[name]), name)))
        near = {name for name, imports in product.items() if near & imports} - known
        known |= near
    return sorted(found, key=lambda name: not name.startswith(folder))


def imports_of(source: str) -> frozenset[str]:
    """Modules that a file imports, by full name; names imported from a package count as its modules, too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found |= {one.name for one in names}
            case ast.ImportFrom(module=str() as module, names=names):
                found |= {module, *(f"{module}.{one.name}" for one in names)}
    return frozenset(found)
