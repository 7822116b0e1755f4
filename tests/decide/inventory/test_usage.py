"""Strangers on GPUs, and holders who do nothing."""

import pytest

from ullage.decide.inventory.usage import GpuTenancy, UnleasedProcess, tenancies, unleased
from ullage.model.units import Instant


@pytest.mark.parametrize(
    ("occupants", "rights", "expected"),
    [
        pytest.param({0: {10: "a"}}, {0: ("a",)}, (), id="its-own-gpu"),
        pytest.param({0: {10: "a", 11: "a"}}, {0: ("a", "b")}, (), id="shared"),
        pytest.param({1: {10: "a"}}, {0: ("a",)}, (UnleasedProcess(1, 10, "a"),), id="the-neighbours-gpu"),
        pytest.param({0: {10: ""}}, {0: ("a",)}, (UnleasedProcess(0, 10),), id="somebody-on-the-host"),
        pytest.param(
            {1: {9: "b"}, 0: {12: "b", 7: ""}},
            {},
            (UnleasedProcess(0, 7), UnleasedProcess(0, 12, "b"), UnleasedProcess(1, 9, "b")),
            id="order",
        ),
    ],
)
def test_strays(
    occupants: dict[int, dict[int, str]], rights: dict[int, tuple[str, ...]], expected: tuple[UnleasedProcess, ...]
) -> None:
    assert unleased(occupants, rights) == expected


def test_a_holder_is_idle_since_it_last_computed() -> None:
    held = {0: ("a",), 1: ("b",)}
    first = tenancies({}, held, {0: 80, 1: 0}, now=Instant(100.0))
    assert first == {0: GpuTenancy(("a",), Instant(100.0)), 1: GpuTenancy(("b",), Instant(100.0))}
    second = tenancies(first, held, {0: 5, 1: 0}, now=Instant(200.0))
    assert second == {0: GpuTenancy(("a",), Instant(200.0)), 1: GpuTenancy(("b",), Instant(100.0))}


def test_another_holder_starts_from_nothing_and_nobody_is_not_idle() -> None:
    first = tenancies({}, {0: ("a",), 1: ("b",)}, {0: 0, 1: 0}, now=Instant(100.0))
    assert tenancies(first, {0: ("c",)}, {0: 0, 1: 0}, now=Instant(150.0)) == {0: GpuTenancy(("c",), Instant(150.0))}


def test_a_gpu_that_does_not_say_how_busy_it_is_says_nothing() -> None:
    assert tenancies({}, {0: ("a",)}, {0: None}, now=Instant(1.0)) == {}
