"""Units in core signatures: instants, lengths of time, shares and bytes, and arithmetic between instants.

NewTypes cost nothing at run time and stop at the edge of NumPy arrays. A length of time is no instant, and a number of
milli-GPUs is no number of bytes: mypy refuses one for the other.
"""

from typing import NewType

Instant = NewType("Instant", float)
"""Seconds since the Unix epoch, by the clock in charge. May go back when the clock is set."""
Seconds = NewType("Seconds", float)
"""A length of time."""
Steady = NewType("Steady", float)
"""Seconds of a clock that only goes forward, from an origin of its own. Comparable only within one process."""
Milli = NewType("Milli", int)
"""Thousandths: of a GPU, or of a CPU core."""
Bytes = NewType("Bytes", int)
"""An amount of memory or storage."""
Micros = NewType("Micros", int)
"""Millionths of a unit of money."""


def after(start: Instant, delay: Seconds) -> Instant:
    """Instant `delay` after `start`."""
    return Instant(start + delay)


def elapsed(since: Instant, now: Instant) -> Seconds:
    """Seconds since an instant. Never negative: a clock set back gives 0."""
    return Seconds(max(0.0, now - since))
