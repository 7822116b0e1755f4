"""Whether a GPU may be given to anybody, from what was seen of it: ordered rules, the first that speaks decides."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ullage.decide.inventory.sights import Sight, Trouble
from ullage.model.device import Health

XIDS_OF_PROGRAMS = frozenset({13, 31, 43, 45, 66, 68, 69, 109})
"""Illegal addresses, page faults, stopped channels and the like: what a program did wrong, not the GPU."""

XIDS_THAT_ONLY_TELL = frozenset({63, 92, 94, 154})
"""Rows remapped, many corrected errors, an error that was contained, a change of the recovery action: where something
is left to be done, a counter or NVML says so, too."""

MOST_RETIRED_PAGES = 60
"""From here on the maker replaces the board."""

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
    Trouble.LOST: (Health.UNHEALTHY, "fell off the bus"),
    Trouble.RESET_REQUIRED: (Health.UNHEALTHY, "needs a reset"),
    Trouble.SILENT: (Health.UNHEALTHY, "does not answer"),
    Trouble.MISSING: (Health.UNHEALTHY, "is not there any more"),
    Trouble.UNREADABLE: (Health.UNKNOWN, "cannot be read"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """How a GPU is, and why it is not well."""

    health: Health
    why: str = ""


WELL = Finding(Health.HEALTHY)

Rule = Callable[[Sight, Sequence[int]], Finding | None]
"""A GPU as it was seen, and the Xids heard of it."""


def is_fault(xid: int) -> bool:
    """Whether this Xid speaks against the GPU. One that nobody here knows does."""
    return xid not in XIDS_OF_PROGRAMS and xid not in XIDS_THAT_ONLY_TELL


def what_is_unreadable_is_not_given(sight: Sight, _xids: Sequence[int]) -> Finding | None:
    if sight.trouble is None:
        return None
    health, words = _TROUBLES[sight.trouble]
    return Finding(health, f"{words} ({sight.detail})" if sight.detail else words)


def faults_stay_until_somebody_looks(_sight: Sight, xids: Sequence[int]) -> Finding | None:
    faults = [xid for xid in xids if is_fault(xid)]
    if not faults:
        return None
    words = _XIDS.get(faults[0])
    return Finding(Health.UNHEALTHY, f"Xid {faults[0]}: {words}" if words else f"Xid {faults[0]}")


def memory_waits_for_no_repair(sight: Sight, _xids: Sequence[int]) -> Finding | None:
    counters = sight.vitals.counters if sight.vitals is not None else None
    if counters is None:
        return None
    if counters.remap_failed:
        return Finding(Health.UNHEALTHY, "a row of its memory could not be remapped")
    if counters.remap_pending:
        return Finding(Health.UNHEALTHY, "a remapped row of its memory waits for a reset")
    if counters.retirement_pending:
        return Finding(Health.UNHEALTHY, "a retired page of its memory waits for a reset")
    if (counters.retired_pages or 0) >= MOST_RETIRED_PAGES:
        return Finding(Health.UNHEALTHY, f"{counters.retired_pages} pages of its memory are retired")
    return None


def memory_is_right(sight: Sight, _xids: Sequence[int]) -> Finding | None:
    errors = (sight.vitals.counters.uncorrected_now or 0) if sight.vitals is not None else 0
    return Finding(Health.UNHEALTHY, f"{errors} uncorrected ECC errors since the driver was loaded") if errors else None


def a_fabric_is_up(sight: Sight, _xids: Sequence[int]) -> Finding | None:
    wrong = sight.vitals.fabric if sight.vitals is not None else ""
    return Finding(Health.UNHEALTHY, f"its NVLink fabric is not up: {wrong}") if wrong else None


def a_partitioned_gpu_has_parts(sight: Sight, _xids: Sequence[int]) -> Finding | None:
    bare = sight.card is not None and sight.card.partitioned and not sight.card.mig
    return Finding(Health.UNHEALTHY, "MIG is on and it has no instances") if bare else None


RULES: Sequence[Rule] = (
    what_is_unreadable_is_not_given,
    faults_stay_until_somebody_looks,
    memory_waits_for_no_repair,
    memory_is_right,
    a_fabric_is_up,
    a_partitioned_gpu_has_parts,
)


def health_of(sight: Sight, xids: Sequence[int] = ()) -> Finding:
    """The first rule that has something against it, else healthy."""
    return next((found for rule in RULES if (found := rule(sight, xids)) is not None), WELL)
