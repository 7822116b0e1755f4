"""Open a watch: from a past revision, or from the present with the existing objects first."""

import re
from collections.abc import Callable

from ullage.sim.apiserver.request.api_call import ApiCall
from ullage.sim.apiserver.request.field_errors import FieldError, forbidden_field, unsupported
from ullage.sim.apiserver.request.selectors import ObjectFilter, choose
from ullage.sim.apiserver.request.status_errors import StatusSubject, expired, invalid, unexpected
from ullage.sim.apiserver.storage.store import Compacted, ObjectTable, Store, StoreRevision
from ullage.sim.apiserver.storage.watchers import Watcher, WatchTerms
from ullage.sim.apiserver.verbs.get_list import prefix_of


def open_watch(call: ApiCall, store: Store, *, now: float, lasts: Callable[[], float], buffer: int) -> Watcher:
    """A fed watcher. Raises StatusError for invalid requests; a revision too old is an error line, as over HTTP."""
    _check_watch_options(call)
    since = _since(call.query.get("resourceVersion", ""))
    shelf = store.shelf(call.kind.place)
    terms = WatchTerms(
        kind=call.kind,
        prefix=prefix_of(call),
        choice=_choice(call),
        bookmarks=call.flag("allowWatchBookmarks"),
        ends=now + (call.number("timeoutSeconds") or lasts()),
        buffer=buffer,
    )
    watcher = Watcher(terms, now, lambda: store.revision)
    _fill(call, watcher, shelf, store.revision, since)
    if not watcher.closed:
        watcher.on_close = shelf.listen(_after(since, store.revision, watcher))
    watcher.start()
    return watcher


def _fill(call: ApiCall, watcher: Watcher, shelf: ObjectTable, revision: int, since: int) -> None:
    initial = call.flag("sendInitialEvents")
    if initial or (since == 0 and not call.query.get("sendInitialEvents")):
        for stored in shelf.scan(StoreRevision(revision, {}), watcher.terms.prefix, ""):
            watcher.add(stored)
        if initial and watcher.terms.bookmarks:
            watcher.bookmark(initial_end=True)
        return
    if since == 0:
        return
    try:
        for change in shelf.changes_since(since):
            watcher.see(change)
    except Compacted as gone:
        watcher.refuse(expired(f"too old resource version: {since} ({gone.oldest})"))


def _after(since: int, revision: int, watcher: Watcher) -> Callable[..., None]:
    """A revision of the future is waited for."""
    if since <= revision:
        return watcher.see
    return lambda change: watcher.see(change) if change.revision > since else None


def _choice(call: ApiCall) -> ObjectFilter:
    fields = call.query.get("fieldSelector", "")
    if call.target.name:
        fields = f"metadata.name={call.target.name}"
    return choose(call.kind, call.query.get("labelSelector", ""), fields)


def _since(text: str) -> int:
    if re.fullmatch(r"\d*", text) is None:
        problem = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise unexpected(f'resourceVersion: Invalid value: "{text}": {problem}')
    return int(text or 0)


def _check_watch_options(call: ApiCall) -> None:
    match, initial = call.query.get("resourceVersionMatch", ""), call.query.get("sendInitialEvents", "")
    errors: list[FieldError] = []
    name = "resourceVersionMatch"
    if initial and match != "NotOlderThan":
        errors.append(forbidden_field(name, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
    if match and not initial:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        errors.append(forbidden_field(name, why))
    if match not in ("", "NotOlderThan"):
        errors.append(unsupported(name, match, ["NotOlderThan"]))
    if errors:
        raise invalid(StatusSubject("ListOptions", "meta.k8s.io"), errors)
