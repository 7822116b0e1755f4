"""What changed, section by section, and the sum of all changes. A snapshot is the patch from nothing."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from ullage.web.view.rows import AnyRow


class Section(StrEnum):
    """The parts of the page."""

    ABOUT = "about"
    TOTALS = "totals"
    NODES = "nodes"
    POOLS = "pools"
    PENDING = "pending"
    DECISIONS = "decisions"
    SERIES = "series"


ONLY = "now"
"""The key in sections of one row."""

Rows = Mapping[str, AnyRow | None]
"""By key; None where it is gone."""


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that changed, at a moment."""

    now: float
    sections: dict[Section, dict[str, AnyRow | None]]

    @property
    def empty(self) -> bool:
        return not self.sections

    def as_json(self) -> bytes:
        """`{"now": 1.0, "nodes": {"a": {...}, "b": null}}`."""
        plain: dict[str, Any] = {"now": self.now}
        return msgspec.json.encode(plain | self.sections)


class Table:
    """The rows of one section as they were last told, and which differ since."""

    def __init__(self) -> None:
        self.rows: dict[str, AnyRow] = {}
        self._changed: dict[str, AnyRow | None] = {}

    def put(self, key: str, row: AnyRow) -> bool:
        """Whether it is news."""
        if self.rows.get(key) == row:
            return False
        self.rows[key] = self._changed[key] = row
        return True

    def drop(self, key: str) -> None:
        if self.rows.pop(key, None) is not None:
            self._changed[key] = None

    def taken(self) -> dict[str, AnyRow | None]:
        """What changed since this was last asked."""
        changed, self._changed = self._changed, {}
        return changed


class Mirror:
    """The sum of all patches so far: what a browser that has heard all of them shows."""

    def __init__(self) -> None:
        self.now = 0.0
        self._sections: dict[Section, dict[str, AnyRow]] = {}

    def apply(self, patch: Patch) -> None:
        self.now = patch.now
        for section, rows in patch.sections.items():
            known = self._sections.setdefault(section, {})
            for key, row in rows.items():
                if row is None:
                    known.pop(key, None)
                else:
                    known[key] = row

    def snapshot(self) -> Patch:
        """From nothing to here."""
        return Patch(now=self.now, sections={section: dict(rows) for section, rows in self._sections.items()})
