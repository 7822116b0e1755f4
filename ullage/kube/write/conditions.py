"""Conditions of an object: at most one of each type, each in its place."""

from collections.abc import Sequence

from ullage.kube.objects.meta import Condition


def found(conditions: Sequence[Condition], kind: str) -> Condition | None:
    """The condition of this type."""
    return next((one for one in conditions if one.type == kind), None)


def put(conditions: Sequence[Condition], new: Condition) -> tuple[Condition, ...]:
    """With this one in the place of that of its type, or at the end."""
    if found(conditions, new.type) is None:
        return (*conditions, new)
    return tuple(new if one.type == new.type else one for one in conditions)


def since(before: Condition | None, status: str, now: str) -> str:
    """Return lastTransitionTime: kept while the status stays the same, as a new reason or message is no transition."""
    kept = before.last_transition_time if before is not None and before.status == status else None
    return kept or now
