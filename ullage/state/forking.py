"""Copies of mutable state for a forked snapshot. Containers are copied as deep as they change; facts are shared."""

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


class Forkable:
    """Part of a snapshot whose fields can be copied one by one.

    A part that refers to another part overrides `fork`: the copy must refer to the copied part.
    """

    def fork(self: T) -> T:
        """Return an independent copy that shares frozen facts."""
        twin = object.__new__(type(self))
        for name, value in vars(self).items():
            setattr(twin, name, forked(value))
        return twin


def weakly(method: Callable[[T], None]) -> Callable[[T], None]:
    """A method that does not keep its object: parts of a fork are in no circle, so it is freed when it is dropped."""
    kept = weakref.WeakMethod(method)

    def call(argument: T) -> None:
        found = kept()
        if found is not None:
            found(argument)

    return call


_MUTABLE = (Forkable, dict, list, set)


def forked(value: Any) -> Any:
    """Copy of one field. The values of a dict are of one kind, so the first one tells whether they are copied too."""
    if isinstance(value, Forkable):
        return value.fork()
    if isinstance(value, np.ndarray | list | set):
        return value.copy()
    if isinstance(value, dict):
        first = next(iter(value.values()), None)
        if isinstance(first, dict) and first and not isinstance(next(iter(first.values())), _MUTABLE):
            # One call per value: there is a dict for each of 5,000 nodes.
            return type(value)({key: each.copy() for key, each in value.items()})
        if isinstance(first, _MUTABLE):
            return type(value)({key: forked(each) for key, each in value.items()})
        return value.copy()
    return value
