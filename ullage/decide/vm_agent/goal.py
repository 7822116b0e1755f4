"""Goal of a VM in compute units, from its load averages and its memory usage."""

import math
from dataclasses import dataclass

from ullage.model.vm import VmAmounts

_CORE = 1000
_TINY = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class VmMetrics:
    """One reading inside the VM. None: the reading has no such number."""

    load1: float | None = None
    load5: float | None = None
    memory_usage: int | None = None
    """Bytes in use, page cache not counted."""

    @property
    def complete(self) -> bool:
        return None not in (self.load1, self.load5, self.memory_usage)


NO_METRICS = VmMetrics()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingRules:
    """Targets of utilisation by which a VM is scaled."""

    load_average_fraction_target: float = 0.9
    memory_usage_fraction_target: float = 0.75
    stable_zone: float = 0.0
    """Part of load5 by which load1 may differ from it and be ignored."""
    mixed_zone: float = 0.0
    """Part of load5 beyond that over which load1 gains weight."""
    max_step: int | None = None
    """Compute units a VM grows by at once. None: as many as it needs."""


def blended_load(load1: float, load5: float, rules: ScalingRules) -> float:
    """load5 while load1 is near it, load1 where it is far away, and a mixture between."""
    stable = rules.stable_zone * load5
    mixed = stable + rules.mixed_zone * load5
    distance = abs(load1 - load5)
    if distance <= stable:
        weight = 0.0
    elif distance >= mixed:
        weight = 1.0
    else:
        weight = (distance - stable) / (mixed - stable + _TINY)
    return weight * load1 + (1 - weight) * load5


def goal_units(metrics: VmMetrics, unit: VmAmounts, rules: ScalingRules) -> int:
    """Compute units the VM should have by the metrics there are; 0 if there are none."""
    cpu = memory = 0.0
    if metrics.load1 is not None and metrics.load5 is not None:
        load = blended_load(metrics.load1, metrics.load5, rules)
        cpu = load / rules.load_average_fraction_target * _CORE / unit.cpu
    if metrics.memory_usage is not None:
        memory = _rounded(metrics.memory_usage / rules.memory_usage_fraction_target) / unit.memory
    return math.ceil(max(_rounded(cpu), memory))


def _rounded(number: float) -> int:
    """Nearest whole number, halves up: as Neon's agent rounds, and not to the even one as `round` does."""
    whole = math.floor(number)
    return whole + (number - whole >= 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class VmBounds:
    """Size of a VM and its limits, from its VirtualMachine."""

    using: VmAmounts
    minimum: VmAmounts
    maximum: VmAmounts


def desired_amounts(vm: VmBounds, metrics: VmMetrics, unit: VmAmounts, rules: ScalingRules) -> VmAmounts:
    """Size the VM should have, within its limits. Where a metric is missing the VM never shrinks."""
    desired = unit.times(goal_units(metrics, unit, rules))
    if rules.max_step is not None:
        desired = desired.at_most(vm.using.plus(unit.times(rules.max_step)))
    if not metrics.complete:
        desired = desired.at_least(vm.using)
    return desired.at_least(vm.minimum).at_most(vm.maximum)
