"""One browser for all tests of a file."""

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser

from tests.web.chromium import browser


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium() -> AsyncIterator[Browser]:
    """One browser for all; each test has a profile of its own."""
    async with browser() as opened:
        yield opened
