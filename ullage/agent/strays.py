"""Keeps an eye on processes that are where they should not be: each is told once, and forgotten when it is gone."""

from collections.abc import Collection
from enum import Enum, auto

from ullage.decide.inventory.usage import Stray


class _State(Enum):
    SEEN = auto()
    """Once. A pod may be faster than the news of what it was given."""
    SUSPECT = auto()
    """Twice in a row: its Lease has to be asked."""
    EXCUSED = auto()
    """Its Lease names its pod, which is gone: the GPU is in quarantine."""
    TOLD = auto()


class StrayWatch:
    """Fed with each look; says who has to be asked about."""

    def __init__(self) -> None:
        self._known: dict[Stray, _State] = {}

    def note(self, strays: Collection[Stray]) -> None:
        """These are there now, and no others."""
        after = {_State.SEEN: _State.SUSPECT}
        known = self._known
        self._known = {
            one: after.get(known[one], known[one]) if one in known else _State.SEEN for one in sorted(strays)
        }

    @property
    def suspects(self) -> tuple[Stray, ...]:
        """Those whose Lease has to be asked."""
        return tuple(one for one, state in self._known.items() if state is _State.SUSPECT)

    @property
    def at_large(self) -> tuple[Stray, ...]:
        """Those that are not excused."""
        return tuple(one for one, state in self._known.items() if state is not _State.EXCUSED)

    def excuse(self, stray: Stray) -> None:
        """Its Lease is its pod's."""
        self._settle(stray, _State.EXCUSED)

    def told(self, stray: Stray) -> None:
        """Everybody knows."""
        self._settle(stray, _State.TOLD)

    def doubt_excuses(self) -> None:
        """Ask again about those that were excused: Leases end."""
        for stray, state in self._known.items():
            if state is _State.EXCUSED:
                self._known[stray] = _State.SUSPECT

    def _settle(self, stray: Stray, state: _State) -> None:
        if stray in self._known:  # it may have gone while it was asked about
            self._known[stray] = state
