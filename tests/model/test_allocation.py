"""Allocations as text, and the names of Leases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.model.allocation import Allocation, lease_name, parse_allocation

NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?", fullmatch=True)


@given(NAMES, st.lists(st.integers(0, 15), min_size=1, max_size=8))
def test_what_is_written_is_read_back(node: str, devices: list[int]) -> None:
    allocation = Allocation(node, tuple(devices))
    assert parse_allocation(str(allocation)) == allocation


@pytest.mark.parametrize("text", ["", "node", "node:", ":0", "node:a", "node:0,", "node:-1", "node:0, 1"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an allocation"):
        parse_allocation(text)


@given(NAMES, st.integers(0, 15))
def test_a_lease_name_fits_however_long_the_nodes_is(node: str, device: int) -> None:
    assert len(lease_name(node, device)) <= 253


def test_long_names_stay_apart() -> None:
    assert lease_name("a" * 252 + "b", 0) != lease_name("a" * 252 + "c", 0)
