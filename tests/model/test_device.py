"""How old a report is, is told by our own clock: from when it was seen to change."""

import pytest

from ullage.model.device import NEVER_OLD, Inventory, observed_inventory
from ullage.model.units import Instant

NOW = Instant(1_000_000.0)


def said(at: float) -> Inventory:
    """As read: nobody has observed it yet."""
    return Inventory(node="n", reported_at=Instant(at), dated=Instant(at), devices=())


def test_of_the_first_report_its_agents_word_counts_but_none_is_of_the_future() -> None:
    assert observed_inventory(None, said(NOW - 500), NOW).reported_at == NOW - 500
    assert observed_inventory(None, said(NOW + 3600), NOW).reported_at == NOW


@pytest.mark.parametrize("skew", [-86_400.0, -120.0, 0.0, 3600.0])
def test_a_report_seen_to_change_is_of_this_moment_whatever_its_clock_says(skew: float) -> None:
    first = observed_inventory(None, said(NOW + skew), NOW)
    second = observed_inventory(first, said(NOW + skew + 30), Instant(NOW + 30))
    assert second.reported_at == NOW + 30
    assert second.clock_ahead == skew


def test_a_write_that_is_no_report_makes_it_no_younger() -> None:
    first = observed_inventory(None, said(NOW - 60), NOW)
    assert observed_inventory(first, said(NOW - 60), Instant(NOW + 30)) == first


def test_a_report_of_the_end_of_time_never_gets_old() -> None:
    assert observed_inventory(None, said(NEVER_OLD), NOW).reported_at == NEVER_OLD
