"""What the scheduler says of waiting pods and no object does: what is held for them, and why they were refused.

Each word is about one pod by uid: another pod of its name never gets it. It counts until the pod is bound, asks for
something else, or is gone.
"""

from ullage.model.allocation import Allocation
from ullage.model.event import ObjectKey
from ullage.model.pod import Pod
from ullage.model.refusal import Refusal
from ullage.model.verdict import Reason


class Hearsay:
    """Words on pods, the latest of each kind."""

    def __init__(self) -> None:
        self._refusals: dict[ObjectKey, tuple[str, Refusal]] = {}
        self._reserved: dict[ObjectKey, tuple[str, Allocation]] = {}
        self._over_quota: dict[str, dict[ObjectKey, None]] = {}

    def refused(self, pod: Pod, why: Refusal) -> None:
        self.absolve(pod.key)
        self._reserved.pop(pod.key, None)
        self._refusals[pod.key] = pod.uid, why
        if why.word == Reason.QUOTA_EXCEEDED:
            self._over_quota.setdefault(pod.key.namespace, {})[pod.key] = None

    def reserved(self, pod: Pod, allocation: Allocation | None) -> None:
        if allocation is None:
            self._reserved.pop(pod.key, None)
        else:
            self._reserved[pod.key] = pod.uid, allocation

    def absolve(self, key: ObjectKey) -> None:
        """Whatever it was refused for no longer counts."""
        self._refusals.pop(key, None)
        namespace = self._over_quota.get(key.namespace, {})
        namespace.pop(key, None)
        if not namespace:
            self._over_quota.pop(key.namespace, None)

    def forget(self, key: ObjectKey) -> None:
        """Nothing that was said counts any more."""
        self.absolve(key)
        self._reserved.pop(key, None)

    def refusal_of(self, pod: Pod) -> Refusal | None:
        uid, why = self._refusals.get(pod.key, ("", None))
        return why if uid == pod.uid else None

    def reserved_for(self, pod: Pod) -> Allocation | None:
        uid, allocation = self._reserved.get(pod.key, ("", None))
        return allocation if uid == pod.uid else None

    def is_over_quota(self, pod: ObjectKey) -> bool:
        """Whether it was refused for the quota of its namespace."""
        return pod in self._over_quota.get(pod.namespace, ())

    def over_quota(self, namespace: str) -> list[ObjectKey]:
        """Pods of a namespace that were refused for its quota, by name."""
        return sorted(self._over_quota.get(namespace, ()))
