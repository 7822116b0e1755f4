"""What the desk can decide: intents of `model.action`, and refusals with what comes of them."""

from dataclasses import dataclass

from ullage.model.action import EvictGang, Place, PlaceGang, Preempt
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.refusal import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """No place now for a pod, or for all of a gang's pods."""

    pods: tuple[Pod, ...]
    why: Refusal
    preempts: tuple[Preempt, ...] = ()
    """Who has to leave, so that there is a place soon."""
    gave_up: ObjectKey | None = None
    """The gang whose time was up with this."""
    unnominate: bool = False
    """The node that was being made free for them is no longer kept for them."""


Decision = Place | PlaceGang | EvictGang | Refused
