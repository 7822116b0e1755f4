"""Every version of some objects, straight from kube-apiserver's own watch: HTTP and JSON of the standard library.

Our own client and informers have no part in it. Where an API server that was started again no longer knows the version
we stopped at (410), the missing versions are listed one by one (`resourceVersionMatch=Exact`), so that none is missed.
"""

import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

from ullage.testing.checks.exclusivity import ApiChange

SILENT_SECONDS = 3.0
"""A connection without a byte for so long is opened again: its server may have been stopped."""
PAUSE_SECONDS = 0.1
MOST_MISSING = 5_000
"""Versions that are listed one by one; more are a gap, which is an error."""
CAUGHT_UP_SECONDS = 60.0


class WatchGap(Exception):
    """Versions that could not be read any more: nothing can be said of them."""


class _Expired(Exception):
    """The API server does not know the version any more."""


class RawWatch:
    """Records the changes of one kind inside its block, in a thread. Connections may break at any time."""

    def __init__(self, server: str, tls: ssl.SSLContext, path: str, kind: str) -> None:
        where = urlsplit(server)
        self._host, self._port = where.hostname or "", where.port or 443
        self._tls = tls
        self._path = path
        self._kind = kind
        self.present: dict[str, dict[str, Any]] = {}
        """Objects as they were last seen."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"watch of {kind}", daemon=True)
        self.version = 0
        """Newest version that is known to be complete."""
        self.changes: list[ApiChange] = []
        self.failed: Exception | None = None
        self.reconnected = 0
        self.listed = 0
        """Versions that were listed one by one."""

    def __enter__(self) -> Self:
        self._take(self._list())
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(2 * SILENT_SECONDS)

    def catch_up(self) -> None:
        """Wait until everything that is there now is recorded. Raises what ended the watch."""
        page = self._list()
        wanted = {_key(one): _version(one) for one in page["items"]}
        ends = time.monotonic() + CAUGHT_UP_SECONDS
        while any(_version(self.present.get(key)) < version for key, version in wanted.items()):
            if self.failed is not None:
                raise self.failed
            if time.monotonic() > ends:
                raise TimeoutError(f"the watch of {self._kind} is behind")
            time.sleep(PAUSE_SECONDS)

    def _follow(self) -> None:
        while not self._ended.is_set():
            try:
                for line in self._watch():
                    self._apply(line)
                    if self._ended.is_set():
                        return
            except _Expired:
                self._recover()
            except (OSError, http.client.HTTPException, json.JSONDecodeError):
                self.reconnected += 1
                self._ended.wait(PAUSE_SECONDS)
            if self.failed is not None:
                return

    def _recover(self) -> None:
        """List the versions that no watch gives any more, each as it was."""
        try:
            newest = int(self._list()["metadata"]["resourceVersion"])
            if newest - self.version > MOST_MISSING:
                raise WatchGap(f"{self._kind}: {newest - self.version} versions after {self.version} are missing")
            for version in range(self.version + 1, newest + 1):
                self._take(self._list(version))
                self.listed += 1
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            self.reconnected += 1
            self._ended.wait(PAUSE_SECONDS)
        except (WatchGap, _Expired) as gap:
            self.failed = gap

    def _take(self, page: dict[str, Any]) -> None:
        """Record how the list differs from what is known."""
        version = int(page["metadata"]["resourceVersion"])
        found = {_key(one): one for one in page["items"]}
        for key in [one for one in self.present if one not in found]:
            self._record(version, key, None)
        for key, thing in found.items():
            if _version(self.present.get(key)) != _version(thing):
                self._record(_version(thing), key, thing)
        self.version = version

    def _apply(self, line: dict[str, Any]) -> None:
        change, thing = line["type"], line["object"]
        if change == "ERROR":
            if thing.get("code") == http.client.GONE:
                raise _Expired
            raise http.client.HTTPException(str(thing))
        version = _version(thing)
        if change != "BOOKMARK":
            self._record(version, _key(thing), None if change == "DELETED" else thing)
        self.version = version

    def _record(self, version: int, key: str, thing: dict[str, Any] | None) -> None:
        if thing is None:
            self.present.pop(key, None)
        else:
            self.present[key] = thing
        self.changes.append(ApiChange(version, self._kind, key, thing))

    def _list(self, version: int | None = None) -> dict[str, Any]:
        exact = {} if version is None else {"resourceVersion": version, "resourceVersionMatch": "Exact"}
        connection = self._connect()
        try:
            page: dict[str, Any] = json.loads(self._get(connection, exact).read())
            return page
        finally:
            connection.close()

    def _watch(self) -> Iterator[dict[str, Any]]:
        connection = self._connect()
        try:
            wanted = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": self.version}
            answer = self._get(connection, wanted)
            while line := answer.readline():
                yield json.loads(line)
        finally:
            connection.close()

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._host, self._port, timeout=SILENT_SECONDS, context=self._tls)

    def _get(self, connection: http.client.HTTPSConnection, wanted: dict[str, Any]) -> http.client.HTTPResponse:
        connection.request("GET", f"{self._path}?{urlencode(wanted)}", headers={"Accept": "application/json"})
        answer = connection.getresponse()
        if answer.status == http.client.GONE:
            raise _Expired
        if answer.status != http.client.OK:
            raise http.client.HTTPException(f"{answer.status}: {answer.read()[:200]!r}")
        return answer


def tls_of(ca: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    """TLS with a client certificate from files."""
    context = ssl.create_default_context(cafile=str(ca))
    context.load_cert_chain(certificate, key)
    return context


def _version(thing: dict[str, Any] | None) -> int:
    return 0 if thing is None else int(thing["metadata"]["resourceVersion"])


def _key(thing: dict[str, Any]) -> str:
    meta = thing["metadata"]
    return f"{meta.get('namespace', '')}/{meta['name']}"
