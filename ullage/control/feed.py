"""ClusterFeed: every fact event of all informers of a process, to the snapshot first and then to each observer."""

from typing import Any, Protocol

from ullage.model.fact_event import FactEvent


class EventObserver(Protocol):
    """A loop, an index or a check that follows the cluster."""

    def observe(self, event: FactEvent[Any]) -> object:
        """Take in one event. It never waits and never raises for an event it has no use for."""
        ...


class ClusterFeed:
    """Passes events on in the order they come. The first observer applies an event to the snapshot others read."""

    def __init__(self, first: EventObserver, *others: EventObserver) -> None:
        self._observers = (first, *others)

    def observe(self, event: FactEvent[Any]) -> None:
        """Pass one event to all observers, in their order."""
        for one in self._observers:
            one.observe(event)
