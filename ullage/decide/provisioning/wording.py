"""Sentences about nodes, the same in logs, Events and conditions."""

from collections.abc import Sequence

MOST_NAMED = 5


def some_of(names: Sequence[str]) -> str:
    """First few names, and the number of further ones."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{', '.join(names[:MOST_NAMED])}{more}"


def nodes_in_words(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
