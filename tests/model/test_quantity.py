"""Quantities read as Kubernetes reads them."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.utils import parse_quantity

from ullage.model.quantity import milli, quantity


@pytest.mark.parametrize(
    ("text", "thousandths"),
    [
        pytest.param("1", 1000, id="plain"),
        pytest.param(2, 2000, id="a-yaml-integer"),
        pytest.param(0.5, 500, id="a-yaml-float"),
        pytest.param("500m", 500, id="milli"),
        pytest.param("1.5Gi", 1_610_612_736_000, id="binary-with-fraction"),
        pytest.param("2k", 2_000_000, id="decimal-kilo"),
        pytest.param("1e3", 1_000_000, id="exponent"),
        pytest.param("1E", 10**21, id="exa-is-not-an-exponent"),
        pytest.param("1Ei", 1024**6 * 1000, id="exbi"),
        pytest.param("100n", 1, id="below-a-thousandth-rounds-up"),
        pytest.param(".5", 500, id="no-leading-digit"),
        pytest.param("5.", 5000, id="no-trailing-digit"),
        pytest.param("-1", -1000, id="negative"),
        pytest.param("0", 0, id="zero"),
    ],
)
def test_reads(text: str | int | float, thousandths: int) -> None:
    assert milli(text) == thousandths


@pytest.mark.parametrize("text", ["", "m", "1 Gi", "1GiB", "one", "1e", "--1", "0x10", "1..5", "∞", "1e9999999"])
def test_refuses_and_names_the_text(text: str) -> None:
    with pytest.raises(ValueError, match="quantity") as refusal:
        quantity(text)
    assert repr(text) in str(refusal.value)


@given(
    st.decimals(min_value=0, max_value=10**6, places=3),
    st.sampled_from(["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]),
)
def test_agrees_with_the_official_client(number: Decimal, suffix: str) -> None:
    text = f"{number}{suffix}"
    assert quantity(text) == parse_quantity(text)  # type: ignore[no-untyped-call]  # it has no types here
