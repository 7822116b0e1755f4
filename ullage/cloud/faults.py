"""Fault injection for providers that run on this machine alone."""

from collections import deque
from dataclasses import dataclass

from ullage.cloud.api import CloudError, OutcomeUnknown


@dataclass(frozen=True, slots=True)
class CloudFault:
    """Error in place of an answer. `happened` says whether the call was carried out all the same."""

    error: CloudError
    happened: bool = False


class CloudFaults:
    """Faults of the next calls, by verb: `create`, `delete`, `list`. Calls without a fault succeed."""

    def __init__(self) -> None:
        self._coming: dict[str, deque[CloudFault]] = {}
        self.never_joins = 0
        """Number of next instances that never become nodes."""

    def fail(self, verb: str, error: CloudError, times: int = 1) -> None:
        """Let the next calls end in this error without effect."""
        self._coming.setdefault(verb, deque()).extend([CloudFault(error)] * times)

    def lose_answer(self, verb: str) -> None:
        """Let the next call take effect and lose its answer."""
        lost = CloudFault(OutcomeUnknown(f"{verb}: no answer"), happened=True)
        self._coming.setdefault(verb, deque()).append(lost)

    def clear(self) -> None:
        """Forget all faults that have not happened yet."""
        self._coming.clear()
        self.never_joins = 0

    def before(self, verb: str) -> CloudFault | None:
        """Take the fault of a call, once when the call begins. Raises the error of a call that has no effect."""
        waiting = self._coming.get(verb)
        fault = waiting.popleft() if waiting else None
        if fault is not None and not fault.happened:
            raise fault.error
        return fault

    def after(self, fault: CloudFault | None) -> None:
        """End a call that has taken effect. Raises the error of a call whose answer is lost."""
        if fault is not None:
            raise fault.error

    def joins(self) -> bool:
        """True if the next instance becomes a node. Counts `never_joins` down."""
        if self.never_joins:
            self.never_joins -= 1
            return False
        return True
