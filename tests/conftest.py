"""For all tests: how properties are tried, and that no test leaves its logging to the next.

`make test` tries the same examples of a property each time: what was green stays green until something changes.
`make test-full` tries others each time, and prints what it found.
"""

from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings

# How fast inputs are made and tried says something of a busy machine, and nothing of the code.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same examples", _PATIENT, derandomize=True, database=None)
settings.register_profile("other examples", _PATIENT, print_blob=True)
settings.load_profile("same examples")


def pytest_configure(config: pytest.Config) -> None:
    """Choose examples before any test is imported: a test's own settings are made from the profile in force."""
    settings.load_profile("other examples" if config.getoption("--full", default=False) else "same examples")


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Commands that run in the test's own process configure logging for all of it."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)
