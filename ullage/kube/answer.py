"""Bytes of a connection to whole HTTP/1.1 answers. Knows nothing of sockets, and only what an API server says in them.

Streams are not read here: this is for answers that are wanted whole.
"""

import re
from dataclasses import dataclass

_END_OF_HEAD = b"\r\n\r\n"
_LONGEST_HEAD = 2**16
_LONGEST_CHUNK_LINE = 2**10
_WITHOUT_BODY = frozenset((204, 304))
_HEXADECIMAL = re.compile(rb"[0-9A-Fa-f]+").fullmatch


class NotHttp(Exception):
    """What came is not an HTTP answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, whatever its status."""

    status: int
    body: bytes
    retry_after: str = ""
    """The header, as it was sent."""
    reusable: bool = True
    """Whether the connection may carry another call."""


class AnswerReader:
    """Reads the one answer that is due. Cost is linear, however the answer is torn."""

    def __init__(self) -> None:
        self._torn = b""
        self._status = 0
        self._headers: dict[bytes, bytes] = {}
        self._parts: list[bytes] = []
        self._missing = 0
        """Bytes of the body, or of the current chunk, that are still to come."""
        self._chunked = False
        self._until_closed = False
        self._reusable = True

    def feed(self, data: bytes) -> Answer | None:
        """The answer, if these bytes complete it. Raises NotHttp."""
        if not self._status:
            rest = self._read_head(data)
            if rest is None:
                return None
            data = rest
        if self._chunked:
            return self._read_chunks(data)
        if data:
            self._parts.append(data)
            self._missing -= len(data)
        if self._until_closed or self._missing > 0:
            return None
        return self._whole(extra=-self._missing)

    def end(self) -> Answer | None:
        """The connection was closed: the answer, if that is how its end is told."""
        return self._whole() if self._status and self._until_closed else None

    def _read_head(self, data: bytes) -> bytes | None:
        """What follows the head; None as long as it is not complete."""
        data = self._torn + data if self._torn else data
        while True:
            end = data.find(_END_OF_HEAD)
            if end < 0:
                if not data.startswith(b"HTTP/1."[: len(data)]) or len(data) > _LONGEST_HEAD:
                    raise NotHttp(f"it begins {data[:40]!r}")
                self._torn = data
                return None
            self._take_head(data[:end])
            data = data[end + len(_END_OF_HEAD) :]
            if self._status >= 200:
                self._torn = b""
                return data
            # Only announces the answer.
            self._status, self._torn = 0, b""

    def _take_head(self, head: bytes) -> None:
        first, *lines = head.split(b"\r\n")
        version, _, rest = first.partition(b" ")
        if version not in (b"HTTP/1.1", b"HTTP/1.0") or not rest[:3].isdigit():
            raise NotHttp(f"it begins {first[:40]!r}")
        self._status = int(rest[:3])
        self._headers = headers = {}
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon:
                raise NotHttp(f"a header is {line[:40]!r}")
            headers[name.lower()] = value.strip()
        self._reusable = version == b"HTTP/1.1" and headers.get(b"connection", b"").lower() != b"close"
        self._chunked = headers.get(b"transfer-encoding", b"").lower() == b"chunked"
        length = headers.get(b"content-length", b"0" if self._status in _WITHOUT_BODY else b"")
        self._until_closed = not self._chunked and not length
        if length and not length.isdigit():
            raise NotHttp(f"content-length is {length[:40]!r}")
        self._missing = 0 if self._chunked else int(length or 0)

    def _read_chunks(self, data: bytes) -> Answer | None:
        """Each chunk is its length in a line, its bytes and a line's end; one of length zero ends the body."""
        data = self._torn + data if self._torn else data
        self._torn = b""
        at, end = 0, len(data)
        while True:
            if self._missing:
                part = data[at : at + self._missing]
                self._parts.append(part)
                at += len(part)
                self._missing -= len(part)
                if self._missing:
                    return None
            after_size = data.find(b"\r\n", at + 2 if self._parts else at)
            if after_size < 0:
                if end - at > _LONGEST_CHUNK_LINE:
                    raise NotHttp("a chunk without a length")
                self._torn = data[at:]
                return None
            size = self._chunk_size(data[at:after_size])
            if not size:
                return self._last_chunk(data, at, after_size)
            self._missing = size
            at = after_size + 2

    def _chunk_size(self, line: bytes) -> int:
        """The length said in a line, which all but the first chunk precede by the line's end of their predecessor."""
        digits = line.removeprefix(b"\r\n").partition(b";")[0].strip()
        if not _HEXADECIMAL(digits):
            raise NotHttp(f"the length of a chunk is {line[:40]!r}")
        return int(digits, 16)

    def _last_chunk(self, data: bytes, at: int, after_size: int) -> Answer | None:
        end = data.find(_END_OF_HEAD, after_size)
        if end < 0:
            self._torn = data[at:]
            return None
        return self._whole(extra=len(data) - end - len(_END_OF_HEAD))

    def _whole(self, extra: int = 0) -> Answer:
        """Bytes beyond the answer were not asked for: such a connection is not to be trusted with another call."""
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        if extra and not self._chunked:
            body = body[:-extra]
        return Answer(
            self._status,
            body,
            self._headers.get(b"retry-after", b"").decode("latin-1"),
            self._reusable and not extra and not self._until_closed,
        )
