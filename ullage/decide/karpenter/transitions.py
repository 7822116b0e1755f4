"""Observed transitions of requests between states, for the reporter only."""

from dataclasses import dataclass

from ullage.model.lifecycles import ENDED, SMART_POD
from ullage.model.lifecycles import SmartPodState as S
from ullage.model.units import Instant, Seconds, elapsed


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A request moved from one state to another."""

    request: str
    start: S | None
    end: S
    at: Instant
    seconds: Seconds
    """Time spent in the state before."""
    sentence: str
    jump: bool
    """True if the state table has no such transition."""


class TransitionLog:
    """Last observed state of each request, and the transitions since the last drain."""

    def __init__(self) -> None:
        self._states: dict[str, tuple[S, Instant]] = {}
        self._moves: list[Transition] = []

    def observe(self, request: str, state: S, *, now: Instant) -> None:
        before = self._states.get(request)
        start = None if before is None else before[0]
        if start is state:
            return
        end, sentence = SMART_POD.observe(start, state)
        self._moves.append(
            Transition(
                request=request,
                start=start,
                end=end,
                at=Instant(now),
                seconds=Seconds(0.0) if before is None else elapsed(before[1], now),
                sentence=sentence,
                jump=SMART_POD.is_jump(start, end),
            )
        )
        if end in ENDED:
            self._states.pop(request, None)
        else:
            self._states[request] = (end, Instant(now))

    def complete(self, request: str) -> None:
        """Forget a request whose hand-over is complete."""
        self._states.pop(request, None)

    def drain(self) -> list[Transition]:
        moves, self._moves = self._moves, []
        return moves

    def states(self) -> dict[str, S]:
        """States of the requests that are not over, by id."""
        return {request: state for request, (state, _) in sorted(self._states.items())}
