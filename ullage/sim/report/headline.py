"""Headline of a report: which run is better, by how much, and how sure that is. Pure."""

from collections.abc import Sequence

from ullage.sim.report.axes import spoken_time
from ullage.sim.report.intervals import Interval, RunGroup, difference, grouped
from ullage.sim.report.run_sheet import (
    ALLOCATION,
    LEFT_OUT,
    MONTHLY_COST,
    STEADY_ALLOCATION,
    STEADY_WAITING,
    TOTAL_COST,
    WAITING,
    ComparedMeasure,
    RunSheet,
)
from ullage.sim.report.values import said

_NOTHING_SECONDS = 1.0
"""Mean waits below it are of the machinery, not of the policy."""
_SAME_SHARE = 0.005
"""Differences below this share are called none."""
MORE_SEEDS = "one seed is no proof: add --seeds 5"


def headline(sheets: Sequence[RunSheet]) -> str:
    """One or two sentences on all runs."""
    groups = grouped(sheets)
    if not groups:
        return ""
    said = _alone(groups[0]) if len(groups) == 1 else _beside(groups)
    return f"{said}{_left_out(groups[0].sheets)}"


def _alone(group: RunGroup) -> str:
    scores = group.sheets[0].scores
    parts = [f"{group.label}: {_waited(group)}"]
    allocation = _first_known(group, STEADY_ALLOCATION, ALLOCATION)
    if allocation is not None:
        measure, value = allocation
        where = " in the steady state" if measure is STEADY_ALLOCATION else ""
        parts.append(f"{said(measure, value.mean)} of the GPUs were in use{where}")
    cost = group.of(MONTHLY_COST)
    if cost is not None and cost.mean:
        parts.append(f"the fleet costs {said(MONTHLY_COST, cost.mean, scores)} a month")
    sentence = ", ".join(parts)
    never = _never(group)
    seeds = f" (means of {len(group.sheets)} seeds)" if len(group.sheets) > 1 else ""
    return f"{sentence}{seeds}.{never}{_growing(group)}"


def _waited(group: RunGroup) -> str:
    measure, value = _first_known(group, STEADY_WAITING, WAITING) or (WAITING, Interval(0.0, 0.0, 1))
    bound = "at least " if group.bound(measure) else ""
    spread = f" (95 % interval {_between(value)})" if value.half else ""
    if value.mean < _NOTHING_SECONDS and not bound:
        return "nobody had to wait"
    return f"pods waited {bound}{spoken_time(value.mean)} on average{spread}"


def _beside(groups: Sequence[RunGroup]) -> str:
    """The best run beside the first one; or, if that is the best, beside the second best."""
    measure = next(one for one in (STEADY_WAITING, WAITING) if one is WAITING or all(g.of(one) for g in groups))
    ranked = sorted(groups, key=lambda group: _mean(group, measure))
    best = ranked[0]
    other = groups[0] if groups[0] is not best else ranked[1]
    waits, cost = difference(other, best, measure), _cost_difference(other, best)
    if waits is None:
        return ""
    if _mean(other, measure) < _NOTHING_SECONDS and _mean(best, measure) < _NOTHING_SECONDS:
        return _by_cost(groups)
    return f"{_verdict(best, other, measure, waits, cost)}{_never(best)}{_growing(best)}"


def _verdict(best: RunGroup, other: RunGroup, measure: ComparedMeasure, waits: Interval, cost: Interval | None) -> str:
    base = _mean(other, measure)
    share = waits.mean / base if base else 0.0
    bound = ", at least" if best.bound(measure) or other.bound(measure) else ""
    figures = f"{spoken_time(_mean(best, measure))} against {spoken_time(base)}"
    how = f"pods wait {-share * 100:.1f} % less on average ({figures}{bound}{_sure(waits, base)})"
    money = _money(best, cost)
    if abs(share) < _SAME_SHARE:
        return f"{best.label} and {other.label} let pods wait equally long ({figures}){money}."
    if waits.count > 1 and not waits.sign:
        return f"No difference is shown between {best.label} and {other.label}: {how}{money}."
    one = f"On one seed, {best.label}" if waits.count < 2 else best.label
    proof = f"; {MORE_SEEDS}" if waits.count < 2 else ""
    return f"{one} is better than {other.label}: {how}{money}{proof}."


