"""Prices of GPUs per hour, for nodes whose price nobody says. Only the bookkeeping uses them, never a decision."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ullage.decide.placement.devices.gpu_models import is_model, words
from ullage.model.provisioner import MICROS

CURRENCY = "USD"
PRICES_DATE = "2026-01-19"
PRICES_SOURCE = "AWS EC2 on demand, us-east-1"
PRICES: Mapping[str, float] = {
    "B200": 14.2416,
    "H200": 7.912,
    "H100": 6.88,
    "A100 80GB": 3.4309,
    "A100": 2.7447,
    "V100": 3.06,
    "L40S": 1.861,
    "A10G": 1.006,
    "L4": 0.8048,
    "T4": 0.526,
}
"""Price of an instance divided by its GPUs: p6-b200, p5en, p5, p4de, p4d and p3 with eight, g6e, g5, g6 and g4dn with
one. From the price list that Karpenter's AWS provider has in it (zz_generated.pricing_aws.go of that date)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceList:
    """Prices per GPU and hour, by model. The entry with most words that matches a product wins."""

    currency: str = CURRENCY
    per_gpu: Mapping[str, float] = field(default_factory=dict)
    """Prices that were set. They go before the table."""
    table: bool = False
    """True if the table counts for models that no price was set for."""

    def of_node(self, model: str, gpus: int, stated: int) -> int:
        """Price of a node in millionths per hour: the stated one, else that of its GPUs; 0 if it is not known."""
        return stated or round(gpus * (self.of_gpu(model) or 0.0) * MICROS)

    def of_gpu(self, model: str) -> float | None:
        for prices in (self.per_gpu, PRICES if self.table else {}):
            known = [name for name in prices if is_model(model, name)]
            if known:
                return prices[max(known, key=lambda name: (len(words(name)), name))]
        return None

    def sources(self, models: Iterable[str]) -> str:
        """Sources of the prices of these models, in words."""
        table, unknown = [], []
        for model in dict.fromkeys(models):
            if self.of_gpu(model) is None:
                unknown.append(model)
            elif not any(is_model(model, name) for name in self.per_gpu):
                table.append(model)
        parts = [f"{', '.join(table)} by {PRICES_SOURCE}, {PRICES_DATE}"] if table else []
        parts += [f"none known for {', '.join(unknown)}: set simulation.gpuPrices"] if unknown else []
        return "; ".join(parts) or "as stated"


def price_list(currency: str, per_gpu: Mapping[str, float]) -> PriceList:
    """Price list of a run. The table is in dollars: with another currency it does not count."""
    return PriceList(currency=currency, per_gpu=dict(per_gpu), table=currency == CURRENCY)
