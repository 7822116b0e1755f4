"""Timestamps as Kubernetes writes them, to and from seconds since the epoch."""

from datetime import UTC, datetime

from ullage.clock import Instant


def read_time(text: str | None) -> Instant:
    """RFC 3339, with or without fractions; 0 where there is none. Raises ValueError with the text in it."""
    if not text:
        return Instant(0.0)
    return Instant(datetime.fromisoformat(text).timestamp())


def write_time(instant: Instant) -> str:
    """Whole seconds: `metav1.Time`."""
    return datetime.fromtimestamp(int(instant), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_micro_time(instant: Instant) -> str:
    """Microseconds: `metav1.MicroTime`, as in Leases and Events."""
    return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
