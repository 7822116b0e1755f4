"""A history opened by its settings: in a file, or in memory."""

from pathlib import Path

from ullage.clock import Clock
from ullage.config.dashboard import DashboardSettings
from ullage.web.history.log import HistoryBounds, HistoryLog
from ullage.web.history.store import FileStore, MemoryStore
from ullage.web.history.writer import HistoryWriter

IN_MEMORY = 16 << 20
"""Bytes of a history that is in memory, at most."""


def open_history(settings: DashboardSettings, clock: Clock) -> HistoryWriter:
    """Open the history. Raises UserError if its file is not one, is in use, or cannot be written."""
    notes: list[str] = []
    bounds = HistoryBounds(settings.history_max_size, settings.history_max_age)
    if settings.history_file is None:
        store: FileStore | MemoryStore = MemoryStore()
        bounds = HistoryBounds(min(IN_MEMORY, bounds.max_size), bounds.max_age)
    else:
        store = FileStore(Path(settings.history_file))
        if store.set_aside:
            notes.append(f"the file was of another version; it is {store.set_aside} now, and a new one is begun")
    return HistoryWriter(HistoryLog(store, bounds), clock, notes=notes)
