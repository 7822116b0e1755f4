"""The observed mix of pods: what is likely to be asked next.

Arrivals are counted and old ones fade: after `HALF_LIFE` further arrivals one counts half. Fragmentation is measured by
the most popular demands only, those that make up 95 % of arrivals. A mix stays in use until it has really changed:
everything a score remembers depends on it.
"""

from dataclasses import dataclass

from ullage.decide.score.columns import GpuDemand

HALF_LIFE = 10_000
COVER = 0.95
LEAST_ARRIVALS = 256
"""A mix is looked at again after this many arrivals, or a tenth of what it is made of."""
DRIFT = 0.05
"""How much of the mix must have moved (total variation) before scores are asked to forget what they know."""

_NEGLIGIBLE = 1e-6
_RESCALE = 1e12


@dataclass(frozen=True, slots=True)
class Typical:
    """Demands and how often each is asked, adding up to 1; most popular first."""

    demands: tuple[GpuDemand, ...]
    weights: tuple[float, ...]
    popular: int
    """How many of them are popular; the rest together are rare."""


class ObservedMix:
    """Counts demands as they arrive."""

    def __init__(self, half_life: int = HALF_LIFE) -> None:
        self._weights: dict[GpuDemand, float] = {}
        self._growth = 2.0 ** (1.0 / half_life)
        self._one = 1.0
        self._total = 0.0
        self._since = 0
        self._typical = Typical((), (), 0)
        self.models: dict[tuple[str, int], int] = {}
        """GPU models by name and memory, with the index demands know them by; 0 is no model."""

    def saw(self, demand: GpuDemand) -> None:
        """One pod with this demand arrived."""
        # Newer arrivals weigh more: cheaper than making all older ones weigh less.
        self._one *= self._growth
        self._weights[demand] = self._weights.get(demand, 0.0) + self._one
        self._total += self._one
        self._since += 1
        if self._one > _RESCALE:
            self._weights = {known: weight / self._one for known, weight in self._weights.items()}
            self._total /= self._one
            self._one = 1.0

    def typical(self) -> Typical:
        """The popular demands now; the same object as last time while the mix has hardly moved."""
        due = max(LEAST_ARRIVALS, self._total / self._one / 10)
        if self._typical.demands and self._since < due:
            return self._typical
        self._since = 0
        floor = self._total * _NEGLIGIBLE
        self._weights = {demand: weight for demand, weight in self._weights.items() if weight > floor}
        self._total = sum(self._weights.values())
        now = typical_of(self._weights)
        if _distance(self._typical, now) > DRIFT:
            self._typical = now
        return self._typical


def typical_of(weights: dict[GpuDemand, float], cover: float = COVER) -> Typical:
    """The mix, with as many demands called popular as are needed to make up `cover` of all."""
    ranked = sorted(weights.items(), key=lambda entry: (entry[1], entry[0]), reverse=True)
    total = sum(weights.values())
    popular, covered = 0, 0.0
    while popular < len(ranked) and covered < cover * total:
        covered += ranked[popular][1]
        popular += 1
    return Typical(tuple(demand for demand, _ in ranked), tuple(weight / total for _, weight in ranked), popular)


def _distance(one: Typical, other: Typical) -> float:
    before = dict(zip(one.demands, one.weights, strict=True))
    after = dict(zip(other.demands, other.weights, strict=True))
    known = [*before, *(demand for demand in after if demand not in before)]
    return sum(abs(before.get(demand, 0.0) - after.get(demand, 0.0)) for demand in known) / 2
