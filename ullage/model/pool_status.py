"""Status of a pool to be written on its NodeProvisioner."""

from dataclasses import dataclass

from ullage.model.provisioner import AwaitedInstance, BackOff, Purchase
from ullage.model.units import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class LastDecision:
    """Last decision on a pool, with its time."""

    action: str
    count: int
    at: Instant
    why: str
    recommended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolStatus:
    """Status of a pool at this moment. Sizes in nodes."""

    current: int
    target: int
    coming: int
    utilization_percent: int | None
    tainted: tuple[tuple[str, Instant], ...]
    """Nodes marked for deletion, with their times, by name."""
    decision: LastDecision
    draining: int = 0
    """Nodes whose pods are being moved away."""
    paused: bool = False
    trouble: str = ""
    """Failure of its provider, whose instances could not be listed for long; empty where all is well."""
    unmet: int = 0
    """Pending pods that no pool serves, for which this pool may not buy."""
    silence: str = ""
    """Sentence about silent agents; empty while all of them report."""
    silence_excused: bool = False
    """For some silent nodes no replacement is bought."""
    purchases: int = 0
    purchase: Purchase | None = None
    awaited: tuple[AwaitedInstance, ...] = ()
    back_off: BackOff | None = None
    agent_taint: bool = False
    """Agents taint nodes of this pool, as far as was seen."""
