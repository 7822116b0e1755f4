"""Counts of a tree, to compare two: `python -m bench.tree_counts [COMMIT]`. Without one, of the tree as it is."""

import ast
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

TREE = Path(__file__).parent.parent
SMALL = 50


def counts(root: Path) -> Mapping[str, int]:
    """Counts of the product in a checked-out tree."""
    files = {file: file.read_text(encoding="utf-8") for file in sorted((root / "ullage").rglob("*.py"))}
    modules = {file: text for file, text in files.items() if file.name != "__init__.py"}
    names = Counter(
        node.name
        for text in files.values()
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    importers = _importers(root, files)
    shared = [name for name, times in names.items() if times > 1]
    return {
        "product files": len(files),
        "product lines": sum(len(text.splitlines()) for text in files.values()),
        "modules under 50 lines": sum(len(text.splitlines()) < SMALL for text in modules.values()),
        "modules with one importer": sum(len(importers[_name(root, file)]) == 1 for file in modules),
        "public classes": sum(names.values()),
        "class names that stand for several": len(shared),
        "places that say ullage-system": sum(text.count('"ullage-system"') for text in files.values()),
        "places that list the scoring policies": sum(bool(re.search(r'"best-fit"', text)) for text in files.values()),
        "duration grammars": sum("(ms|" in text or "(\\d+)h)" in text for text in files.values()),
        "declarations of draining's scanInterval": sum(
            len(re.findall(r"scan_interval: |\"--scan-interval\"|pause: float = 5", text)) for text in files.values()
        ),
    }


def _name(root: Path, file: Path) -> str:
    return ".".join(file.relative_to(root).with_suffix("").parts)


def _importers(root: Path, files: Mapping[Path, str]) -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for file, text in files.items():
        for node in ast.walk(ast.parse(text)):
            names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names += [f"{node.module}.{one.name}" for one in node.names]
            if isinstance(node, ast.Import):
                names += [one.name for one in node.names]
            for name in names:
                found[name].add(_name(root, file))
    return found


def main(arguments: list[str]) -> int:
    if not arguments:
        found = counts(TREE)
    else:
        packed = subprocess.run(("git", "archive", arguments[0]), cwd=TREE, capture_output=True, check=True).stdout
        with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
            found = counts(Path(folder))
    for what, number in found.items():
        print(f"{number:8} {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
