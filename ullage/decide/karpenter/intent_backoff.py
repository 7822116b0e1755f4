"""Back-off between two intents on one object: after a success until it is observed, after failures exponential."""

from typing import assert_never

from ullage.model.fact_event import ObjectKey
from ullage.model.intents import (
    AdmitWaitingPod,
    ClearHandover,
    CreateSmartPod,
    DeleteSmartPod,
    KarpenterIntent,
    MarkNodePool,
    RecordFailure,
    RecordSmartPodState,
    ReserveNode,
)
from ullage.model.outcomes import IntentDone, IntentFailed, IntentRejected, IntentStale, KarpenterOutcome
from ullage.model.units import Instant, Seconds, after

SMART_POD, NODE, POD, NODE_POOL = "smart pod", "node", "pod", "NodePool"
Subject = tuple[str, ObjectKey]

UNOBSERVED = Seconds(5.0)
"""Seconds until an intent that was performed and whose change is not observed may be repeated."""
STALE = 1.0
FIRST_FAILURE, LONGEST_FAILURE = 1.0, 60.0


def subject_of(intent: KarpenterIntent) -> Subject:
    """Object that an intent writes to."""
    match intent:
        case CreateSmartPod() | RecordSmartPodState() | DeleteSmartPod():
            return SMART_POD, intent.key
        case ReserveNode() | ClearHandover():
            return NODE, ObjectKey("", intent.node)
        case AdmitWaitingPod() | RecordFailure():
            return POD, intent.pod.key
        case MarkNodePool():
            return NODE_POOL, ObjectKey("", intent.node_pool)
        case _:
            assert_never(intent)


class IntentBackoff:
    """Objects in back-off. A restart may lose them: every intent is idempotent."""

    def __init__(self) -> None:
        self._until: dict[Subject, Instant] = {}
        self._failures: dict[Subject, int] = {}
        self._in_flight: set[Subject] = set()
        """Objects whose intent is being performed: a call may take long, and the others go on."""
        self._seen: set[Subject] = set()
        """Objects that changed since their last intent was issued: the watch may be faster than the response."""

    def issue(self, intent: KarpenterIntent) -> None:
        """Note that the intent is about to be performed."""
        self._in_flight.add(subject_of(intent))
        self._seen.discard(subject_of(intent))

    def is_in_flight(self, intent: KarpenterIntent) -> bool:
        """True while another intent on the same object is being performed."""
        return subject_of(intent) in self._in_flight

    def observed(self, subject: Subject) -> None:
        """Note that the object changed: our write is visible, or another component wrote."""
        self._seen.add(subject)
        if subject not in self._failures:
            self._until.pop(subject, None)

    def settle(self, outcome: KarpenterOutcome, *, now: Instant) -> int:
        """Take the outcome of an intent. Returns the number of failures in a row."""
        subject = subject_of(outcome.intent)
        self._in_flight.discard(subject)
        match outcome:
            case IntentDone():
                self._failures.pop(subject, None)
                if subject in self._seen:
                    self._until.pop(subject, None)
                else:
                    self._until[subject] = after(now, UNOBSERVED)
                return 0
            case IntentStale():
                self._failures.pop(subject, None)
                self._until[subject] = after(now, Seconds(STALE))
                return 0
            case IntentFailed() | IntentRejected():
                failures = self._failures[subject] = self._failures.get(subject, 0) + 1
                self._until[subject] = after(
                    now, Seconds(min(LONGEST_FAILURE, FIRST_FAILURE * 2.0 ** min(failures - 1, 10)))
                )
                return failures
            case _:
                assert_never(outcome)

    def until(self, intent: KarpenterIntent, *, now: Instant) -> Instant | None:
        """Instant from which the intent may be tried; None if it may be tried now."""
        subject = subject_of(intent)
        until = self._until.get(subject)
        if until is None or until <= now:
            self._until.pop(subject, None)
            return None
        return until
