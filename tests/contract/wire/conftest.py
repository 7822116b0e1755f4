"""Every test of this folder runs twice over HTTP: on the simulated server and on the real one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.wire.asking import Wire, real_wire, simulated_wire


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.real)])
async def wire(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Wire]:
    if request.param == "simulated":
        async with simulated_wire() as entered:
            yield entered
        return
    async with real_wire(request.getfixturevalue("control_plane").kubeconfig, tmp_path) as entered:
        yield entered
