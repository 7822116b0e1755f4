"""Scheduler feedback per pending pod: GPUs reserved for a bind under way, and the last scheduling failure.

Neither is stored on an API object. Feedback is about one pod by uid: another pod of its name never gets it. It counts
until the pod is bound, asks for something else, or is gone.
"""

from ullage.model.allocation import Allocation
from ullage.model.fact_event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.refusal import SETTLED_AFTER, SchedulingFailure
from ullage.model.units import Instant
from ullage.model.verdict import Reason


class SchedulerFeedback:
    """The latest reservation and scheduling failure of each pending pod."""

    def __init__(self) -> None:
        self._refusals: dict[ObjectKey, tuple[str, SchedulingFailure]] = {}
        self._since: dict[ObjectKey, Instant] = {}
        """Instant at which the failure that still holds was first reported."""
        self._reserved: dict[ObjectKey, tuple[str, Allocation]] = {}
        self._over_quota: dict[str, dict[ObjectKey, None]] = {}

    def refused(self, pod: Pod, why: SchedulingFailure, *, now: Instant) -> None:
        """Take over a failure. While its verdict stays the same, its message is updated for SETTLED_AFTER only."""
        self._reserved.pop(pod.key, None)
        known, since = self.refusal_of(pod), self._since.get(pod.key, now)
        if known is not None and known.verdict == why.verdict:
            why = why if now - since <= SETTLED_AFTER else known
        else:
            since = now
        self.absolve(pod.key)
        self._refusals[pod.key] = pod.uid, why
        self._since[pod.key] = since
        if why.word == Reason.QUOTA_EXCEEDED:
            self._over_quota.setdefault(pod.key.namespace, {})[pod.key] = None

    def reserved(self, pod: Pod, allocation: Allocation | None) -> None:
        if allocation is None:
            self._reserved.pop(pod.key, None)
        else:
            self._reserved[pod.key] = pod.uid, allocation

    def absolve(self, key: ObjectKey) -> None:
        """Drop the pod's scheduling failure."""
        self._refusals.pop(key, None)
        self._since.pop(key, None)
        namespace = self._over_quota.get(key.namespace, {})
        namespace.pop(key, None)
        if not namespace:
            self._over_quota.pop(key.namespace, None)

    def forget(self, key: ObjectKey) -> None:
        """Drop all feedback on the pod."""
        self.absolve(key)
        self._reserved.pop(key, None)

    def refusal_of(self, pod: Pod) -> SchedulingFailure | None:
        uid, why = self._refusals.get(pod.key, ("", None))
        return why if uid == pod.uid else None

    def reserved_for(self, pod: Pod) -> Allocation | None:
        uid, allocation = self._reserved.get(pod.key, ("", None))
        return allocation if uid == pod.uid else None

    def is_over_quota(self, pod: ObjectKey) -> bool:
        """True if the pod was refused for the quota of its namespace."""
        return pod in self._over_quota.get(pod.namespace, ())

    def over_quota(self, namespace: str) -> list[ObjectKey]:
        """Pods of a namespace that were refused for its quota, sorted by name."""
        return sorted(self._over_quota.get(namespace, ()))
