"""Stepper: a computation in small steps, so that the thread that runs it can do other work in between. Pure.

A stepper yields the modelled CPU cost of the step it has just made. It is sent True while there is time for more;
when it is sent False it ends soon with the best result it has. What it returns is the result.
"""

from collections.abc import Generator
from typing import TypeVar

from ullage.model.units import Seconds

T = TypeVar("T")

Stepper = Generator[Seconds, bool, T]
"""Yields the modelled cost of each step, is sent True while there is time for more, returns the result."""


def finish(steps: Stepper[T]) -> T:
    """Run a stepper to its end at once, without a limit of time."""
    try:
        next(steps)
        while True:
            steps.send(True)
    except StopIteration as done:
        result: T = done.value
        return result
