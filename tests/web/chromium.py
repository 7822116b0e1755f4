"""A real browser for tests: the Chromium found on PATH, without a window. Nothing is ever installed."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser, ConsoleMessage, Error, Page, async_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def found() -> str:
    """Where the browser is. Without one the test is skipped; in CI that is a failure."""
    path = next(filter(None, map(shutil.which, NAMES)), "")
    if not path:
        missing = f"no browser: none of {', '.join(NAMES)} is on PATH"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return path


@asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=found(), args=list(FLAGS))
        try:
            yield opened
        finally:
            await opened.close()


class Complaints(list[str]):
    """What a page complains about: in its console, and by errors nobody caught."""

    def listen(self, page: Page) -> None:
        def said(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning"):
                self.append(f"{message.type}: {message.text}")

        def raised(error: Error) -> None:
            self.append(str(error))

        page.on("console", said)
        page.on("pageerror", raised)
