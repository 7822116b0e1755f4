"""Assumptions of a search that goes on while the snapshot changes: nominated pods, pods that are gone, pods placed.

Steps of a search run on the live snapshot. Each step applies the assumptions in a what-if of its own, and undoes them.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ullage.decide.placement.engine import Placement, PlacementEngine, hold
from ullage.decide.preemption.nominated import nominated_ahead, placement_to_be
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.stepper import StepMeter, Stepper
from ullage.model.units import Instant, Seconds

NOMINATED_COST = Seconds(0.000_5)
"""Modelled CPU seconds of finding the placement of one nominated pod."""
ASSUMPTION_COST = 0.000_03
"""Modelled CPU seconds of making and undoing one assumption."""


class Assumptions:
    """Assumptions of one search, on the engine it asks."""

    def __init__(self, engine: PlacementEngine, *, now: Instant) -> None:
        self.engine = engine
        self.now = now
        self._gone: dict[ObjectKey, None] = {}
        self._placed: dict[ObjectKey, tuple[Pod, str, Placement | None]] = {}

    def copy(self) -> "Assumptions":
        """The same assumptions, to be extended on their own."""
        other = Assumptions(self.engine, now=self.now)
        other._gone, other._placed = dict(self._gone), dict(self._placed)
        return other

    @property
    def cost(self) -> float:
        """Modelled CPU seconds of one trial: each assumption is made and undone."""
        return ASSUMPTION_COST * (len(self._gone) + len(self._placed))

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Trial in which the assumptions hold: a what-if that is undone at its end."""
        snapshot = self.engine.snapshot
        with snapshot.what_if():
            for key in self._gone:
                snapshot.forget(key)
            for pod, node, placement in self._placed.values():
                if placement is None:
                    snapshot.assume(pod, node)  # its devices are not known, its number counts
                else:
                    hold(snapshot, pod, placement)
            yield

    def remove(self, pods: Iterable[ObjectKey]) -> None:
        """Assume that these pods are gone."""
        self._gone.update(dict.fromkeys(pods))

    def place(self, pod: Pod, placement: Placement) -> None:
        """Assume that the pod is placed."""
        self._placed[pod.key] = pod, placement.node, placement

    def add_nominated(self, pod: Pod, nominated: Iterable[Pod], meter: StepMeter) -> Stepper[None]:
        """Assume that the nominated pods which count for this pod are on their nodes."""
        with self.trial():
            ahead = nominated_ahead(self.engine, pod, nominated)
        for other in ahead:
            with self.trial():
                placement = placement_to_be(self.engine, other, now=self.now)
            self._placed[other.key] = other, other.nominated, placement
            if meter.spend(Seconds(NOMINATED_COST + self.cost)):
                meter.has_time = yield meter.take()
