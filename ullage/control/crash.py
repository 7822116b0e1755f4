"""End of a process whose state is wrong: a dump for the report, its path in the log, and exit code 70.

A broken invariant is a bug. To go on would be to act on a state that cannot be, so the process ends; Kubernetes starts
it again, and all it knows is read anew. Used at the top of every process that runs until stopped.
"""

import os
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import structlog

from ullage import __version__
from ullage.clock import WallClock
from ullage.errors import InvariantBroken
from ullage.state.cluster import ClusterState
from ullage.state.dump import dump

EXIT_CODE = 70
"""EX_SOFTWARE of sysexits.h: an internal error."""

_log = structlog.get_logger("crash")


class CrashDump:
    """Dump of one process: error, traceback and, where the process has one, the cluster state it decided on."""

    def __init__(self, process: str, folder: Path | None = None) -> None:
        """`folder` is that for temporary files by default, which TMPDIR names."""
        self._process = process
        self._folder = folder
        self._state: bytes | None = None

    @contextmanager
    def capturing(self, state: Callable[[], ClusterState]) -> Iterator[None]:
        """Keep the cluster state for the dump when an invariant breaks in the block: clean-up after it may drop it."""
        try:
            yield
        except BaseException as error:
            if broken_invariant(error) is not None:
                self._state = dump(state(), now=WallClock().now())
            raise

    def write(self, error: BaseException) -> int:
        """Write the dump of a broken invariant, log its path, and return the exit code of the process."""
        broken = broken_invariant(error)
        try:
            path = self._written(error)
        except OSError as failure:
            _log.critical("invariant broken", error=str(broken), dump="", dump_error=str(failure), next=_NEXT)
        else:
            _log.critical("invariant broken", error=str(broken), dump=str(path), next=_NEXT)
        return EXIT_CODE

    def _written(self, error: BaseException) -> Path:
        now = WallClock().now()
        folder = Path(tempfile.gettempdir()) if self._folder is None else self._folder
        path = folder / f"ullage-{self._process}-crash-{int(now)}-{os.getpid()}.json"
        content = {
            "process": self._process,
            "version": __version__,
            "at": now,
            "error": str(broken_invariant(error)),
            "traceback": traceback.format_exception(error),
            "state": None if self._state is None else msgspec.Raw(self._state),
        }
        # Only its owner may read it: it names pods, nodes and claims.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(msgspec.json.encode(content))
        return path


_NEXT = "report it with the dump; `state` of the dump is read by `ullage replay`"


def broken_invariant(error: BaseException) -> InvariantBroken | None:
    """Return the broken invariant behind an error, however deep in groups; None if there is none."""
    if isinstance(error, InvariantBroken):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next((found for one in error.exceptions if (found := broken_invariant(one)) is not None), None)
    return None
