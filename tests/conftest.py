"""For all tests: how properties are tried."""

from hypothesis import HealthCheck, settings

# How fast inputs are made and tried says something of a busy machine, and nothing of the code.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
