"""Files that verbs write: all of a file or nothing of it."""

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path

from ullage.errors import UserError


def write_whole(path: Path, text: bytes, option: str) -> None:
    """Write all or nothing: a full disk or Ctrl-C leaves the old content. A link stays one; a device is written to.

    Raises UserError that names the option.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(text)
        else:
            _swap(path.resolve(), text)
    except OSError as error:
        raise UserError(f"{option} {path}: {error.strerror}; choose a file in a folder you can write to") from error


def check_writable(path: Path, option: str) -> None:
    """Check before work that takes long that its result can be written. Raises UserError that names the option."""
    beside = path.resolve().with_name(f".{path.name}.part")
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not path.exists() or path.is_file():
            beside.touch()
            beside.unlink()
    except OSError as error:
        raise UserError(f"{option} {path}: {error.strerror}; choose a file in a folder you can write to") from error


def _swap(path: Path, text: bytes) -> None:
    beside = path.with_name(f".{path.name}.part")
    try:
        beside.write_bytes(text)
        if path.exists():
            shutil.copymode(path, beside)
        beside.replace(path)
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
