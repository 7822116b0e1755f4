"""Parser of whole HTTP/1.1 responses, limited to what API servers send. Independent of sockets.

Streams are not read here.
"""

import re
from dataclasses import dataclass

_END_OF_HEAD = b"\r\n\r\n"
_LONGEST_HEAD = 2**16
_LONGEST_CHUNK_LINE = 2**10
_WITHOUT_BODY = frozenset((204, 304))
_HEXADECIMAL = re.compile(rb"[0-9A-Fa-f]+").fullmatch


class NotHttp(Exception):
    """The bytes received are not an HTTP response."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """One HTTP response, of any status."""

    status: int
    body: bytes
    retry_after: str = ""
    """Value of the Retry-After header, as sent."""
    reusable: bool = True
    """True if the connection may carry another call."""


class HttpResponseReader:
    """Reads one response. The cost is linear, however the response is split."""

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

    def feed(self, data: bytes) -> HttpResponse | None:
        """Take bytes; return the response if they complete it. Raises NotHttp."""
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

    def end(self) -> HttpResponse | None:
        """Take the end of the connection; return the response if its body ends with the connection."""
        return self._whole() if self._status and self._until_closed else None

    def _read_head(self, data: bytes) -> bytes | None:
        """Read the head and return the bytes after it; None while the head is incomplete."""
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
            # An informational response (1xx) precedes the final one.
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

    def _read_chunks(self, data: bytes) -> HttpResponse | None:
        """Read a chunked body: each chunk is a line with its length, its bytes and a line end; length zero ends it."""
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
        """Parse a line with a chunk's length. It begins with the line end of the previous chunk, if there is one."""
        digits = line.removeprefix(b"\r\n").partition(b";")[0].strip()
        if not _HEXADECIMAL(digits):
            raise NotHttp(f"the length of a chunk is {line[:40]!r}")
        return int(digits, 16)

    def _last_chunk(self, data: bytes, at: int, after_size: int) -> HttpResponse | None:
        end = data.find(_END_OF_HEAD, after_size)
        if end < 0:
            self._torn = data[at:]
            return None
        return self._whole(extra=len(data) - end - len(_END_OF_HEAD))

    def _whole(self, extra: int = 0) -> HttpResponse:
        """Return the complete response. With bytes beyond its end, the connection is not reused."""
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        if extra and not self._chunked:
            body = body[:-extra]
        return HttpResponse(
            self._status,
            body,
            self._headers.get(b"retry-after", b"").decode("latin-1"),
            self._reusable and not extra and not self._until_closed,
        )
