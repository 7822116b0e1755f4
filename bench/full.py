"""`make test-full`: every size the project promises, in slices that resume where they were cut off.

A finished slice is remembered for the exact tree it ran on, so a second call goes on with the rest. The last result of
each slice is kept in `bench/results/test-full.json`, with the tree it is from.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.record import RESULTS
from ullage.testing.controlplane.versions import KUBERNETES_RELEASES, MINOR_VARIABLE, chosen_minor

ROOT = Path(__file__).parent.parent
PROGRESS = ROOT / ".cache" / "test-full.json"


@dataclass(frozen=True, slots=True)
class Slice:
    """A part that makes sense on its own."""

    name: str
    command: tuple[str, ...]


PYTEST = (sys.executable, "-m", "pytest", "--full")
APART = (
    "tests/contract",
    "tests/testing/controlplane",
    "tests/control/scheduling",
    "tests/control/draining/at_scale",
    "tests/control/draining",
    "tests/web",
    "tests/sim/chaos",
    "tests/control/signals",
    "tests/decide/vms",
    "tests/sim/vms",
)
"""Folders with a slice of their own; all other tests are in one of the first two."""
BUILD = ("ullage.testing.controlplane", "build")
INSTALL = ("pytest", "--full", "tests/deploy")
OTHER_MINORS = tuple(minor for minor in KUBERNETES_RELEASES if minor != chosen_minor())
"""Minors beside the usual one: everything is installed, used and removed on each."""
QUICK_BENCHES = ("decisions", "latency", "mixed", "webhook", "drain", "buying", "vms", "permits")
SLICES = (
    Slice("without a control plane", (*PYTEST, "tests", *(f"--ignore={one}" for one in APART), "-m", "not real")),
    Slice("end to end", (*PYTEST, "tests", *(f"--ignore={one}" for one in APART), "-m", "real")),
    Slice("contract", (*PYTEST, "tests/contract")),
    Slice("control plane", (*PYTEST, "tests/testing/controlplane")),
    Slice("bench sync", (sys.executable, "-m", "bench.run", "sync")),
    Slice("scheduler", (*PYTEST, "tests/control/scheduling")),
    Slice("draining", (*PYTEST, "tests/control/draining/at_scale", "tests/control/draining")),
    Slice("dashboard", (*PYTEST, "tests/web")),
    Slice("chaos and planted bugs", (*PYTEST, "tests/sim/chaos")),
    Slice("planted bugs by seeds", (sys.executable, "-m", "bench.planted", "--processes", "2")),
    Slice("chaos seeds", (sys.executable, "-m", "bench.chaos", "--processes", "2")),
    Slice("signals", (*PYTEST, "tests/control/signals")),
    Slice("VMs", (*PYTEST, "tests/decide/vms", "tests/sim/vms")),
    Slice("bench fidelity", (sys.executable, "-m", "bench.run", "fidelity")),
    Slice("mutants", (sys.executable, "-m", "bench.mutants")),
    *(Slice(f"bench {name}", (sys.executable, "-m", "bench.run", name)) for name in QUICK_BENCHES),
    *(
        Slice(f"{what} Kubernetes {minor}", ("env", f"{MINOR_VARIABLE}={minor}", sys.executable, "-m", *command))
        for minor in OTHER_MINORS
        for what, command in (("build", BUILD), ("install on", INSTALL))
    ),
    Slice("bench throughput", (sys.executable, "-m", "bench.run", "throughput")),
    Slice("bench packing", (sys.executable, "-m", "bench.run", "packing")),
    Slice("bench churn", (sys.executable, "-m", "bench.run", "churn")),
)


def tree_id() -> str:
    """What the work tree holds now: a finished slice counts only for this."""
    files = subprocess.run(
        ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ":!bench/results"),
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout.split(b"\0")
    digest = hashlib.sha256()
    for name in sorted(filter(None, files)):
        path = ROOT / name.decode()
        digest.update(name + b"\0" + (path.read_bytes() if path.is_file() else b"") + b"\0")
    return digest.hexdigest()[:16]


def main(arguments: Sequence[str]) -> int:
    """Run what is left; returns 0 when every slice has passed on this tree."""
    parser = argparse.ArgumentParser(prog="make test-full ARGS=...", description=__doc__)
    parser.add_argument("--again", action="store_true", help="run finished slices again too")
    parser.add_argument("--only", metavar="SLICE", choices=[part.name for part in SLICES], help="just this slice")
    options = parser.parse_args(arguments)
    tree = tree_id()
    done = {} if options.again else _finished(tree)
    for number, part in enumerate(SLICES, start=1):
        if options.only not in (None, part.name):
            continue
        if part.name in done:
            print(f"[{number}/{len(SLICES)}] {part.name}: passed before on this tree", flush=True)
            continue
        print(f"[{number}/{len(SLICES)}] {part.name}: {' '.join(part.command[1:])}", flush=True)
        result = _run(part)
        done[part.name] = result
        _remember(tree, done)
    failed = [name for name, result in done.items() if not result["passed"]]
    print(f"{len(done) - len(failed)} slices passed, {len(failed)} failed {' '.join(failed)}")
    return 1 if failed else 0


def _run(part: Slice) -> dict[str, Any]:
    start = time.monotonic()
    process = subprocess.Popen(part.command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    tail: list[str] = []
    with process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            tail = [*tail[-14:], line.rstrip()]
    return {"passed": process.returncode == 0, "seconds": round(time.monotonic() - start, 1), "ended_with": tail}


def _finished(tree: str) -> dict[str, Any]:
    if not PROGRESS.exists():
        return {}
    kept = json.loads(PROGRESS.read_text())
    return {name: r for name, r in kept["slices"].items() if r["passed"]} if kept["tree"] == tree else {}


def _remember(tree: str, done: dict[str, Any]) -> None:
    PROGRESS.parent.mkdir(exist_ok=True)
    PROGRESS.write_text(json.dumps({"tree": tree, "slices": done}))
    RESULTS.mkdir(exist_ok=True)
    kept = RESULTS / "test-full.json"
    before = json.loads(kept.read_text()) if kept.exists() else {}
    rows = {name: {**result, "tree": tree} for name, result in done.items()}
    kept.write_text(json.dumps(before | rows, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
