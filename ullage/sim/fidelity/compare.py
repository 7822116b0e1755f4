"""Comparison of the outcomes of one story on a real control plane and in the simulator. Pure.

Where arrivals are far enough apart, order is the story's and every placement must be the same. In a burst the order in
which pods are taken in is chance: there the numbers of pods by node shape must be.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ullage.sim.fidelity.outcome import PodOutcome, StoryOutcome

APART_SECONDS = 0.5
WAIT_SHARE, WAIT_SECONDS = 0.05, 0.050
"""The medians of the waits may differ by the larger of the two."""
LEAST_SAME = 0.99

_NEVER_SEEN = PodOutcome()


@dataclass(frozen=True, slots=True, kw_only=True)
class FidelityReport:
    """Comparison of one story."""

    story: str
    single: int
    """Pods that came apart from others."""
    single_same: int
    """Those of them with the same node and GPUs."""
    bursts: int
    bursts_same: int
    """Those of them with the same counts by node shape."""
    bought: tuple[int, int]
    """Real and simulated, as are the following."""
    removed: tuple[int, int]
    wait: tuple[float, float] | None
    """Medians; None if nobody was placed on one of the sides."""
    differences: tuple[str, ...] = ()

    @property
    def waits_agree(self) -> bool:
        if self.wait is None:
            return True
        real, simulated = self.wait
        return abs(real - simulated) <= max(WAIT_SHARE * real, WAIT_SECONDS)

    @property
    def numbers_agree(self) -> bool:
        return self.bought[0] == self.bought[1] and self.removed[0] == self.removed[1]

    @property
    def holds(self) -> bool:
        """True if this story alone keeps the promise."""
        same = self.single_same >= LEAST_SAME * self.single
        return same and self.bursts_same == self.bursts and self.numbers_agree and self.waits_agree

    def line(self) -> str:
        """One line for people."""
        waits = "nobody placed" if self.wait is None else f"{self.wait[0]:.3f} and {self.wait[1]:.3f} s"
        return (
            f"{self.story}: {self.single_same} of {self.single} placements, "
            f"{self.bursts_same} of {self.bursts} bursts; bought {self.bought[0]} and {self.bought[1]}, "
            f"removed {self.removed[0]} and {self.removed[1]}; median wait {waits}"
        )


def compare(story: str, arrivals: Mapping[str, float], real: StoryOutcome, simulated: StoryOutcome) -> FidelityReport:
    """Compare two outcomes. `arrivals`: seconds at which each pod of the story comes."""
    groups = bursts_of(arrivals)
    single = [names[0] for names in groups if len(names) == 1]
    bursts = [names for names in groups if len(names) > 1]
    differing = [name for name in single if not _same(real, simulated, name)]
    torn = [names for names in bursts if _shapes(real, names) != _shapes(simulated, names)]
    return FidelityReport(
        story=story,
        single=len(single),
        single_same=len(single) - len(differing),
        bursts=len(bursts),
        bursts_same=len(bursts) - len(torn),
        bought=(sum(real.bought.values()), sum(simulated.bought.values())),
        removed=(sum(real.removed.values()), sum(simulated.removed.values())),
        wait=_waits(real, simulated),
        differences=tuple(_differences(real, simulated, differing, torn)),
    )


def bursts_of(arrivals: Mapping[str, float]) -> list[list[str]]:
    """Pods in the order of arrival, those together that come less than half a second after one another."""
    groups: list[list[str]] = []
    last = float("-inf")
    for name, at in sorted(arrivals.items(), key=lambda one: (one[1], one[0])):
        if at - last < APART_SECONDS:
            groups[-1].append(name)
        else:
            groups.append([name])
        last = at
    return groups


def _same(real: StoryOutcome, simulated: StoryOutcome, name: str) -> bool:
    one, other = real.pods.get(name, _NEVER_SEEN), simulated.pods.get(name, _NEVER_SEEN)
    return (one.node, one.gpus) == (other.node, other.gpus)


def _shapes(outcome: StoryOutcome, names: Sequence[str]) -> Counter[str]:
    return Counter(outcome.pods.get(name, _NEVER_SEEN).shape for name in names)


def _waits(real: StoryOutcome, simulated: StoryOutcome) -> tuple[float, float] | None:
    found = [[one.wait for one in side.pods.values() if one.wait is not None] for side in (real, simulated)]
    return (median(found[0]), median(found[1])) if all(found) else None


def _differences(
    real: StoryOutcome, simulated: StoryOutcome, differing: Sequence[str], torn: Sequence[Sequence[str]]
) -> Iterator[str]:
    for name in differing:
        one, other = real.pods.get(name, _NEVER_SEEN), simulated.pods.get(name, _NEVER_SEEN)
        yield f"{name}: {_where(one)} on the real control plane, {_where(other)} in the simulator"
    for names in torn:
        yield f"{', '.join(names)}: {dict(_shapes(real, names))} and {dict(_shapes(simulated, names))}"
    if real.bought != simulated.bought:
        yield f"bought: {real.bought} and {simulated.bought}"
    if real.removed != simulated.removed:
        yield f"removed: {real.removed} and {simulated.removed}"


def _where(pod: PodOutcome) -> str:
    return f"{pod.node} {list(pod.gpus)}" if pod.node else "nowhere"
