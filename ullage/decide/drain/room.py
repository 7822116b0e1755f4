"""Whether pods that are about to be evicted still have a place: much may have come since that was planned."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ullage.decide.assigning import Assigner
from ullage.decide.drain.destinations import Destinations
from ullage.decide.drain.evictions import still_missing
from ullage.decide.drain.facts import FRESH, DrainMemory
from ullage.decide.drain.placing import Placing
from ullage.decide.pool.waiting import waiting_turns
from ullage.model.drain import RecentEviction, Workload
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """Who has to find a place, beside those who wait for one."""

    nodes: Mapping[str, Collection[ObjectKey]]
    """Nodes that are being removed, and the pods that leave for each."""
    evictions: Collection[RecentEviction] = ()
    workloads: Mapping[str, Workload] = field(default_factory=dict)


def seat_waiting(assigner: Assigner, *, now: float) -> None:
    """Pods that wait for a node take their seats: what they need is nobody's to drain into."""
    for turn in list(waiting_turns(assigner)):
        if isinstance(turn, Pod):
            assigner.assign_pod(turn, (), now=now)
        else:
            assigner.assign_gang(turn, (), now=now)


def without_room(
    assigner: Assigner, leaving: Leaving, memory: DrainMemory = FRESH, *, now: float
) -> dict[str, ObjectKey]:
    """Nodes of which a pod would have no place now, and the pod; nodes by name. The picture is as before."""
    placements = assigner.placements
    rows, held = placements.columns.rows, placements.pods
    found: dict[str, ObjectKey] = {}
    with placements.what_if():
        seat_waiting(assigner, now=now)
        destinations = Destinations(assigner.seating, now=now)
        evicted = [one.pod for one in leaving.evictions]
        placing = Placing(assigner.seating, destinations, memory, now=now, also=evicted)
        with placing.moving.attempt():
            for name in sorted(leaving.nodes.keys() & rows.keys()):
                destinations.close(rows[name])
                placing.moving.make_ghost(name)
            # Who was evicted has no place any more: it comes before those who still have theirs.
            placing.move(still_missing(leaving.evictions, leaving.workloads, placements))
            moved: set[ObjectKey] = set()
            for name in sorted(leaving.nodes):
                keys = [key for key in sorted(leaving.nodes[name]) if key in held and key not in moved]
                pods = [held[key] for key in keys if not held[key].deleting]
                with placing.moving.attempt() as trial:
                    places = placing.move(pods)
                    if isinstance(places, Pod):
                        found[name] = places.key
                        continue
                    trial.keep()
                    moved.update(places)
    return found
