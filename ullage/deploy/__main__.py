"""`python -m ullage.deploy FOLDER`: write the generated files; `--check` says which are not as the code is."""

import sys
from collections.abc import Sequence
from pathlib import Path

from ullage.deploy.generated import generated_files


def main(arguments: Sequence[str]) -> int:
    checks = "--check" in arguments
    folders = [one for one in arguments if one != "--check"]
    if len(folders) != 1:
        sys.stderr.write("usage: python -m ullage.deploy [--check] FOLDER\n")
        return 2
    different = [path for path, text in wanted(Path(folders[0])).items() if _text(path) != text]
    for path in different:
        if checks:
            sys.stderr.write(f"{path} is not as the code says; run `make format`\n")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted(Path(folders[0]))[path])
    return 1 if checks and different else 0


def wanted(folder: Path) -> dict[Path, str]:
    """Text by path."""
    return {folder / path: text for path, text in generated_files().items()}


def _text(path: Path) -> str:
    return path.read_text() if path.is_file() else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
