"""Outcomes of intents of the Karpenter controller."""

from dataclasses import dataclass

from ullage.model.intents import KarpenterIntent


@dataclass(frozen=True, slots=True)
class IntentDone:
    """The state asked for holds; another client may have written it."""

    intent: KarpenterIntent
    written: bool = True
    """False where it held already."""


@dataclass(frozen=True, slots=True)
class IntentStale:
    """The object is gone, was replaced, or changed since. The next observation decides."""

    intent: KarpenterIntent
    detail: str


@dataclass(frozen=True, slots=True)
class IntentRejected:
    """The API server refused for good: repeating the same request is of no use."""

    intent: KarpenterIntent
    detail: str


@dataclass(frozen=True, slots=True)
class IntentFailed:
    """The API server could not be asked, or did not answer. The intent is tried again after a back-off."""

    intent: KarpenterIntent
    detail: str


KarpenterOutcome = IntentDone | IntentStale | IntentRejected | IntentFailed
