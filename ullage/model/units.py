"""Units of time in core signatures: an instant, a length of time, and arithmetic between them."""

from typing import NewType

Instant = NewType("Instant", float)
"""Seconds since the Unix epoch, by the clock in charge. May go back when the clock is set."""
Seconds = NewType("Seconds", float)
"""A length of time."""


def after(start: float, delay: float) -> Instant:
    """Instant `delay` seconds after `moment`."""
    return Instant(start + delay)


def elapsed(since: float, now: float) -> Seconds:
    """Seconds since an instant. Never negative: a clock set back gives 0."""
    return Seconds(max(0.0, now - since))
