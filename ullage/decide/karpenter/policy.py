"""Settings of the Karpenter system as the core takes them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ullage.model.karpenter import NodePoolMapping
from ullage.model.karpenter_failure import FailureReason
from ullage.model.lifecycles import SmartPodState as S
from ullage.model.units import Seconds

DEFAULT_DEADLINES: Mapping[S, Seconds] = MappingProxyType(
    {
        S.PENDING: Seconds(120.0),
        S.NOMINATED: Seconds(360.0),
        S.LAUNCHED: Seconds(960.0),
        S.REGISTERED: Seconds(600.0),
        S.INITIALIZED: Seconds(300.0),
        S.INVENTORY_READY: Seconds(1200.0),
        S.RESERVED: Seconds(60.0),
        S.HANDED_OVER: Seconds(60.0),
    }
)

TIMEOUTS: Mapping[S, FailureReason] = MappingProxyType(
    {
        S.PENDING: FailureReason.PENDING_TIMEOUT,
        S.NOMINATED: FailureReason.LAUNCH_TIMEOUT,
        S.LAUNCHED: FailureReason.REGISTRATION_TIMEOUT,
        S.REGISTERED: FailureReason.INITIALIZATION_TIMEOUT,
        S.INITIALIZED: FailureReason.INVENTORY_TIMEOUT,
        S.INVENTORY_READY: FailureReason.GANG_TIMEOUT,
        S.RESERVED: FailureReason.HANDOVER_LOST,
        S.HANDED_OVER: FailureReason.HANDOVER_LOST,
    }
)
"""Reason of the failure when a state's deadline passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KarpenterPolicy:
    """Settings of the operator."""

    mappings: tuple[NodePoolMapping, ...] = ()
    namespace: str = "tensor-fusion-system"
    image: str = "pause:3.9"
    priority_class: str = "ullage-smart-pod"
    batch_window: float = 0.2
    max_in_flight: int = 15
    max_retry_attempts: int = 3
    first_backoff: float = 10.0
    longest_backoff: float = 300.0
    active_deadline: int = 600
    deadlines: Mapping[S, Seconds] = field(default_factory=lambda: DEFAULT_DEADLINES)

    def backoff(self, attempts: int) -> Seconds:
        """Back-off after this many failed attempts in a row."""
        return Seconds(min(self.longest_backoff, self.first_backoff * 2.0 ** min(max(0, attempts - 1), 30)))

    def mapping(self, name: str) -> NodePoolMapping | None:
        return next((one for one in self.mappings if one.name == name), None)
