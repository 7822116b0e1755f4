"""Failed binds as reported to the owner of the pod. Pure."""

from ullage.model.fact_event import ObjectKey
from ullage.model.outcomes import BindFailure, PodNotBound
from ullage.model.refusal import PodScheduledReason, SchedulingFailure

_RACES = (BindFailure.GPU_TAKEN, BindFailure.POD_CHANGED, BindFailure.CLAIM_CHANGED)
"""Failures by a faster writer. Not reported the first time: the next attempt is seconds away."""


class BindFailures:
    """Remembers pods that lost a race once, until the pod has a place or is gone."""

    def __init__(self) -> None:
        self._raced: dict[ObjectKey, str] = {}

    def refusal(self, outcome: PodNotBound) -> SchedulingFailure | None:
        """Return the failure with its detail; None if the pod is gone, or for a first lost race."""
        pod, uid = outcome.action.pod, outcome.action.uid
        if outcome.setback is BindFailure.POD_GONE:
            return None
        if outcome.setback in _RACES and self._raced.get(pod) != uid:
            self._raced[pod] = uid
            return None
        return SchedulingFailure(
            word=outcome.setback.value,
            message=f"not bound to {outcome.action.node}: {outcome.detail}",
            waiting=PodScheduledReason.SCHEDULER_ERROR,
        )

    def forget(self, pod: ObjectKey) -> None:
        self._raced.pop(pod, None)
