"""Index of workloads that replace their pods: wanted and current replicas, from fact events."""

from typing import Any

from ullage.model.draining import WorkloadReplicas
from ullage.model.fact_event import Added, Deleted, FactEvent, Updated


class WorkloadIndex:
    """Workloads by uid. `kinds` are watched completely: a workload of such a kind that is not in the index is gone."""

    def __init__(self) -> None:
        self.by_uid: dict[str, WorkloadReplicas] = {}
        self.kinds: frozenset[str] = frozenset()

    def apply(self, event: FactEvent[Any]) -> None:
        """Apply one fact event; events of other facts are ignored."""
        match event:
            case Added(new=WorkloadReplicas() as new) | Updated(new=WorkloadReplicas() as new):
                self.by_uid[new.uid] = new
            case Deleted(old=WorkloadReplicas() as old):
                self.by_uid.pop(old.uid, None)
            case _:
                pass
