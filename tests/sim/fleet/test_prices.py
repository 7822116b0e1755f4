"""Prices of nodes that state none."""

import pytest

from ullage.model.provisioner import MICROS
from ullage.sim.fleet.prices import PRICES, PRICES_DATE, price_list


@pytest.mark.parametrize(
    ("model", "gpus", "stated", "price"),
    [
        pytest.param("NVIDIA H100 80GB HBM3", 8, 0, 55.04, id="by-the-table"),
        pytest.param("NVIDIA H100 80GB HBM3", 8, 30 * MICROS, 30.0, id="stated"),
        pytest.param("NVIDIA A100-SXM4-80GB", 1, 0, PRICES["A100 80GB"], id="the-entry-with-most-words"),
        pytest.param("NVIDIA A100-SXM4-40GB", 1, 0, PRICES["A100"], id="the-other-one"),
        pytest.param("NVIDIA L4", 4, 0, 2.0, id="set-by-the-user"),
        pytest.param("Frobnicator", 4, 0, 0.0, id="not-known"),
    ],
)
def test_the_price_of_a_node(model: str, gpus: int, stated: int, price: float) -> None:
    prices = price_list("USD", {"L4": 0.5})
    assert prices.of_node(model, gpus, stated) == pytest.approx(price * MICROS)


def test_the_table_is_in_dollars_and_says_its_date() -> None:
    assert price_list("EUR", {}).of_gpu("NVIDIA H100 80GB HBM3") is None
    assert PRICES_DATE in price_list("USD", {}).sources(["NVIDIA L4"])
    assert "none known for X: set simulation.gpuPrices" in price_list("USD", {}).sources(["X"])
    assert price_list("USD", {"L4": 1.0}).sources(["NVIDIA L4"]) == "as stated"
