"""A server of one's own for each test."""

import pytest

from tests.sim.apiserver.asking import Client, HandClock
from ullage.sim.apiserver.server import SimulatedApiServer


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def server(clock: HandClock) -> SimulatedApiServer:
    return SimulatedApiServer(clock, seed=7)


@pytest.fixture
def client(server: SimulatedApiServer) -> Client:
    return Client(server)