def _sure(waits: Interval, base: float) -> str:
    if waits.count < 2 or not base:
        return ""
    low, high = waits.low / base * 100, waits.high / base * 100
    return f"; {waits.count} seeds, 95 % interval of the difference {low:+.1f} % to {high:+.1f} %"


def _cost_difference(other: RunGroup, best: RunGroup) -> Interval | None:
    """Difference of the cost per month; None if there are no prices, or no steady state."""
    cost, base = difference(other, best, MONTHLY_COST), other.of(MONTHLY_COST)
    return cost if cost is not None and base is not None and base.mean else None


def _money(best: RunGroup, cost: Interval | None) -> str:
    if cost is None:
        return ""
    scores = best.sheets[0].scores
    base = _mean(best, MONTHLY_COST) - cost.mean
    if abs(cost.mean) < _SAME_SHARE * base:
        return ", at the same cost"
    amount = said(MONTHLY_COST, abs(cost.mean), scores)
    sure = "" if cost.count < 2 or cost.sign else ", which is not certain"
    if cost.mean < 0:
        return f", and it saves {amount} a month{sure}"
    return f", but it costs {amount} more a month{sure}"


def _by_cost(groups: Sequence[RunGroup]) -> str:
    """Nobody waits: the cheapest is the best."""
    priced = all(_mean(group, MONTHLY_COST) for group in groups)
    ranked = sorted(groups, key=lambda group: _mean(group, MONTHLY_COST if priced else TOTAL_COST))
    best = ranked[0]
    other = groups[0] if groups[0] is not best else ranked[1]
    cost = _cost_difference(other, best)
    if cost is None or abs(cost.mean) < _SAME_SHARE * _mean(other, MONTHLY_COST):
        return "Nobody had to wait with any of them, and they cost the same: this load does not tell them apart."
    amount = said(MONTHLY_COST, -cost.mean, best.sheets[0].scores)
    proof = f"; {MORE_SEEDS}" if cost.count < 2 else "" if cost.sign else "; the difference is not certain"
    return f"Nobody had to wait with any of them; {best.label} saves {amount} a month beside {other.label}{proof}."


def _never(group: RunGroup) -> str:
    pods = [sheet.scores.get("waiting", {}).get("all", {}) for sheet in group.sheets]
    never = sum(one.get("still", 0) + one.get("left", 0) for one in pods)
    every = never + sum(one.get("count", 0) for one in pods)
    if not never:
        return ""
    return f" {never:,} of {every:,} pods never ran with {group.label}: they count with the time they waited."


def _left_out(sheets: Sequence[RunSheet]) -> str:
    pods = max((int(sheet.workload.get(LEFT_OUT, 0)) for sheet in sheets), default=0)
    if not pods:
        return ""
    said = "1 pod was left out: it" if pods == 1 else f"{pods:,} pods were left out: they"
    return f" {said} can never run on this fleet."


def _growing(group: RunGroup) -> str:
    if any(sheet.scores.get("steady", {}).get("queueGrows") for sheet in group.sheets):
        return " The queue grows all along: the fleet is too small for this load."
    return ""


def _first_known(group: RunGroup, *measures: ComparedMeasure) -> tuple[ComparedMeasure, Interval] | None:
    found = ((measure, group.of(measure)) for measure in measures)
    return next(((measure, value) for measure, value in found if value is not None), None)


def _mean(group: RunGroup, measure: ComparedMeasure) -> float:
    value = group.of(measure)
    return 0.0 if value is None else value.mean


def _between(value: Interval) -> str:
    return f"{spoken_time(max(0.0, value.low))} to {spoken_time(value.high)}"
