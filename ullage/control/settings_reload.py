"""Live reload: follow the settings file of a process, and hand changes that it can take over to its loops.

The file is read every few seconds and compared by its text, so that a mounted ConfigMap (a symlink that is swapped), an
editor's rename and a rewrite in place are all seen. What a reload gives is what a restart with that file would give,
but for settings that need one. A file that cannot be used changes nothing.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import structlog

from ullage.config.reload import SettingsReload, reload
from ullage.config.settings import Settings
from ullage.errors import UserError
from ullage.model.units import Seconds
from ullage.observe.events import EventMessage, EventReason, ObjectReference
from ullage.observe.settings_metrics import SettingsMetrics

_log = structlog.get_logger("settings")

POLL_SECONDS = Seconds(2.0)
"""Time between two readings. A changed text counts once two readings agree: the first may be of half a write."""
_MOST_NAMED = 10


class Configurable(Protocol):
    """A running program whose settings may change."""

    def configure(self, settings: Settings) -> None:
        """Take over settings that can change while it runs."""
        ...

    def announce(self, message: EventMessage) -> None:
        """Record an Event, if it may write now."""
        ...


class SettingsReloader:
    """Settings in force of one process. `run` follows their file until cancelled."""

    def __init__(
        self,
        path: str,
        settings: Settings,
        read: Callable[[str], Settings],
        about: ObjectReference,
        metrics: SettingsMetrics,
    ) -> None:
        """`read` makes settings of the file's text and raises UserError; `about` is the object of Events."""
        self.settings = settings
        """In force; loops that are made later begin with them."""
        self.program: Configurable | None = None
        """Program that runs now; None between two terms of leadership."""
        self._path = path
        self._read = read
        self._about = about
        self._metrics = metrics
        self._used = self._text()
        """Text that was last applied or refused, or the reason it could not be read."""
        self._seen = self._used

    async def run(self) -> None:
        """Follow the file until cancelled."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            self.observe(await asyncio.to_thread(self._text))

    def observe(self, text: "str | UserError") -> None:
        """Take in the text of the file, or the reason it cannot be read."""
        settled, self._seen = _same(text, self._seen), text
        if not settled or _same(text, self._used):
            return
        self._used = text
        try:
            if isinstance(text, UserError):
                raise text
            done = reload(self.settings, self._read(text))
        except (UserError, ValueError) as error:
            self._refuse(str(error))
        else:
            self._apply(done)

    def _apply(self, done: SettingsReload) -> None:
        self.settings = done.settings
        if self.program is not None:
            self.program.configure(done.settings)
        self._metrics.applied(waiting=len(done.waiting))
        _log.info(
            "settings file changed",
            file=self._path,
            applied=[str(one) for one in done.applied],
            waiting_for_restart=[str(one) for one in done.waiting],
        )
        parts = [", ".join(map(str, done.applied[:_MOST_NAMED]))] if done.applied else []
        if done.waiting:
            parts.append("waiting for a restart: " + ", ".join(one.path for one in done.waiting[:_MOST_NAMED]))
        self._announce(EventReason.SETTINGS_RELOADED, "; ".join(parts) or "no setting differs")

    def _refuse(self, why: str) -> None:
        self._metrics.refused()
        _log.error("settings file refused; the settings in force stay", file=self._path, problems=why.splitlines())
        self._announce(EventReason.SETTINGS_REFUSED, f"{why.splitlines()[0]}; the settings in force stay")

    def _announce(self, reason: EventReason, note: str) -> None:
        if self.program is not None:
            self.program.announce(EventMessage(self._about, reason, note, topic=note))

    def _text(self) -> "str | UserError":
        try:
            return Path(self._path).read_text(encoding="utf-8")
        except OSError as error:
            return UserError(f"{self._path}: {(error.strerror or 'cannot be read').lower()}")
        except UnicodeDecodeError:
            return UserError(f"{self._path}: is not UTF-8 text; give YAML")


def _same(one: "str | UserError", other: "str | UserError") -> bool:
    return str(one) == str(other) and isinstance(one, UserError) == isinstance(other, UserError)
