"""Pacing of what is done again and again. Pure: the clock is an argument, and it may go back."""


def is_due(last: float | None, every: float, *, now: float) -> bool:
    """True if `every` seconds have passed since `last`, if there was no last time, or if the clock went back."""
    return last is None or now < last or now >= last + every
