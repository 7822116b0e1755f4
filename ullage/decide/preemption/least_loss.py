"""Sets of units by the GPUs they lose, the fewest first. Putting pods back one by one does not always find the fewest.

An island is freed by the right pods, not by the smallest ones; a gang counts with its members on other nodes. Pure
combinatorics: whether a set makes enough room, the caller tries.
"""

import heapq
from collections.abc import Iterator, Sequence
from itertools import chain, combinations, islice

from ullage.decide.preemption.protection import EvictionUnit, gpus_lost

MOST_SETS = 512
"""Sets of one plan that are compared."""
MOST_OF_GANG = 64
"""Ways in which members that a gang can spare go."""

Choice = tuple[EvictionUnit, ...]
"""One way in which pods of a unit go: the unit, or single members that a gang can spare."""


def choices(unit: EvictionUnit, node: str, highest: int) -> list[Choice]:
    """Ways in which pods of a unit may go from this node, none of a higher priority than `highest`."""
    found: list[Choice] = [(unit,)] if max(pod.priority for pod in unit.pods) <= highest else []
    if len(unit.pods) > 1 and unit.beyond_minimum:
        here = [pod for pod in unit.pods if pod.node == node and pod.priority <= highest]
        sizes = range(1, min(unit.beyond_minimum, len(here)) + 1)
        some = chain.from_iterable(combinations(here, size) for size in sizes)
        found += [tuple(EvictionUnit((pod,), {}) for pod in pods) for pods in islice(some, MOST_OF_GANG)]
    return found


def sets_by_loss(units: Sequence[Sequence[Choice]], below: int) -> Iterator[tuple[int, list[EvictionUnit]]]:
    """Sets with at most one choice of each unit that lose fewer than `below`, by GPUs lost; the empty set first."""
    heap: list[tuple[int, int, int, tuple[Choice, ...]]] = [(0, 0, 0, ())]
    number = 0
    while heap:
        lost, _, following, chosen = heapq.heappop(heap)
        yield lost, [unit for choice in chosen for unit in choice]
        for place in range(following, len(units)):
            for choice in units[place]:
                total = lost + sum(gpus_lost(pod) for unit in choice for pod in unit.pods)
                if total < below:
                    number += 1
                    heapq.heappush(heap, (total, number, place + 1, (*chosen, choice)))
