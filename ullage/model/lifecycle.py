"""Lifecycle tables: the states of a thing, and a sentence on each edge between two of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from ullage.errors import InvariantBroken

S = TypeVar("S", bound=Enum)


class IllegalTransition(InvariantBroken):
    """Transition made by our own code that is not in the table."""


@dataclass(frozen=True)  # no slots: a frozen generic with slots cannot be called as Lifecycle[X](...)
class Lifecycle(Generic[S]):
    """States, and a sentence on each edge."""

    name: str
    edges: Mapping[tuple[S, S], str]

    @property
    def states(self) -> tuple[S, ...]:
        """States, in the order of their first mention in the table."""
        return tuple(dict.fromkeys(state for edge in self.edges for state in edge))

    def leads_to(self, start: S) -> tuple[S, ...]:
        """States one edge away."""
        return tuple(end for begin, end in self.edges if begin is start)

    def advance(self, subject: str, start: S, end: S) -> S:
        """End state of a transition of ours. Raises IllegalTransition where the table does not have it."""
        if start is not end and (start, end) not in self.edges:
            raise IllegalTransition(f"{self.name} {subject}: {start.value} -> {end.value} is not in the table")
        return end

    def observe(self, start: S | None, end: S) -> tuple[S, str]:
        """State found on an object: accepted as it is. The sentence is empty at first, for no change and for a jump."""
        return end, "" if start is None else self.edges.get((start, end), "")

    def is_jump(self, start: S | None, end: S) -> bool:
        """True for a change the table has no edge for."""
        return start is not None and start is not end and (start, end) not in self.edges
