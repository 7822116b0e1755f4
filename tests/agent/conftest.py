"""The stand-in driver as fixtures."""

import ctypes
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.agent.driver import Driver, NoCompiler, compiled
from ullage.agent.nvml.reader import NvmlReader

OpenReader = Callable[..., Awaitable[NvmlReader]]
"""Opens one, with so many seconds for a call."""


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled once, for the whole run."""
    try:
        return compiled(tmp_path_factory.mktemp("nvml"))
    except NoCompiler as missing:
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))


@pytest.fixture
def driver(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    """The driver of this process, with no GPUs yet."""
    # Once it is loaded by its path, a later load by its name finds it: that is what its soname is for.
    ctypes.CDLL(str(nvml_library))
    scenario = tmp_path / "scenario"
    monkeypatch.setenv("ULLAGE_NVML_SCENARIO", str(scenario))
    driver = Driver(nvml_library, scenario)
    driver.write([])
    yield driver
    driver.write([])  # whatever hangs comes back


@pytest.fixture
async def open_reader(driver: Driver) -> AsyncIterator[OpenReader]:
    """Readers that are closed again, after nothing hangs any more."""
    opened: list[NvmlReader] = []

    async def open_one(limit: float = 30.0) -> NvmlReader:
        opened.append(await NvmlReader.open(limit=limit))
        return opened[-1]

    yield open_one
    driver.no_longer("hang")
    for reader in opened:
        await reader.close()
