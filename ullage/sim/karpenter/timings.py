"""Durations of the simulated Karpenter's steps, as measured on a real one with its kwok provider."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KarpenterTimings:
    """Durations of Karpenter's steps, in seconds."""

    batch_idle: float = 1.0
    batch_max: float = 10.0
    requeue: float = 10.0
    """Interval between two attempts for a pod that stays pending."""
    launch: float = 0.06
    no_capacity: float = 1.4
    """From creation to deletion of a NodeClaim for which the cloud has no capacity."""
    registration: float = 5.0
    """From launch to a Node: the boot time of an instance."""
    unregistered: float = 0.05
    """From the Node to the end of the taint that keeps pods off it."""
    registration_shown: float = 0.0
    """From the end of that taint to the NodeClaim's condition Registered. A real one was seen to need 0.1 s."""
    registration_deadline: float = 900.0
    """From creation to deletion of a NodeClaim whose instance never joins."""
    initialisation: float = 0.5
    disruption_poll: float = 10.0
    validation: float = 15.0
    termination: float = 5.0
    pod_event_dedup: float = 10.0
