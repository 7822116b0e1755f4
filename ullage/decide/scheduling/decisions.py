"""Decisions of SchedulerCore: intents of `model.action`, and refusals with what follows from them."""

from dataclasses import dataclass

from ullage.model.action import BindGang, BindPod, EvictGang, Preempt
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.refusal import SchedulingFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsUnschedulable:
    """No node now for a pod, or for all pending pods of a gang."""

    pods: tuple[Pod, ...]
    why: SchedulingFailure
    preempts: tuple[Preempt, ...] = ()
    """Pods to evict, so that there is room soon."""
    gave_up: ObjectKey | None = None
    """The gang whose scheduling timeout ran out with this decision."""
    unnominate: bool = False
    """The pods' nominations are removed."""


Decision = BindPod | BindGang | EvictGang | PodsUnschedulable
