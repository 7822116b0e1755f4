"""UnleasedProcessTracker: each process on a GPU its pod does not hold is reported once, until it is gone."""

from collections.abc import Collection
from enum import Enum, auto

from ullage.decide.inventory.usage import UnleasedProcess


class _State(Enum):
    SEEN = auto()
    """Seen once. A pod may start before its allocation is observed."""
    SUSPECT = auto()
    """Seen twice in a row: the GPU's Lease has to be read."""
    EXCUSED = auto()
    """The Lease names the process' pod, which is gone: the GPU is in quarantine."""
    REPORTED = auto()


class UnleasedProcessTracker:
    """Fed with each poll; names the processes whose Lease has to be read."""

    def __init__(self) -> None:
        self._known: dict[UnleasedProcess, _State] = {}

    def note(self, unleased: Collection[UnleasedProcess]) -> None:
        """Take over the processes seen by this poll; all others are gone."""
        after = {_State.SEEN: _State.SUSPECT}
        known = self._known
        self._known = {
            one: after.get(known[one], known[one]) if one in known else _State.SEEN for one in sorted(unleased)
        }

    @property
    def suspects(self) -> tuple[UnleasedProcess, ...]:
        """Processes whose GPU's Lease has to be read."""
        return tuple(one for one, state in self._known.items() if state is _State.SUSPECT)

    @property
    def at_large(self) -> tuple[UnleasedProcess, ...]:
        """Processes that are not excused."""
        return tuple(one for one, state in self._known.items() if state is not _State.EXCUSED)

    def excuse(self, process: UnleasedProcess) -> None:
        """The GPU's Lease belongs to the process' pod."""
        self._settle(process, _State.EXCUSED)

    def reported(self, process: UnleasedProcess) -> None:
        """The process has been reported."""
        self._settle(process, _State.REPORTED)

    def doubt_excuses(self) -> None:
        """Read the Leases of excused processes again: Leases end."""
        for process, state in self._known.items():
            if state is _State.EXCUSED:
                self._known[process] = _State.SUSPECT

    def _settle(self, process: UnleasedProcess, state: _State) -> None:
        if process in self._known:  # it may have ended while its Lease was read
            self._known[process] = state
