"""Recheck of places for pods about to be evicted: the cluster may have filled up since the plan."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ullage.decide.draining.deletion_tracker import still_missing
from ullage.decide.draining.destinations import DestinationSearch
from ullage.decide.draining.inputs import FRESH, PlannerMemory
from ullage.decide.draining.placing import PodRelocator
from ullage.decide.provisioning.waiting import waiting_turns
from ullage.decide.scheduling.assignment import PodAssigner
from ullage.model.draining import RecentEviction, WorkloadReplicas
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplacedPods:
    """Pods that need a place, beside pending pods."""

    nodes: Mapping[str, Collection[ObjectKey]]
    """Nodes that are being removed, each with the pods that leave."""
    evictions: Collection[RecentEviction] = ()
    workloads: Mapping[str, WorkloadReplicas] = field(default_factory=dict)
    destinations: Collection[str] | None = None
    """Nodes the pods may be moved to; None for all."""


def seat_waiting(assigner: PodAssigner, *, now: float) -> None:
    """Place pending pods and gangs in the snapshot, so that no drained pod takes their room."""
    for turn in list(waiting_turns(assigner)):
        if isinstance(turn, Pod):
            assigner.assign_pod(turn, (), now=now)
        else:
            assigner.assign_gang(turn, (), now=now)


def without_room(
    assigner: PodAssigner, leaving: DisplacedPods, memory: PlannerMemory = FRESH, *, now: float
) -> dict[str, ObjectKey]:
    """Nodes with a pod that would have no place now, each with that pod. The snapshot is unchanged afterwards."""
    placements = assigner.placements
    rows, held = placements.columns.rows, placements.pods
    found: dict[str, ObjectKey] = {}
    with placements.what_if():
        seat_waiting(assigner, now=now)
        destinations = DestinationSearch(assigner.seating, now=now)
        if leaving.destinations is not None:
            destinations.limit_to(leaving.destinations)
        evicted = [one.pod for one in leaving.evictions]
        placing = PodRelocator(assigner.seating, destinations, memory, now=now, also=evicted)
        with placing.placements.what_if():
            for name in sorted(leaving.nodes.keys() & rows.keys()):
                destinations.close(rows[name])
                placing.close_to_new_pods(name)
            # Evicted pods run nowhere: they are placed before pods that still run.
            placing.move(still_missing(leaving.evictions, leaving.workloads, placements))
            moved: set[ObjectKey] = set()
            for name in sorted(leaving.nodes):
                keys = [key for key in sorted(leaving.nodes[name]) if key in held and key not in moved]
                pods = [held[key] for key in keys if not held[key].deleting]
                with placing.placements.what_if() as trial:
                    places = placing.move(pods)
                    if isinstance(places, Pod):
                        found[name] = places.key
                        continue
                    trial.keep()
                    moved.update(places)
    return found
