"""WorkloadMix: demand seen so far, as an estimate of the demand to come.

Placements are counted when they are made, and old ones fade: after `HALF_LIFE` further ones one counts half.
Fragmentation is measured by the most popular demands only, those that make up 95 % of placements. A mix stays in use
until it has changed by more than `DRIFT`: everything that scores cache depends on it.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass

from ullage.decide.placement.score.gpu_scorer import GpuDemand

HALF_LIFE = 10_000
COVER = 0.95
LEAST_ARRIVALS = 256
"""Arrivals after which the mix is computed again, or after a tenth of those it is made of if that is more."""
DRIFT = 0.05
"""Change of the mix (total variation, 0 to 1) above which it is replaced and scores drop their caches."""

MOST_ALONE = 256
"""Demands remembered before the first placement."""

_NEGLIGIBLE = 1e-6
_RESCALE = 1e12


@dataclass(frozen=True, slots=True)
class TypicalDemands:
    """Demands with their frequencies, which add up to 1; most popular first."""

    demands: tuple[GpuDemand, ...]
    weights: tuple[float, ...]
    popular: int
    """Number of popular demands; the rest are rare."""


class WorkloadMix:
    """Counts demands of pods as they are placed. Reading it changes nothing."""

    def __init__(self, half_life: int = HALF_LIFE) -> None:
        self._weights: dict[GpuDemand, float] = {}
        self._growth = 2.0 ** (1.0 / half_life)
        self._one = 1.0
        self._total = 0.0
        self._since = 0
        self._typical = TypicalDemands((), (), 0)
        self._alone: dict[GpuDemand, TypicalDemands] = {}
        """Mixes of one demand each, for questions before the first placement."""
        self.models: dict[tuple[str, int], int] = {}
        """GPU models by name and memory, with the index demands know them by; 0 is no model."""

    def fork(self) -> "WorkloadMix":
        """Return an independent copy."""
        twin = copy(self)
        twin._weights, twin._alone, twin.models = self._weights.copy(), self._alone.copy(), self.models.copy()
        return twin

    @property
    def weights(self) -> Mapping[GpuDemand, float]:
        """Weight of each demand that was placed and has not faded."""
        return self._weights

    def record(self, demand: GpuDemand) -> None:
        """Count one placement of a pod with this demand."""
        # Newer arrivals weigh more: cheaper than making all older ones weigh less.
        self._one *= self._growth
        self._weights[demand] = self._weights.get(demand, 0.0) + self._one
        self._total += self._one
        self._since += 1
        if self._one > _RESCALE:
            self._weights = {known: weight / self._one for known, weight in self._weights.items()}
            self._total /= self._one
            self._one = 1.0
        if not self._typical.demands or self._since >= max(LEAST_ARRIVALS, self._total / self._one / 10):
            self._renew()

    def typical(self, asking: GpuDemand) -> TypicalDemands:
        """Current typical demands; the same object as before unless the mix changed by more than `DRIFT`.

        Before the first placement the demand that asks is all that is known of the mix.
        """
        if self._typical.demands:
            return self._typical
        known = self._alone.get(asking)
        if known is None:
            if len(self._alone) >= MOST_ALONE:
                self._alone.clear()
            known = self._alone[asking] = TypicalDemands((asking,), (1.0,), 1)
        return known

    def _renew(self) -> None:
        self._since = 0
        floor = self._total * _NEGLIGIBLE
        self._weights = {demand: weight for demand, weight in self._weights.items() if weight > floor}
        self._total = sum(self._weights.values())
        now = typical_of(self._weights)
        if _distance(self._typical, now) > DRIFT:
            # The same object as before the first placement, if it says the same: scores keep their caches.
            alone = self._alone.get(now.demands[0])
            self._typical = alone if alone == now else now


def typical_of(weights: dict[GpuDemand, float], cover: float = COVER) -> TypicalDemands:
    """Typical demands of these weights; the fewest demands that make up `cover` of all are popular."""
    ranked = sorted(weights.items(), key=lambda entry: (entry[1], entry[0]), reverse=True)
    total = sum(weights.values())
    popular, covered = 0, 0.0
    while popular < len(ranked) and covered < cover * total:
        covered += ranked[popular][1]
        popular += 1
    return TypicalDemands(tuple(demand for demand, _ in ranked), tuple(weight / total for _, weight in ranked), popular)


def _distance(one: TypicalDemands, other: TypicalDemands) -> float:
    before = dict(zip(one.demands, one.weights, strict=True))
    after = dict(zip(other.demands, other.weights, strict=True))
    known = [*before, *(demand for demand in after if demand not in before)]
    return sum(abs(before.get(demand, 0.0) - after.get(demand, 0.0)) for demand in known) / 2
