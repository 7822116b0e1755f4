"""Recordings of simulated worlds in the trees of commits, each kept in `.cache/compare`.

A recording counts for the commit and for `bench/recorded_world.py` as it is now. Worlds of one commit run together in
one process: most of a second would go by with imports for each.
"""

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

TREE = Path(__file__).parent.parent
CACHE = TREE / ".cache" / "compare"
PROBE = Path(__file__).parent / "recorded_world.py"
_SEED = "# seed "


def worlds() -> str:
    """Name of the worlds that are compared: another file of worlds has another."""
    return hashlib.sha256(PROBE.read_bytes()).hexdigest()[:12]


def commit_of(name: str) -> str:
    return git("rev-parse", "--verify", f"{name}^{{commit}}").strip()


def recordings(commit: str, seeds: Sequence[int]) -> dict[int, list[str]]:
    """Lines of each world in the tree of the commit."""
    missing = [seed for seed in seeds if not _path(commit, seed).exists()]
    if missing:
        with _tree_of(commit) as tree:
            for seed, lines in run(tree, missing).items():
                _path(commit, seed).parent.mkdir(parents=True, exist_ok=True)
                _path(commit, seed).write_text("\n".join(lines))
    return {seed: _path(commit, seed).read_text().split("\n") for seed in seeds}


def run(tree: Path, seeds: Sequence[int]) -> Mapping[int, list[str]]:
    """Lines of each world in a tree that is checked out."""
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"}
    command = (sys.executable, str(PROBE), *map(str, seeds))
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"seeds {', '.join(map(str, seeds))} in {tree}:\n{done.stderr}")
    return by_seed(done.stdout)


def by_seed(output: str) -> dict[int, list[str]]:
    """Lines of each world, of the output of several."""
    found: dict[int, list[str]] = {}
    lines: list[str] = []
    for line in output.splitlines():
        if line.startswith(_SEED):
            lines = found.setdefault(int(line.removeprefix(_SEED).split()[0]), [])
        else:
            lines.append(line)
    return found


def git(*arguments: str) -> str:
    return subprocess.run(("git", *arguments), cwd=TREE, capture_output=True, text=True, check=True).stdout


def _path(commit: str, seed: int) -> Path:
    return CACHE / worlds() / commit / f"{seed}.txt"


@contextmanager
def _tree_of(commit: str) -> Iterator[Path]:
    """Files of the commit in a folder of their own."""
    archive = subprocess.run(("git", "archive", commit), cwd=TREE, capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
        yield Path(folder)
