"""How a pool stands, as its status is to say it."""

from dataclasses import dataclass

from ullage.model.provisioner import Awaited, BackOff, Purchase


@dataclass(frozen=True, slots=True, kw_only=True)
class LastDecision:
    """What was decided, and when."""

    action: str
    count: int
    at: float
    why: str
    recommended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolStanding:
    """What is true of a pool at this moment. Sizes in nodes."""

    current: int
    target: int
    coming: int
    utilization_percent: int | None
    tainted: tuple[tuple[str, float], ...]
    """Nodes that are to go, with their times, by name."""
    decision: LastDecision
    draining: int = 0
    """Nodes whose pods are being moved away."""
    paused: bool = False
    purchases: int = 0
    purchase: Purchase | None = None
    awaited: tuple[Awaited, ...] = ()
    back_off: BackOff | None = None
