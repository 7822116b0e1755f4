"""Decisions of SchedulerCore: intents of `model.intents`, refusals with what follows from them, and searches."""

from collections.abc import Hashable
from dataclasses import dataclass

from ullage.decide.gang.placement import GangNoFit
from ullage.decide.placement.engine import NoFit
from ullage.decide.preemption.preempt import NoPreemption
from ullage.model.fact_event import ObjectKey
from ullage.model.intents import BindGang, BindPod, EvictGang, Preempt
from ullage.model.pod import Pod
from ullage.model.refusal import SchedulingFailure
from ullage.model.stepper import Stepper


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
    passing: bool = False
    """The reason ends by itself and changes nothing in the way of the pods: a back-off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionSearch:
    """No node now; victims are searched for. Drive `steps` to the end and pass the result to `SchedulerCore.conclude`.

    Other decisions are made meanwhile. Until then the pods are in flight: they are not decided on again.
    """

    pods: tuple[Pod, ...]
    """The pod, or all pending pods of the gang, as they are to be placed."""
    answer: NoFit | GangNoFit
    steps: Stepper[tuple[Preempt, ...] | NoPreemption]
    gang: ObjectKey | None = None
    kind: Hashable = None
    """Kind of the pod in the queue, if it is one."""


@dataclass(frozen=True, slots=True)
class SearchDeferred:
    """No node now; a search for victims follows when the one that goes on has ended. Nothing is to be done."""

    pod: ObjectKey


Decision = BindPod | BindGang | EvictGang | PodsUnschedulable | PreemptionSearch | SearchDeferred
