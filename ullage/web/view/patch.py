"""Changes by section, and the sum of all changes. A snapshot is the patch from nothing."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from ullage.web.view.rows import AnyRow


class PageSection(StrEnum):
    """Parts of the page."""

    ABOUT = "about"
    TOTALS = "totals"
    NODES = "nodes"
    POOLS = "pools"
    PENDING = "pending"
    GROUPS = "groups"
    BANNERS = "banners"
    CAPACITY = "capacity"
    DECISIONS = "decisions"
    SERIES = "series"
    LEDGERS = "ledgers"
    QUOTAS = "quotas"
    GANGS = "gangs"
    PREEMPTIONS = "preemptions"
    DRAINS = "drains"


ONLY = "now"
"""Key in sections of one row."""

Rows = Mapping[str, AnyRow | None]
"""Rows by key; None for a removed row."""


class ViewPatch(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that changed, with the time."""

    now: float
    sections: dict[PageSection, dict[str, AnyRow | None]]

    @property
    def empty(self) -> bool:
        return not self.sections

    def as_json(self) -> bytes:
        """JSON: `{"now": 1.0, "nodes": {"a": {...}, "b": null}}`."""
        plain: dict[str, Any] = {"now": self.now}
        return msgspec.json.encode(plain | self.sections)


class SectionTable:
    """Rows of one section as last sent, and the changes since."""

    def __init__(self) -> None:
        self.rows: dict[str, AnyRow] = {}
        self._changed: dict[str, AnyRow | None] = {}

    def put(self, key: str, row: AnyRow) -> bool:
        """Store a row. True if it differs from the stored one."""
        if self.rows.get(key) == row:
            return False
        self.rows[key] = self._changed[key] = row
        return True

    def drop(self, key: str) -> None:
        if self.rows.pop(key, None) is not None:
            self._changed[key] = None

    def taken(self) -> dict[str, AnyRow | None]:
        """Changes since the last call."""
        changed, self._changed = self._changed, {}
        return changed


class PatchSum:
    """Sum of all patches so far: the page of a browser that has received all of them."""

    def __init__(self) -> None:
        self.now = 0.0
        self._sections: dict[PageSection, dict[str, AnyRow]] = {}

    def apply(self, patch: ViewPatch) -> None:
        self.now = patch.now
        for section, rows in patch.sections.items():
            known = self._sections.setdefault(section, {})
            for key, row in rows.items():
                if row is None:
                    known.pop(key, None)
                else:
                    known[key] = row

    def snapshot(self) -> ViewPatch:
        """Patch from nothing to the present."""
        return ViewPatch(now=self.now, sections={section: dict(rows) for section, rows in self._sections.items()})
