"""Planted bugs: small patches that put a defect back into a copy of the tree, where chaos must find it.

A patch file begins with two lines: `Bug:` says what is wrong, `Breaks:` names the promises by which chaos may find it,
separated by `;`. A bug that is found by another promise is not found: a patch that merely crashes proves nothing.
Beside each patch lies a short story that shows the bug, for runs that have no time for seeds.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ullage.errors import UserError

_BROKEN = re.compile(r"^broken at [\d.]+ s: (.*)$", re.MULTILINE)
_FAILED = re.compile(r"^seed (\d+): ([^:]+): (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """A patch, with what it says of itself."""

    name: str
    summary: str
    breaks: tuple[str, ...]
    path: Path

    @property
    def story(self) -> Path:
        """Story that shows the bug."""
        return self.path.with_suffix(".json")


@dataclass(frozen=True, slots=True)
class BugFound:
    """First seed whose story failed, and how."""

    seed: int
    rule: str
    sentence: str


def planted_bugs(folder: Path) -> list[PlantedBug]:
    """Patches of a folder, by name. Raises UserError for a patch without its two lines."""
    return [_read(path) for path in sorted(folder.glob("*.patch"))]


def _read(path: Path) -> PlantedBug:
    head = dict(line.split(": ", 1) for line in path.read_text().splitlines()[:2] if ": " in line)
    if {"Bug", "Breaks"} - head.keys():
        raise UserError(f"{path.name}: its first two lines are not `Bug: ...` and `Breaks: ...`")
    return PlantedBug(path.stem, head["Bug"], tuple(one.strip() for one in head["Breaks"].split(";")), path)


def why_not_applied(bug: PlantedBug, root: Path) -> str:
    """Complaint of git about a patch that does not fit the tree any more; empty if it fits."""
    return _apply(bug, root, "--check")


@contextmanager
def planted_tree(bug: PlantedBug, root: Path) -> Iterator[Path]:
    """A copy of the product with the bug in it, for the time of the block."""
    with tempfile.TemporaryDirectory(prefix=f"ullage-{bug.name}-") as folder:
        copy = Path(folder)
        shutil.copytree(root / "ullage", copy / "ullage", ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        if complaint := _apply(bug, copy):
            raise UserError(f"{bug.name} does not apply: {complaint}")
        yield copy


def _apply(bug: PlantedBug, folder: Path, *options: str) -> str:
    # Without a repository around it, git looks at the files alone.
    env = os.environ | {"GIT_CEILING_DIRECTORIES": str(folder.parent), "GIT_DIR": os.devnull}
    done = subprocess.run(
        ("git", "apply", *options, str(bug.path.resolve())), cwd=folder, capture_output=True, text=True, env=env
    )
    return done.stderr.strip() if done.returncode else ""


def replay(tree: Path, story: Path) -> str | None:
    """Play one story on a tree. Returns the promise it breaks; None if it breaks none."""
    said = _chaos(tree, "--replay", str(story.resolve()))
    found = _BROKEN.search(said)
    return None if found is None else found[1]


def search(tree: Path, *, first: int, seeds: int, processes: int = 1) -> BugFound | None:
    """Play seeds in order on a tree until one fails."""
    numbers = ("--first", str(first), "--seeds", str(seeds), "--processes", str(processes))
    found = _FAILED.search(_chaos(tree, "--fail-fast", *numbers))
    return None if found is None else BugFound(int(found[1]), found[2], found[3])


def _chaos(tree: Path, *options: str) -> str:
    """Run `ullage chaos` of a tree. Raises UserError if it ends with anything but kept or broken promises."""
    env = os.environ | {"PYTHONPATH": str(tree)}
    command = (sys.executable, "-m", "ullage", "chaos", *options)
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, env=env)
    if done.returncode not in (0, 1) or (done.returncode and not done.stdout):
        raise UserError(f"chaos ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout
