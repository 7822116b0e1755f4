"""For all tests: how properties are tried, and that no test leaves its logging to the next."""

from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings

# How fast inputs are made and tried says something of a busy machine, and nothing of the code.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Commands that run in the test's own process configure logging for all of it."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)
