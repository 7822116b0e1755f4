"""Misfortune on demand, for providers that run on nothing but this machine."""

from collections import deque
from dataclasses import dataclass

from ullage.cloud.api import CloudError, OutcomeUnknown


@dataclass(frozen=True, slots=True)
class Fault:
    """An error instead of an answer; `happened` says whether the call was carried out all the same."""

    error: CloudError
    happened: bool = False


class Faults:
    """What goes wrong next, by call: `create`, `delete`, `list`. Everything else goes well."""

    def __init__(self) -> None:
        self._coming: dict[str, deque[Fault]] = {}
        self.never_joins = 0
        """So many of the next instances never become nodes."""

    def fail(self, verb: str, error: CloudError, times: int = 1) -> None:
        """The next calls end in this error, and nothing happens."""
        self._coming.setdefault(verb, deque()).extend([Fault(error)] * times)

    def lose_answer(self, verb: str) -> None:
        """The next call is carried out, and nobody hears of it."""
        lost = Fault(OutcomeUnknown(f"{verb}: no answer"), happened=True)
        self._coming.setdefault(verb, deque()).append(lost)

    def before(self, verb: str) -> Fault | None:
        """To be asked once when a call begins. Raises the error of one that does not happen."""
        waiting = self._coming.get(verb)
        fault = waiting.popleft() if waiting else None
        if fault is not None and not fault.happened:
            raise fault.error
        return fault

    def after(self, fault: Fault | None) -> None:
        """To be told when the call has been carried out. Raises the error of one whose answer is lost."""
        if fault is not None:
            raise fault.error

    def joins(self) -> bool:
        """Whether the next instance becomes a node."""
        if self.never_joins:
            self.never_joins -= 1
            return False
        return True
