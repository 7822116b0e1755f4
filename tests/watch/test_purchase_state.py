"""Waits grow, stay in bounds, and come from the seed."""

import random

import pytest

from ullage.watch.backoff import JitteredBackoff


def waits(seed: int, count: int) -> list[float]:
    backoff = JitteredBackoff(random.Random(seed), first=1.0, longest=30.0)
    return [backoff.next() for _ in range(count)]


def test_each_wait_lies_between_half_of_its_step_and_all_of_it() -> None:
    for wait, step in zip(waits(3, 8), (1, 2, 4, 8, 16, 30, 30, 30), strict=True):
        assert step / 2 <= wait <= step


def test_two_that_fail_together_do_not_come_back_together() -> None:
    assert waits(1, 5) == waits(1, 5) != waits(2, 5)


def test_after_a_good_while_waits_are_short_again() -> None:
    backoff = JitteredBackoff(random.Random(1), first=1.0, longest=30.0)
    for _ in range(6):
        backoff.next()
    backoff.reset()
    assert backoff.next() <= 1.0


def test_a_longer_wish_of_the_server_wins_and_a_shorter_one_does_not() -> None:
    backoff = JitteredBackoff(random.Random(1), first=1.0, longest=30.0)
    assert backoff.next(at_least=60.0) == 60.0
    assert backoff.next(at_least=0.1) >= 1.0


@pytest.mark.parametrize(("first", "longest"), [(0.0, 1.0), (2.0, 1.0)])
def test_waits_that_cannot_grow_are_refused(first: float, longest: float) -> None:
    with pytest.raises(ValueError, match="waits must grow"):
        JitteredBackoff(random.Random(1), first=first, longest=longest)
