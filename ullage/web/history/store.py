"""Bytes of a history: a file that one process owns, or memory. No records here: only reading, appending, replacing."""

import errno
import fcntl
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from ullage.errors import UserError
from ullage.web.history.records import FORMAT, HEADER, VERSION, read_header

_LONGEST_HEADER = 512


class HistoryStore(Protocol):
    """Bytes that grow at the end."""

    @property
    def size(self) -> int:
        """Bytes there are."""
        ...

    def read(self, offset: int, length: int) -> bytes: ...

    def append(self, data: bytes) -> None:
        """Add bytes at the end: all of them, or none. Raises OSError."""
        ...

    def cut(self, size: int) -> None:
        """Forget everything after the first `size` bytes. Raises OSError."""
        ...

    def replace(self, parts: Iterable[bytes]) -> None:
        """Have these bytes and no others, at one moment. Raises OSError, and then nothing has changed."""
        ...

    def is_ours(self) -> bool:
        """False if somebody removed, replaced or shortened what was written here."""
        ...

    def close(self) -> None: ...


class MemoryStore:
    """History that ends with the process."""

    def __init__(self) -> None:
        self._data = bytearray(HEADER)

    @property
    def size(self) -> int:
        return len(self._data)

    def read(self, offset: int, length: int) -> bytes:
        return bytes(self._data[offset : offset + length])

    def append(self, data: bytes) -> None:
        self._data += data

    def cut(self, size: int) -> None:
        del self._data[size:]

    def replace(self, parts: Iterable[bytes]) -> None:
        self._data = bytearray(b"".join(parts))

    def is_ours(self) -> bool:
        return True

    def close(self) -> None:
        self._data.clear()


class FileStore:
    """History in a file. A lock keeps a second process from writing to it."""

    def __init__(self, path: Path) -> None:
        """Open or create the file. Raises UserError if it is not a history, is in use, or cannot be written."""
        self.path = path
        self.set_aside = ""
        """Path a history of another version was moved to; empty if there was none."""
        try:
            self._file = self._opened()
        except OSError as error:
            raise UserError(f"--history-file: {path} cannot be opened: {error.strerror or error}") from error
        self._size = os.fstat(self._file).st_size

    @property
    def size(self) -> int:
        return self._size

    def read(self, offset: int, length: int) -> bytes:
        found = b""
        while len(found) < length and (part := os.pread(self._file, length - len(found), offset + len(found))):
            found += part
        return found

    def append(self, data: bytes) -> None:
        written = 0
        try:
            while written < len(data):
                written += os.pwrite(self._file, data[written:], self._size + written)
        except OSError:
            os.ftruncate(self._file, self._size)  # half a line is no line
            raise
        self._size += written

    def cut(self, size: int) -> None:
        os.ftruncate(self._file, size)
        self._size = size

    def replace(self, parts: Iterable[bytes]) -> None:
        """Write a new file beside the old one, then put it in its place."""
        beside = self.path.with_name(f"{self.path.name}.new")
        fresh = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fresh, fcntl.LOCK_EX | fcntl.LOCK_NB)
            size = 0
            for part in parts:
                while part:
                    done = os.write(fresh, part)
                    size, part = size + done, part[done:]
            os.fsync(fresh)
            os.replace(beside, self.path)
        except BaseException:
            os.close(fresh)
            beside.unlink(missing_ok=True)
            raise
        os.close(self._file)
        self._file, self._size = fresh, size

    def is_ours(self) -> bool:
        try:
            there, mine = os.stat(self.path), os.fstat(self._file)
        except OSError:
            return False
        return (there.st_ino, there.st_dev) == (mine.st_ino, mine.st_dev) and mine.st_size == self._size

    def close(self) -> None:
        os.close(self._file)

    def _opened(self) -> int:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = self._locked()
        first = os.pread(file, _LONGEST_HEADER, 0)
        line, end, _ = first.partition(b"\n")
        header = read_header(line) if end else None
        # A header that was cut off by a full disk is the beginning of ours.
        if first and header is None and not HEADER.startswith(first):
            os.close(file)
            raise UserError(f"--history-file: {self.path} exists and is no {FORMAT} file; name another one")
        if header is not None and header.version != VERSION:
            os.close(file)
            self.set_aside = f"{self.path}.v{header.version}"
            os.replace(self.path, self.set_aside)
            file = self._locked()
            header = None
        if header is None:
            os.ftruncate(file, 0)
            os.pwrite(file, HEADER, 0)
        return file

    def _locked(self) -> int:
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise UserError(
                    f"--history-file: {self.path} is in use by another process; stop it, or name another file"
                ) from error
            raise
        return file
