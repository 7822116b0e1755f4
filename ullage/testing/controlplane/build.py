"""Builds the pinned programs into the per-user cache, and copies Karpenter's CRDs beside them.

Each program is moved into place whole, so an interrupted build goes on where it stopped; a lock makes a second builder
wait for the first and find its work done.
"""

import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ullage.errors import UserError
from ullage.testing.controlplane import binaries, toolchain
from ullage.testing.controlplane.versions import BUILD_FLAGS, MODULES, SOURCES, GoProgram, linker_flags

Say = Callable[[str], None]

FREE_BYTES_NEEDED = 1024**3
"""The binaries take half of it. A cold build fills Go's own caches with 6 GiB more, a warm one with nothing."""
CRD_FOLDERS = ("kwok/charts/crds", "kwok/apis/crds")
"""Inside Karpenter's module: the shared kinds as the kwok provider restricts them, and the provider's own."""

_NETWORK_TROUBLE = (
    "dial tcp", "no such host", "i/o timeout", "TLS handshake", "connection refused", "proxyconnect",
    "Forbidden", "Bad Gateway", "Service Unavailable", "unexpected EOF", "connection reset",
)  # fmt: skip


class BuildFailed(UserError):
    """A program could not be built; the text says what to do next."""


def build(programs: Sequence[GoProgram], say: Say, environment: Mapping[str, str] = os.environ) -> Path:
    """Build what is not built yet and return the folder of the binaries."""
    folder = binaries.cache_folder(environment)
    programs = _not_given(programs, environment, say)
    if not _missing(programs, folder):
        say(f"nothing to do: {len(programs)} programs are in {folder / 'bin'}\n")
        return folder / "bin"
    try:
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        with _only_builder(folder, say):
            _build_missing(programs, folder, say, environment)
    except OSError as error:
        raise BuildFailed(
            f"cannot write to {folder} ({error.strerror or error}); free some space there or name another "
            f"cache with XDG_CACHE_HOME, then run `make controlplane` again"
        ) from error
    return folder / "bin"


def _not_given(programs: Sequence[GoProgram], environment: Mapping[str, str], say: Say) -> list[GoProgram]:
    """Programs the user does not bring along: those in the named folder are used as they are."""
    named = environment.get(binaries.BIN_VARIABLE)
    if not named:
        return list(programs)
    given = [program for program in programs if _is_given(program, Path(named))]
    if given:
        say(f"taken from {named}: {', '.join(program.value for program in given)}\n")
    return [program for program in programs if program not in given]


def _is_given(program: GoProgram, folder: Path) -> bool:
    crds_are_there = program is not GoProgram.KARPENTER or any((folder.parent / "crds").glob("*.yaml"))
    return crds_are_there and os.access(folder / program.value, os.X_OK)


def is_built(program: GoProgram, folder: Path) -> bool:
    """True if the cache has the program, and for Karpenter its CRDs too."""
    crds_are_there = program is not GoProgram.KARPENTER or (folder / "crds").is_dir()
    return crds_are_there and (folder / "bin" / program.value).is_file()


def _missing(programs: Sequence[GoProgram], folder: Path) -> list[GoProgram]:
    return [program for program in programs if not is_built(program, folder)]


def _build_missing(programs: Sequence[GoProgram], folder: Path, say: Say, environment: Mapping[str, str]) -> None:
    missing = _missing(programs, folder)
    if not missing:
        say(f"nothing to do: another build put the programs into {folder / 'bin'} meanwhile\n")
        return
    _check_disk(folder)
    partial = folder / "partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    go = toolchain.find_go(say, environment)
    say(f"building {len(missing)} of {len(programs)} programs into {folder / 'bin'} (about 10 minutes when cold)\n")
    for number, program in enumerate(programs, start=1):
        say(f"[{number}/{len(programs)}] {program} ... ")
        if program not in missing:
            say("already built\n")
            continue
        began = time.monotonic()
        try:
            _build_one(go, program, folder, environment)
        except (BuildFailed, OSError):
            say("failed\n")
            raise
        say(f"{time.monotonic() - began:.0f} s\n")
    shutil.rmtree(partial, ignore_errors=True)


def _build_one(go: Path, program: GoProgram, folder: Path, environment: Mapping[str, str]) -> None:
    source = SOURCES[program]
    product = folder / "partial" / program.value
    arguments = ["build", *BUILD_FLAGS, "-ldflags", linker_flags(program), "-o", str(product), source.package]
    _run_go(go, arguments, program, folder, environment)
    if program is GoProgram.KARPENTER:
        _copy_crds(go, folder, environment)
    product.replace(folder / "bin" / program.value)


def _copy_crds(go: Path, folder: Path, environment: Mapping[str, str]) -> None:
    arguments = ["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/karpenter"]
    module = Path(_run_go(go, arguments, GoProgram.KARPENTER, folder, environment).strip())
    partial = folder / "partial" / "crds"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    for crd_folder in CRD_FOLDERS:
        for path in sorted((module / crd_folder).glob("*.yaml")):
            # Contents only: the module cache is read-only, our copy must be removable.
            shutil.copyfile(path, partial / path.name)
    shutil.rmtree(folder / "crds", ignore_errors=True)
    partial.rename(folder / "crds")


def _run_go(
    go: Path, arguments: Sequence[str], program: GoProgram, folder: Path, environment: Mapping[str, str]
) -> str:
    settings = {"CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "", "GOTOOLCHAIN": "local"}
    with subprocess.Popen(
        [str(go), *arguments],
        cwd=MODULES / SOURCES[program].module,
        env={**environment, **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            output, complaint = process.communicate()
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise BuildFailed(_explain(program, complaint, folder))
    return output


def _explain(program: GoProgram, complaint: str, folder: Path) -> str:
    log = folder / f"{program.value}.build.log"
    with suppress(OSError):
        log.write_text(complaint)
    again = "then run `make controlplane` again (what is built is kept)"
    if "no space left on device" in complaint:
        return f"the disk is full while building {program}; free about 7 GiB, {again}"
    last = (complaint.strip().splitlines() or ["go said nothing"])[-1].strip()
    if any(sign in complaint for sign in _NETWORK_TROUBLE):
        return f"the Go modules of {program} could not be downloaded ({last}); check the network or GOPROXY, {again}"
    return f"{program} does not build ({last}); the compiler's whole output is in {log}"


def _check_disk(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < FREE_BYTES_NEEDED:
        raise BuildFailed(
            f"{free / 1024**3:.1f} GiB are free at {folder} and the programs need about "
            f"{FREE_BYTES_NEEDED / 1024**3:.0f} GiB; free some space or name another cache with XDG_CACHE_HOME"
        )


@contextmanager
def _only_builder(folder: Path, say: Say) -> Iterator[None]:
    """Holds the build lock of this folder; the kernel drops it however the builder ends."""
    with open(folder / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another build is under way; waiting for it\n")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
