"""What must hold of any run in which nodes were drained, whatever happened to whom."""

from collections.abc import Iterator, Sequence

from tests.control.draining.at_scale.cluster import Service
from ullage.model.draining import CANDIDATE_TAINT, DRAINING_TAINT
from ullage.testing.checks.disruption import Change, ObservedDrain, below_minimum, bound_late, drains, went_with_pods

BOUND_WITHIN = 5.0


def everything_wrong(changes: Sequence[Change], services: Sequence[Service], *, after: int) -> Iterator[str]:
    """Budgets overdrawn, pods lost with their node, and replacements (made after that version) that waited too long."""
    yield from below_minimum(changes, {service.key: service.replicas for service in services})
    yield from bound_late(changes, after=after, within=BOUND_WITHIN)
    yield from went_with_pods(changes)


def removals(changes: Sequence[Change]) -> list[ObservedDrain]:
    return drains(changes, draining=DRAINING_TAINT, candidate=CANDIDATE_TAINT)


def too_early(found: Sequence[ObservedDrain], unneeded: float) -> Iterator[str]:
    """Removals of nodes that had not been candidates for long enough, by what their taints say in whole seconds."""
    for one in found:
        since = one.candidate_since
        if not since or int(one.value) - int(since) < unneeded - 1:
            yield f"{one.node} was a candidate since {since or 'never'}, and tainted at {one.value}"


def newest(changes: Sequence[Change]) -> int:
    return max(change.version for change in changes)
