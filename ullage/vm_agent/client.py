"""Permit requests to the scheduler: one POST each, over any Transport. Connections, trust and tokens of the real one.

A request is never sent twice from here. The state machine decides when to ask again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ullage.errors import Unreachable, UserError
from ullage.kube.auth.credentials import Credential, Credentials, FileCredentials, FixedCredentials, bearer, read_token
from ullage.kube.auth.tls import Pem, ServerTrust
from ullage.kube.client.transport import Request, Response, Transport
from ullage.kube.http.http import Endpoint, HttpTransport
from ullage.model.vm import VmRefusal
from ullage.protocol.vm_permits import BadAnswer, PermitAnswer, PermitMessage, read_answer, rejection, write_request

_LOST = (421, 502, 503, 504)
"""Answers that say: another replica, or later."""
_LONGEST_DETAIL = 200
_MOST_BYTES = 64 << 10
_TRUST_SECONDS = 60.0


class AskTrouble(StrEnum):
    """Reasons for a request without a permit."""

    UNREACHABLE = "unreachable"
    """No answer, or that of a replica that does not lead."""
    UNAUTHORIZED = "unauthorized"
    REFUSED = "refused"
    MIGRATING = "migrating"
    """The VM is being moved and keeps its size."""
    FAILED = "failed"
    MALFORMED = "malformed"
    INVALID = "invalid"
    """A permit that is 0, above the request, or below what the VM uses."""


@dataclass(frozen=True, slots=True)
class AskFailure:
    trouble: AskTrouble
    detail: str


class PermitClient:
    """Asks for permits through one transport."""

    def __init__(self, transport: Transport, *, timeout: float = 5.0) -> None:
        self._transport = transport
        self.timeout = timeout

    async def ask(self, message: PermitMessage, memory_slot: int) -> PermitAnswer | AskFailure:
        """Send one request. Every end is a result."""
        request = Request("POST", "/", body=write_request(message), timeout=self.timeout)
        try:
            async with asyncio.timeout(self.timeout + 1.0):
                response = await self._transport.send(request)
        except TimeoutError:
            return AskFailure(AskTrouble.UNREACHABLE, "no answer in time")
        except Unreachable as error:
            return AskFailure(AskTrouble.UNREACHABLE, error.message)
        if response.status != 200:
            return _failure(response)
        if len(response.body) > _MOST_BYTES:
            return AskFailure(AskTrouble.MALFORMED, f"the answer has {len(response.body)} bytes")
        try:
            return read_answer(message, response.body, memory_slot)
        except BadAnswer as error:
            return AskFailure(AskTrouble.MALFORMED, str(error))

    async def close(self) -> None:
        await self._transport.close()


_MOVING = rejection(VmRefusal.MIGRATING)


def _failure(response: Response) -> AskFailure:
    text = response.body[:_LONGEST_DETAIL].decode("utf-8", errors="replace").strip()
    detail = f"{response.status} {text}".strip()
    if (response.status, text) == (_MOVING.status, _MOVING.text):
        return AskFailure(AskTrouble.MIGRATING, detail)
    if response.status == 401:
        return AskFailure(AskTrouble.UNAUTHORIZED, detail)
    if response.status in _LOST:
        return AskFailure(AskTrouble.UNREACHABLE, detail)
    return AskFailure(AskTrouble.REFUSED if 400 <= response.status < 500 else AskTrouble.FAILED, detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerAddress:
    """Replicas of the scheduler, and the credentials of the agent."""

    servers: Sequence[str]
    """URLs. One of a Service is enough: a failed connection is made anew, perhaps to another replica."""
    authority: Path | None = None
    """CA certificates to trust, in PEM; None: those of the machine."""
    server_name: str = ""
    token: Path | None = None
    """Projected ServiceAccount token, read again as kubelet renews it."""


@dataclass(slots=True)
class _Line:
    """Connections to one replica. Once retired they are closed when the last call ends."""

    transport: HttpTransport
    trusted: bytes | None
    calls: int = 0
    retired: bool = False


class SchedulerTransport:
    """Transport to the replica that leads: the next one is tried after a failure. The CA file is read again."""

    def __init__(
        self, address: SchedulerAddress, open_line: Callable[[Endpoint, Credentials], HttpTransport] = HttpTransport
    ) -> None:
        if not address.servers:
            raise UserError("no scheduler to ask: give its URL with --scheduler")
        self._address = address
        self._open_line = open_line
        self._credentials = _credentials(address.token)
        self._turn = 0
        self._line: _Line | None = None
        self._lines: list[_Line] = []
        self._trust_read_at = 0.0

    async def send(self, request: Request) -> Response:
        line = self._current()
        line.calls += 1
        try:
            response = await line.transport.send(request)
        except Unreachable:
            self._give_up(line)
            raise
        finally:
            line.calls -= 1
            await self._closed_if_done(line)
        if response.status in _LOST:
            self._give_up(line)
        return response

    def stream(self, request: Request) -> AsyncIterator[Sequence[bytes]]:
        raise NotImplementedError("the scheduler streams nothing")

    async def close(self) -> None:
        lines, self._lines, self._line = self._lines, [], None
        for line in lines:
            await line.transport.close()

    def _current(self) -> _Line:
        now = asyncio.get_running_loop().time()
        if self._line is not None and now >= self._trust_read_at + _TRUST_SECONDS:
            self._trust_read_at = now
            if self._trusted(self._line.trusted) != self._line.trusted:
                self._retire(self._line)
        if self._line is None:
            self._trust_read_at = now
            self._line = self._opened(self._trusted(None))
            self._lines.append(self._line)
        return self._line

    def _opened(self, trusted: bytes | None) -> _Line:
        server = self._address.servers[self._turn % len(self._address.servers)]
        pem = None if trusted is None else Pem(trusted, str(self._address.authority))
        trust = ServerTrust(authority=pem, server_name=self._address.server_name)
        return _Line(self._open_line(Endpoint(server, trust), self._credentials), trusted)

    def _trusted(self, kept: bytes | None) -> bytes | None:
        """Read the CA file; `kept` where it cannot be read just now: it may be half replaced."""
        if self._address.authority is None:
            return None
        try:
            return self._address.authority.read_bytes()
        except OSError as error:
            if kept is None:
                raise Unreachable(f"{self._address.authority}: {error.strerror}; give a readable CA file") from error
            return kept

    def _give_up(self, line: _Line) -> None:
        """Use another connection from now on, and the next replica. Others that failed on the same line do nothing."""
        if self._line is line:
            self._turn += 1
            self._retire(line)

    def _retire(self, line: _Line) -> None:
        line.retired = True
        if self._line is line:
            self._line = None

    async def _closed_if_done(self, line: _Line) -> None:
        if line.retired and not line.calls and line in self._lines:
            self._lines.remove(line)
            await line.transport.close()


def _credentials(token: Path | None) -> Credentials:
    if token is None:
        return FixedCredentials(Credential(), "an agent without a token")
    origin = "--token-file"
    return FileCredentials(lambda: Credential(bearer(read_token(token, origin))), f"the token in {token}")
