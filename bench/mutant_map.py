"""Map of which tests and seeds execute which mutants. Made once per file of tests, kept in `.cache/mutants`."""

import ast
import hashlib
import json
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from ullage.testing.mutants import Mutant

ROOT = Path(__file__).parent.parent
KEPT = ROOT / ".cache" / "mutants"


@dataclass(frozen=True, slots=True)
class Run:
    """A test or seed without any mutant."""

    name: str
    seconds: float
    """CPU seconds."""
    passed: bool
    executes: frozenset[str]
    """Names of mutants whose statement it executes."""


class Lines:
    """Lines of the statements of some mutants, and who executes them."""

    def __init__(self, mutants: Sequence[Mutant]) -> None:
        self._of: dict[str, dict[int, list[str]]] = {}
        for one in mutants:
            lines = self._of.setdefault(str(ROOT / one.path), {})
            for line in statement_lines((ROOT / one.path).read_text(), one):
                lines.setdefault(line, []).append(one.name)
        self._seen: set[str] = set()
        self._holds: dict[int, bool] = {}
        """Whether a code object has a line of a mutant, by its identity."""

    @contextmanager
    def watched(self) -> Iterator[set[str]]:
        """Names of the mutants that are executed within the block, by any thread that begins in it."""
        self._seen = set()
        threading.settrace(self._called)
        sys.settrace(self._called)
        try:
            yield self._seen
        finally:
            sys.settrace(None)
            threading.settrace(None)

    def _called(self, frame: FrameType, _what: str, _about: Any) -> Any:
        code = frame.f_code
        lines = self._of.get(code.co_filename)
        if lines is None:
            return None
        if id(code) not in self._holds:  # code of the product lives as long as its module
            self._holds[id(code)] = any(line in lines for *_, line in code.co_lines())
        return self._line if self._holds[id(code)] else None

    def _line(self, frame: FrameType, _what: str, _about: Any) -> Any:
        names = self._of[frame.f_code.co_filename].get(frame.f_lineno)
        if names:
            self._seen.update(names)
        return self._line


def statement_lines(source: str, mutant: Mutant) -> range:
    """Lines of the innermost statement, or head of a statement, that holds the first line of a mutant."""
    found = range(mutant.line, mutant.line + 1)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and node.lineno <= mutant.line <= (node.end_lineno or node.lineno):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno or node.lineno
            if node.lineno <= mutant.line <= max(last, node.lineno):
                found = range(node.lineno, max(last, node.lineno) + 1)
    return found


class RunMap:
    """Runs by file of tests. A file whose text, or a choice of mutants that, has changed is mapped anew."""

    def __init__(self, mutants: Iterable[Mutant]) -> None:
        self._about = _digest("\n".join(sorted(f"{one.name}:{one.digest}" for one in mutants)))
        self._path = KEPT / f"map-{self._about}.json"
        self._kept: dict[str, Any] = json.loads(self._path.read_text()) if self._path.exists() else {}

    def get(self, file: str, text: str) -> list[Run] | None:
        """Runs of a file, if they are known for its text."""
        found = self._kept.get(file)
        if found is None or found["text"] != _digest(text):
            return None
        return [Run(one["name"], one["seconds"], one["passed"], frozenset(one["executes"])) for one in found["runs"]]

    def put(self, file: str, text: str, runs: Sequence[Mapping[str, Any]]) -> None:
        """Keep the runs of a file."""
        self._kept[file] = {"text": _digest(text), "runs": list(runs)}
        KEPT.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(self._kept, indent=1))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
