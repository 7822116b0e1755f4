"""`python -m ullage.kube.crds DIR` writes the definitions; with `--check` it only says whether they are up to date."""

import sys
from pathlib import Path

from ullage.kube.crds.catalog import FILES


def main(arguments: list[str]) -> int:
    """Write or compare. A definition of a kind that is no more is removed, or named as stale. Returns the exit code."""
    folders = [Path(argument) for argument in arguments if argument != "--check"]
    if len(folders) != 1:
        sys.stderr.write("usage: python -m ullage.kube.crds [--check] DIR\n")
        return 2
    (folder,) = folders
    stale = [path for name, definition in FILES.items() if not _same(path := folder / name, definition.text())]
    left_over = sorted(path for path in folder.rglob("*.yaml") if str(path.relative_to(folder)) not in FILES)
    if "--check" in arguments:
        if wrong := [*stale, *left_over]:
            sys.stderr.write(f"out of date: {', '.join(map(str, wrong))}; run `make format`\n")
        return 1 if wrong else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(FILES[str(path.relative_to(folder))].text())
    for path in left_over:
        path.unlink()
    return 0


def _same(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
