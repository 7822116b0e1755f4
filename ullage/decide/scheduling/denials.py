"""Binds that the API server does not allow: a missing role, or an admission webhook that rejects them. Pure.

Retries do not help until a role or a webhook is changed. So of the denied pods of a namespace only one at a time is
tried again. Pods that were not denied yet are never held up by denied ones.
"""

from dataclasses import dataclass

from ullage.model.fact_event import ObjectKey
from ullage.model.units import Instant, Seconds

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 60.0
"""Seconds between two attempts in a namespace, doubled each time."""
DOUBTS = 5
"""After so many denied pods since the last bind that was allowed, the cause is no longer those pods themselves."""


@dataclass(slots=True)
class _Gate:
    until: Instant
    pause: Seconds = Seconds(FIRST_PAUSE)


class Denials:
    """Denied pods, and the instant of the next attempt in each namespace."""

    def __init__(self) -> None:
        self._denied: dict[ObjectKey, str] = {}
        """Uids of denied pods, oldest denial first."""
        self._gates: dict[str, _Gate] = {}
        self._sentence = ""
        self._ever_allowed = False

    def denied(self, pod: ObjectKey, uid: str, sentence: str, *, now: Instant) -> None:
        """Note a denial: the first of a pod, or another one after its attempt for its namespace."""
        again = self._denied.get(pod) == uid
        self._denied[pod] = uid
        self._sentence = sentence
        gate = self._gates.get(pod.namespace)
        if gate is None:
            self._gates[pod.namespace] = _Gate(Instant(now + FIRST_PAUSE))
        elif again:
            gate.pause = Seconds(min(LONGEST_PAUSE, gate.pause * 2))
            gate.until = Instant(now + gate.pause)

    def allowed(self, pod: ObjectKey) -> None:
        """Note that the pod was bound: the denials of its namespace are over."""
        self._ever_allowed = True
        self._gates.pop(pod.namespace, None)
        self._denied.clear()

    def forget(self, pod: ObjectKey) -> None:
        """Drop the pod: it is gone."""
        self._denied.pop(pod, None)

    def wait_until(self, pod: ObjectKey, uid: str, *, now: Instant) -> Instant | None:
        """Instant of the pod's next attempt; None if it may try now, for its whole namespace."""
        gate = self._gates.get(pod.namespace)
        if gate is None or self._denied.get(pod) != uid:
            return None
        if now < gate.until:
            return gate.until
        gate.until = Instant(now + gate.pause)
        return None

    @property
    def unready(self) -> str:
        """Reason that binds are denied; empty while they are allowed."""
        if len(self._denied) < (DOUBTS if self._ever_allowed else 1):
            return ""
        return f"placements are denied: {self._sentence}"
