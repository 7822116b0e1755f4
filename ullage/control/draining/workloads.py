"""Controllers that make pods again, as heard: how many there are to be, and how many there are."""

from typing import Any

from ullage.model.drain import Workload
from ullage.model.event import Appeared, Changed, Event, Vanished


class Workloads:
    """By their uids. `kinds` are those of which all are heard: one that is not among them is gone."""

    def __init__(self) -> None:
        self.by_uid: dict[str, Workload] = {}
        self.kinds: frozenset[str] = frozenset()

    def hear(self, event: Event[Any]) -> None:
        """Whatever it is about."""
        match event:
            case Appeared(new=Workload() as new) | Changed(new=Workload() as new):
                self.by_uid[new.uid] = new
            case Vanished(old=Workload() as old):
                self.by_uid.pop(old.uid, None)
            case _:
                pass
