"""Traces of placements: one trace per pod or gang, with the steps decide, lease and bind. Off unless a process turns
them on.

Steps are found through the context of the running task, so that actuators need no tracer: without one `step` costs a
look at a variable. How spans are sent is in `otel`.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import Protocol

Attributes = Mapping[str, str | int]


class PlacementStep(StrEnum):
    """Steps of a placement: names of spans below the span `placement`."""

    DECIDE = "decide"
    LEASE = "lease"
    BIND = "bind"


class PlacementSpan(Protocol):
    """Span of one placement while it is under way."""

    def failed(self, reason: str, detail: str) -> None:
        """The placement ended without a bind."""
        ...


class PlacementTracer(Protocol):
    """Maker of spans."""

    def placement(self, attributes: Attributes, decide_seconds: float) -> AbstractContextManager[PlacementSpan]:
        """Span of a placement during the block. Its decision ended now, and took so long."""
        ...

    def step(self, name: PlacementStep, attributes: Attributes) -> AbstractContextManager[None]:
        """Span of one step during the block, below that of the placement."""
        ...


class _NoSpan:
    def failed(self, reason: str, detail: str) -> None:
        """Nothing is sent."""


_NO_SPAN = _NoSpan()
_tracer: ContextVar[PlacementTracer | None] = ContextVar("placement_tracer", default=None)


@contextmanager
def placement(tracer: PlacementTracer | None, attributes: Attributes, decide_seconds: float) -> Iterator[PlacementSpan]:
    """Trace of a placement during the block; nothing without a tracer."""
    if tracer is None:
        yield _NO_SPAN
        return
    token = _tracer.set(tracer)
    try:
        with tracer.placement(attributes, decide_seconds) as span:
            yield span
    finally:
        _tracer.reset(token)


@contextmanager
def step(name: PlacementStep, **attributes: str | int) -> Iterator[None]:
    """One step of the placement that is under way in this task; nothing if it is not traced."""
    tracer = _tracer.get()
    if tracer is None:
        yield
        return
    with tracer.step(name, attributes):
        yield
