"""Moments as Kubernetes writes them: whole seconds for objects, microseconds for leases."""

from datetime import UTC, datetime

from ullage.clock import Instant


def stamp(now: Instant) -> str:
    """`2026-01-02T03:04:05Z`: what metav1.Time keeps of a moment."""
    return datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def fine_stamp(now: Instant) -> str:
    """With microseconds, as leases carry them."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def instant(text: str) -> Instant:
    """The moment a timestamp names."""
    return Instant(datetime.fromisoformat(text).timestamp())


def instant_or(text: str | None, otherwise: Instant) -> Instant:
    """The same for a field that may be absent."""
    return instant(text) if text else otherwise
