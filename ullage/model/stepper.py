"""Stepper: a computation in small steps, so that the thread that runs it can do other work in between. Pure.

A stepper yields the modelled CPU cost of the step it has just made. It is sent True while there is time for more;
when it is sent False it ends soon with the best result it has. What it returns is the result.
"""

from collections.abc import Callable, Generator, Iterable
from heapq import merge
from typing import Any, TypeVar

from ullage.model.units import Seconds

T = TypeVar("T")

Stepper = Generator[Seconds, bool, T]
"""Yields the modelled cost of each step, is sent True while there is time for more, returns the result."""


STEP = Seconds(0.004)
"""Modelled CPU time of one step: no more than the 5 ms after which other tasks run."""


_RUN, _SORT_COST = 1_000, 0.000_002
"""Things sorted in one piece, and modelled CPU seconds for each thing."""


class StepMeter:
    """Adds up the modelled cost of small pieces of work, until they make a step."""

    def __init__(self) -> None:
        self._spent = 0.0
        self.has_time = True
        """Last value the stepper was sent: False if it has to end soon."""

    def spend(self, cost: Seconds) -> bool:
        """Add the cost of a piece of work. True if a step is full: time to yield `take`."""
        self._spent += cost
        return self._spent >= STEP

    def take(self) -> Seconds:
        """Return the cost since the last step, and begin another."""
        spent, self._spent = self._spent, 0.0
        return Seconds(spent)


def sort_in_steps(things: Iterable[T], key: Callable[[T], Any], meter: StepMeter) -> Stepper[list[T]]:
    """Sort in steps. The keys must be different, or equal things alike."""
    everything = list(things)
    runs = []
    for first in range(0, len(everything), _RUN):
        runs.append(sorted(everything[first : first + _RUN], key=key))
        if len(everything) > _RUN and meter.spend(Seconds(_SORT_COST * _RUN)):
            yield meter.take()
    if len(runs) <= 1:
        return runs[0] if runs else []
    found: list[T] = []
    for thing in merge(*runs, key=key):
        found.append(thing)
        if meter.spend(Seconds(_SORT_COST)):
            yield meter.take()
    return found


def begin(steps: Stepper[T], most: Seconds) -> tuple[T] | Stepper[T]:
    """Make steps until their modelled cost reaches `most`. Returns the result in a tuple, or the remaining steps."""
    spent = 0.0
    try:
        spent += next(steps)
        while spent < most:
            spent += steps.send(True)
    except StopIteration as done:
        return (done.value,)
    return _remaining(steps)


def _remaining(steps: Stepper[T]) -> Stepper[T]:
    """Steps of a stepper that was begun. It must not get None, which `next` sends."""
    has_time = True
    try:
        while True:
            has_time = yield steps.send(has_time)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        steps.close()


def finish(steps: Stepper[T]) -> T:
    """Run a stepper to its end at once, without a limit of time."""
    try:
        next(steps)
        while True:
            steps.send(True)
    except StopIteration as done:
        result: T = done.value
        return result
