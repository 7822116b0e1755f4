"""The goal of a VM: compute units from load and memory, and the size that follows."""

import math

import pytest

from tests.vms import GI, size
from ullage.decide.vm_agent.goal import (
    NO_METRICS,
    ScalingRules,
    VmBounds,
    VmMetrics,
    blended_load,
    desired_amounts,
    goal_units,
)
from ullage.model.vm import VmAmounts

UNIT = VmAmounts(250, GI)
RULES = ScalingRules()


def metrics(load: float | None = 0.0, memory: float | None = 0.0) -> VmMetrics:
    return VmMetrics(load1=load, load5=load, memory_usage=None if memory is None else round(memory * GI))


@pytest.mark.parametrize(
    ("load1", "load5", "stable", "mixed", "expected"),
    [
        pytest.param(3.0, 1.0, 0.0, 0.0, 3.0, id="without-zones-load1"),
        pytest.param(1.2, 1.0, 0.25, 0.25, 1.0, id="near-load5"),
        pytest.param(2.0, 1.0, 0.25, 0.25, 2.0, id="far-away"),
        pytest.param(1.5, 1.0, 0.25, 0.5, 1.25, id="between"),
        pytest.param(0.5, 1.0, 0.25, 0.5, 0.75, id="between-on-the-way-down"),
        pytest.param(1.0, 1.0, 0.0, 0.0, 1.0, id="equal"),
    ],
)
def test_load(load1: float, load5: float, stable: float, mixed: float, expected: float) -> None:
    rules = ScalingRules(stable_zone=stable, mixed_zone=mixed)
    assert blended_load(load1, load5, rules) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(metrics(0.0, 0.0), 0, id="idle"),
        pytest.param(metrics(0.9, 0.0), 4, id="a-core-is-four-units"),
        pytest.param(metrics(0.3, 0.0), 1, id="cpu-is-rounded"),
        pytest.param(metrics(0.0, 0.75), 1, id="three-quarters-of-a-unit"),
        pytest.param(metrics(0.0, 0.76), 2, id="memory-is-rounded-up"),
        pytest.param(metrics(0.9, 6.0), 8, id="the-larger-need"),
        pytest.param(metrics(None, 6.0), 8, id="load-missing"),
        pytest.param(NO_METRICS, 0, id="nothing-known"),
    ],
)
def test_units(seen: VmMetrics, expected: int) -> None:
    assert goal_units(seen, UNIT, RULES) == expected


@pytest.mark.parametrize(
    ("seen", "unit", "expected"),
    [
        pytest.param(metrics(0.125, 0.0), UNIT, 1, id="half-a-unit"),
        pytest.param(metrics(0.375, 0.0), UNIT, 2, id="one-and-a-half"),
        pytest.param(metrics(0.625, 0.0), UNIT, 3, id="two-and-a-half"),
        pytest.param(metrics(1.125, 0.0), UNIT, 5, id="four-and-a-half"),
        pytest.param(metrics(math.nextafter(0.125, 0.0), 0.0), UNIT, 0, id="just-below-half"),
        pytest.param(VmMetrics(load1=0.0, load5=0.0, memory_usage=2), VmAmounts(250, 2), 2, id="bytes-of-memory"),
    ],
)
def test_halves_are_rounded_up(seen: VmMetrics, unit: VmAmounts, expected: int) -> None:
    rules = ScalingRules(load_average_fraction_target=1.0, memory_usage_fraction_target=0.8)
    assert goal_units(seen, unit, rules) == expected


@pytest.mark.parametrize(
    ("using", "seen", "rules", "expected"),
    [
        pytest.param(size(1, 4), metrics(1.8, 0.0), RULES, size(2, 8), id="both-resources-grow-together"),
        pytest.param(size(4, 16), metrics(0.0, 0.0), RULES, size(0.5, 2), id="not-below-the-minimum"),
        pytest.param(size(1, 4), metrics(99.0, 0.0), RULES, size(8, 32), id="not-above-the-maximum"),
        pytest.param(size(2, 8), metrics(0.9, None), RULES, size(2, 8), id="with-a-metric-missing-it-does-not-shrink"),
        pytest.param(size(2, 8), metrics(None, 12.0), RULES, size(4, 16), id="with-a-metric-missing-it-may-grow"),
        pytest.param(size(2, 8), NO_METRICS, RULES, size(2, 8), id="without-metrics-it-stays"),
        pytest.param(size(1, 4), metrics(7.0, 0.0), ScalingRules(max_step=2), size(1.5, 6), id="a-step-at-a-time"),
        pytest.param(size(4, 16), metrics(0.9, 0.0), ScalingRules(max_step=2), size(1, 4), id="steps-are-for-growing"),
    ],
)
def test_desired(using: VmAmounts, seen: VmMetrics, rules: ScalingRules, expected: VmAmounts) -> None:
    vm = VmBounds(using=using, minimum=size(0.5, 2), maximum=size(8, 32))
    assert desired_amounts(vm, seen, UNIT, rules) == expected


def test_a_minimum_that_rises_makes_a_vm_grow() -> None:
    vm = VmBounds(using=size(1, 4), minimum=size(2, 8), maximum=size(8, 32))
    assert desired_amounts(vm, metrics(0.0, 0.0), UNIT, RULES) == size(2, 8)
