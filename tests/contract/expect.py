"""How the contract says what it expects: refusals in full, and what becomes true in a moment."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import pytest

from ullage.errors import ApiError, Invalid

T = TypeVar("T")

SOON_SECONDS = 10.0
PAUSE_SECONDS = 0.02


@contextmanager
def refused(
    kind: type[ApiError], *, reason: str, says: str = "", causes: Sequence[tuple[str, str]] | None = None
) -> Iterator[None]:
    """The block ends in exactly this error: its type, the Status' reason, part of the message, the fields objected to.

    Causes are (field, reason) pairs. A server may object to a field twice; that is one objection.
    """
    with pytest.raises(ApiError) as caught:
        yield
    error = caught.value
    assert type(error) is kind, f"{type(error).__name__}: {error}"
    assert (error.code, error.reason) == (kind.code, reason), error.message
    assert says in error.message
    if causes is not None:
        assert isinstance(error, Invalid)
        assert sorted({(cause.field, cause.reason) for cause in error.causes}) == sorted(causes), error.message


async def eventually(
    attempt: Callable[[], Awaitable[T]], until: Callable[[T], bool], seconds: float = SOON_SECONDS
) -> T:
    """Ask until the answer will do: for what a server does after it has answered, such as serving a new kind."""
    async with asyncio.timeout(seconds):
        while not until(answer := await attempt()):  # noqa: ASYNC110 - nobody tells when a server is through
            await asyncio.sleep(PAUSE_SECONDS)
        return answer
