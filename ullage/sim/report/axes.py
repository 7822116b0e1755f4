"""Axes: round values to mark, positions of values, and numbers and times as text."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_TIMES = (("d", 86_400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))
_TIME_STEPS = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 432_000,
    604_800, 864_000, 1_728_000, 2_592_000, 5_184_000, 8_640_000, 17_280_000, 31_536_000,
)  # fmt: skip
_LOG_TIMES = (0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 36_000.0, 86_400.0, 864_000.0, 8_640_000.0, 86_400_000.0)


@dataclass(frozen=True, slots=True)
class PlotAxis:
    """A range of values, and the values to mark."""

    low: float
    high: float
    marks: tuple[float, ...]
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """Position of a value on the axis, from 0 to 1."""
        if self.logarithmic:
            low, high = math.log10(self.low), math.log10(self.high)
            return (math.log10(max(value, self.low)) - low) / (high - low)
        return (value - self.low) / (self.high - self.low)


def linear(highest: float) -> PlotAxis:
    """From 0 to a round number above all values."""
    if highest <= 0:
        return PlotAxis(0.0, 1.0, (0.0, 1.0))
    rough = highest / 5
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in _STEPS if size * factor >= rough * 0.999)
    count = math.ceil(highest / step - 1e-9)
    return PlotAxis(0.0, step * count, tuple(step * n for n in range(count + 1)))


def logarithmic_time(values: Sequence[float]) -> PlotAxis:
    """Axis of round times up to the first above all values.

    Times below a tenth of a second are put at the lower end.
    """
    highest = max([*values, _LOG_TIMES[1]])
    top = next((mark for mark in _LOG_TIMES if mark >= highest), highest)
    marks = tuple(mark for mark in _LOG_TIMES if mark <= top)
    return PlotAxis(_LOG_TIMES[0], top, marks, logarithmic=True)


def time_axis(seconds: float) -> PlotAxis:
    """From 0 to the end, marked at round times."""
    end = max(seconds, 1.0)
    step = next((float(one) for one in _TIME_STEPS if end / one <= 8), end / 8)
    return PlotAxis(0.0, end, tuple(step * n for n in range(int(end / step) + 1)))


def spoken_time(seconds: float) -> str:
    """`2 d`, `90 min`, `0.3 s`: in the largest unit that gives at least 1."""
    for unit, size in _TIMES:
        if seconds >= size:
            return f"{spoken(seconds / size)} {unit}"
    return f"{spoken(seconds)} s"


def spoken(value: float) -> str:
    """A number with three significant digits."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
