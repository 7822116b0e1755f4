"""Steady state of a run: the time between filling and emptying, and what held in it. Pure.

Filling ends by the MSER rule (White 1997): leave out as many of the first means as make the standard error of the rest
least, and at most half. Emptying begins with the last arrival.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ullage.sim.world.waits import PodWait, row

LEAST_POINTS = 20
"""Means over the series' width that a steady state has at least before the last arrival."""
_GROWS = 2.0
_GROWS_SHARE = 0.05

Columns = Mapping[str, Sequence[float]]


def steady_state(series: Columns, width: float, last_arrival: float, waits: Iterable[PodWait]) -> dict[str, Any]:
    """Figures of the steady state; `found` is false, with the reason, where there is none."""
    points = min(int(last_arrival // width), len(series["allocated"]))
    if points < LEAST_POINTS:
        return {"found": False, "why": f"jobs arrive for less than {LEAST_POINTS * width / 60:.0f} minutes"}
    first = warm_up(series["allocated"][:points])
    if first is None:
        return {"found": False, "why": "the GPUs in use do not settle while jobs arrive"}
    begin, end = first * width, points * width
    held = {name: list(values[first:points]) for name, values in series.items()}
    capacity, allocated = _mean(held["capacity"]), _mean(held["allocated"])
    cost = _mean(held["costPerHour"])
    idle_cost = _mean(
        [
            price * max(0.0, have - used) / have if have else 0.0
            for price, have, used in zip(held["costPerHour"], held["capacity"], held["allocated"], strict=True)
        ]
    )
    return {
        "found": True,
        "from": begin,
        "to": end,
        "allocation": round(allocated / capacity, 6) if capacity else 0.0,
        "gpusIdle": round(max(0.0, capacity - allocated), 3),
        "gpusWaiting": round(_mean(held["waiting"]), 3),
        "queueGrows": queue_grows(held["waiting"], capacity),
        "costPerHour": round(cost, 4),
        "idleCostPerHour": round(idle_cost, 4),
        "waiting": row([one for one in waits if begin <= one.since < end]),
    }


def warm_up(values: Sequence[float]) -> int | None:
    """Number of first values to leave out; None if leaving out the first half is best, so that nothing has settled."""
    count, most = len(values), len(values) // 2
    best, least = None, float("inf")
    total, squares = sum(values), sum(value * value for value in values)
    for left_out in range(most + 1):
        rest = count - left_out
        error = max(0.0, squares - total * total / rest) / (rest * rest)
        if error < least - 1e-12:
            best, least = left_out, error
        total -= values[left_out]
        squares -= values[left_out] ** 2
    return None if best == most else best


def queue_grows(waiting: Sequence[float], capacity: float) -> bool:
    """True if the last third of the time had far more GPUs waited for than the first."""
    third = len(waiting) // 3
    first, last = _mean(waiting[:third]), _mean(waiting[-third:])
    return last > _GROWS * first and last > _GROWS_SHARE * capacity


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
