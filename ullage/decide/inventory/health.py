"""GPU health from a reading and the Xids heard: ordered rules, the first that has a finding decides."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ullage.decide.inventory.gpu_readings import GpuReadError, GpuReading
from ullage.model.device import DeviceHealth

XIDS_OF_PROGRAMS = frozenset({13, 31, 43, 45, 66, 68, 69, 109})
"""Illegal addresses, page faults, stopped channels and the like: faults of a program, not of the GPU."""

XIDS_ONLY_REPORTED = frozenset({63, 92, 94, 154})
"""Rows remapped, many corrected errors, a contained error, a change of the recovery action. Where something is left to
be done, a counter or NVML reports that, too."""

MOST_RETIRED_PAGES = 60
"""From here on the vendor replaces the board."""

_XIDS = {
    48: "double-bit ECC error",
    61: "internal micro-controller breakpoint",
    62: "internal micro-controller halt",
    64: "a row could not be remapped",
    74: "NVLink error",
    79: "fell off the bus",
    95: "uncontained ECC error",
    119: "the GPU's system processor does not answer",
    120: "error of the GPU's system processor",
    140: "unrecovered ECC error",
    143: "initialisation failed",
}

_TROUBLES = {
    GpuReadError.LOST: (DeviceHealth.UNHEALTHY, "fell off the bus"),
    GpuReadError.RESET_REQUIRED: (DeviceHealth.UNHEALTHY, "needs a reset"),
    GpuReadError.SILENT: (DeviceHealth.UNHEALTHY, "does not answer"),
    GpuReadError.MISSING: (DeviceHealth.UNHEALTHY, "is not there any more"),
    GpuReadError.UNREADABLE: (DeviceHealth.UNKNOWN, "cannot be read"),
}


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """Health of a GPU, and the reason if it is not healthy."""

    health: DeviceHealth
    why: str = ""


WELL = HealthFinding(DeviceHealth.HEALTHY)

Rule = Callable[[GpuReading, Sequence[int]], HealthFinding | None]
"""Maps a GPU's reading and the Xids heard of it to a finding; None if the rule has none."""


def is_fault(xid: int) -> bool:
    """True if this Xid is a fault of the GPU. Unknown Xids are."""
    return xid not in XIDS_OF_PROGRAMS and xid not in XIDS_ONLY_REPORTED


def what_is_unreadable_is_not_given(sight: GpuReading, _xids: Sequence[int]) -> HealthFinding | None:
    if sight.trouble is None:
        return None
    health, words = _TROUBLES[sight.trouble]
    return HealthFinding(health, f"{words} ({sight.detail})" if sight.detail else words)


def faults_stay_until_somebody_looks(_sight: GpuReading, xids: Sequence[int]) -> HealthFinding | None:
    faults = [xid for xid in xids if is_fault(xid)]
    if not faults:
        return None
    words = _XIDS.get(faults[0])
    return HealthFinding(DeviceHealth.UNHEALTHY, f"Xid {faults[0]}: {words}" if words else f"Xid {faults[0]}")


def memory_waits_for_no_repair(sight: GpuReading, _xids: Sequence[int]) -> HealthFinding | None:
    counters = sight.vitals.counters if sight.vitals is not None else None
    if counters is None:
        return None
    if counters.remap_failed:
        return HealthFinding(DeviceHealth.UNHEALTHY, "a row of its memory could not be remapped")
    if counters.remap_pending:
        return HealthFinding(DeviceHealth.UNHEALTHY, "a remapped row of its memory waits for a reset")
    if counters.retirement_pending:
        return HealthFinding(DeviceHealth.UNHEALTHY, "a retired page of its memory waits for a reset")
    if (counters.retired_pages or 0) >= MOST_RETIRED_PAGES:
        return HealthFinding(DeviceHealth.UNHEALTHY, f"{counters.retired_pages} pages of its memory are retired")
    return None


def memory_is_right(sight: GpuReading, _xids: Sequence[int]) -> HealthFinding | None:
    errors = (sight.vitals.counters.uncorrected_now or 0) if sight.vitals is not None else 0
    return (
        HealthFinding(DeviceHealth.UNHEALTHY, f"{errors} uncorrected ECC errors since the driver was loaded")
        if errors
        else None
    )


def a_fabric_is_up(sight: GpuReading, _xids: Sequence[int]) -> HealthFinding | None:
    wrong = sight.vitals.fabric if sight.vitals is not None else ""
    return HealthFinding(DeviceHealth.UNHEALTHY, f"its NVLink fabric is not up: {wrong}") if wrong else None


def a_partitioned_gpu_has_parts(sight: GpuReading, _xids: Sequence[int]) -> HealthFinding | None:
    bare = sight.card is not None and sight.card.partitioned and not sight.card.mig
    return HealthFinding(DeviceHealth.UNHEALTHY, "MIG is on and it has no instances") if bare else None


RULES: Sequence[Rule] = (
    what_is_unreadable_is_not_given,
    faults_stay_until_somebody_looks,
    memory_waits_for_no_repair,
    memory_is_right,
    a_fabric_is_up,
    a_partitioned_gpu_has_parts,
)


def health_of(sight: GpuReading, xids: Sequence[int] = ()) -> HealthFinding:
    """The first rule's finding, else healthy."""
    return next((found for rule in RULES if (found := rule(sight, xids)) is not None), WELL)
