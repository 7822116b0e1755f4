"""Settings of the Karpenter system as the core takes them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ullage.config.karpenter import KarpenterSettings
from ullage.model.karpenter import NodePoolMapping
from ullage.model.karpenter_failure import FailureReason
from ullage.model.lifecycles import SmartPodState as S
from ullage.model.units import Seconds

_USUAL = KarpenterSettings()


def deadlines_of(settings: KarpenterSettings) -> Mapping[S, Seconds]:
    """Longest time in each state."""
    return MappingProxyType(
        {
            S.PENDING: settings.pending_deadline,
            S.NOMINATED: settings.launch_deadline,
            S.LAUNCHED: settings.registration_deadline,
            S.REGISTERED: settings.initialization_deadline,
            S.INITIALIZED: settings.inventory_deadline,
            S.INVENTORY_READY: settings.gang_deadline,
            S.RESERVED: settings.handover_deadline,
            S.HANDED_OVER: settings.handover_deadline,
        }
    )


DEFAULT_DEADLINES: Mapping[S, Seconds] = deadlines_of(_USUAL)

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
    namespace: str = _USUAL.namespace
    image: str = _USUAL.image
    priority_class: str = _USUAL.priority_class
    batch_window: Seconds = _USUAL.batch_window
    max_in_flight: int = _USUAL.max_in_flight
    max_retry_attempts: int = _USUAL.max_retry_attempts
    first_backoff: Seconds = _USUAL.initial_backoff
    longest_backoff: Seconds = _USUAL.max_backoff
    active_deadline: int = 600
    longest_wait: Seconds = _USUAL.cleanup_interval
    """Time between two looks at all requests where nothing changes."""
    deadlines: Mapping[S, Seconds] = field(default_factory=lambda: DEFAULT_DEADLINES)

    @classmethod
    def of(cls, settings: KarpenterSettings) -> "KarpenterPolicy":
        """Policy of these settings."""
        return cls(
            mappings=tuple(settings.node_pools[name] for name in sorted(settings.node_pools)),
            namespace=settings.namespace,
            image=settings.image,
            priority_class=settings.priority_class,
            batch_window=settings.batch_window,
            max_in_flight=settings.max_in_flight,
            max_retry_attempts=settings.max_retry_attempts,
            first_backoff=settings.initial_backoff,
            longest_backoff=settings.max_backoff,
            longest_wait=settings.cleanup_interval,
            deadlines=deadlines_of(settings),
        )

    def longest_run(self, *, in_gang: bool) -> int:
        """activeDeadlineSeconds of a smart pod. kubelet counts it from the start, and a gang may wait for its last."""
        if not in_gang:
            return self.active_deadline
        left = (S.REGISTERED, S.INITIALIZED, S.INVENTORY_READY, S.RESERVED)
        return max(self.active_deadline, int(sum(self.deadlines[state] for state in left)))

    def backoff(self, attempts: int) -> Seconds:
        """Back-off after this many failed attempts in a row."""
        return Seconds(min(self.longest_backoff, self.first_backoff * 2.0 ** min(max(0, attempts - 1), 30)))

    def mapping(self, name: str) -> NodePoolMapping | None:
        return next((one for one in self.mappings if one.name == name), None)
