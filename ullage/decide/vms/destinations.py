"""Nodes a VM could be migrated to, by all rules of placement: room below watermarks, taints, selectors, ..."""

from ullage.decide.placement.engine import PlacementEngine
from ullage.decide.placement.filters.codes import FITS
from ullage.decide.placement.vm_pods import moved_vm
from ullage.model.fact_event import ObjectKey
from ullage.model.units import Instant


def fits_elsewhere(engine: PlacementEngine, pod: ObjectKey, *, now: Instant) -> bool:
    """True if a VM pod could be moved to some other node now."""
    snapshot = engine.snapshot
    here = snapshot.state.pods.get(pod)
    moved = None if here is None else moved_vm(here, snapshot)
    if moved is None:
        return False
    columns = snapshot.columns
    return bool(((engine.codes(moved, now=now) == FITS) & columns.alive[: columns.size]).any())
