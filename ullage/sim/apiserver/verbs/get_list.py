"""GET of one object, lists in pages, and the opening of watches."""

import base64
import re
from dataclasses import dataclass
from itertools import islice

from ullage.kube.client.transport import Response
from ullage.sim.apiserver.request.api_call import ApiCall
from ullage.sim.apiserver.request.field_errors import FieldError, forbidden_field, unsupported
from ullage.sim.apiserver.request.selectors import ObjectFilter, choose
from ullage.sim.apiserver.request.status_errors import (
    StatusError,
    StatusSubject,
    bad_request,
    expired,
    invalid,
    not_found,
    revision_too_large,
)
from ullage.sim.apiserver.storage.json_bytes import JsonObject, decode, encode
from ullage.sim.apiserver.storage.store import Compacted, Store, StoredObject, StoreRevision
from ullage.sim.apiserver.storage.views import encoded, list_body

TOO_OLD_LIST = "The resourceVersion for the provided list is too old."
TOO_OLD_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class ContinueToken:
    """Key a paged list goes on at, and the revision it shows; a revision of 0 or less is the present."""

    revision: int
    start: str

    def text(self) -> str:
        raw = encode({"v": "meta.k8s.io/v1", "rv": self.revision, "start": self.start})
        return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def read_token(text: str) -> ContinueToken:
    try:
        raw = decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        return ContinueToken(int(raw["rv"]), str(raw["start"]))
    except (ValueError, KeyError, TypeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error


def read_revision(text: str) -> int:
    """Value of a resourceVersion parameter. Raises StatusError."""
    if not text:
        return 0
    if re.fullmatch(r"\d+", text) is None:
        problem = f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(f"invalid resource version: resourceVersion: {problem}")
    return int(text)


def get(call: ApiCall, store: Store) -> Response:
    """One object, as it is now."""
    _not_from_the_future(read_revision(call.query.get("resourceVersion", "")), store)
    stored = store.shelf(call.kind.place).get(call.key)
    if stored is None:
        raise not_found(call.kind.about(call.target.name))
    return Response(200, encoded(call.kind, stored))


@dataclass(frozen=True, slots=True)
class ListPage:
    """A page of a list."""

    items: list[StoredObject]
    metadata: JsonObject


def list_page(call: ApiCall, store: Store) -> ListPage:
    """A page, or all. Raises StatusError with 410 if the revision asked for is compacted."""
    _check_list_options(call)
    choice = choose(call.kind, call.query.get("labelSelector", ""), call.query.get("fieldSelector", ""))
    shelf, prefix = store.shelf(call.kind.place), prefix_of(call)
    token = read_token(call.query["continue"]) if call.query.get("continue") else None
    limit = max(call.number("limit") or 0, 0)
    if call.query.get("resourceVersion") == "0":
        limit = 0  # served from what is at hand, and that is never in pages
    at = _at_revision(call, store, token)
    start = prefix + token.start.lstrip("/") if token else ""
    page: list[StoredObject] = []
    last = ""
    matching = (item for item in shelf.scan(at, prefix, start) if choice.everything or choice.matches(item.obj))
    page = list(islice(matching, limit)) if limit else list(matching)
    metadata: JsonObject = {"resourceVersion": str(at.revision)}
    if limit and len(page) == limit and page:
        last = page[-1].key + "\x00"
        _say_what_is_left(
            metadata,
            choice,
            shelf.count(at, prefix, last),
            ContinueToken(at.revision, "/" + last[len(prefix) :]),
        )
    return ListPage(page, metadata)


def list_objects(call: ApiCall, store: Store) -> Response:
    found = list_page(call, store)
    return Response(200, list_body(call.kind, found.items, found.metadata))


def prefix_of(call: ApiCall) -> str:
    """Prefix of the keys of the objects asked for."""
    return f"{call.target.namespace}/" if call.kind.namespaced and call.target.namespace else ""


def _say_what_is_left(metadata: JsonObject, choice: ObjectFilter, left: int, token: ContinueToken) -> None:
    """With a selector the server does not count what it would have to search."""
    if left == 0:
        return
    metadata["continue"] = token.text()
    if choice.everything:
        metadata["remainingItemCount"] = left


def _at_revision(call: ApiCall, store: Store, token: ContinueToken | None) -> StoreRevision:
    shelf = store.shelf(call.kind.place)
    now = StoreRevision(store.revision, {})
    if token is not None:
        if token.revision <= 0:
            return now
        try:
            return shelf.at_revision(token.revision)
        except Compacted:
            raise _token_expired(token) from None
    asked = read_revision(call.query.get("resourceVersion", ""))
    _not_from_the_future(asked, store)
    match = call.query.get("resourceVersionMatch", "")
    exact = match == "Exact" or (match == "" and asked and (call.number("limit") or 0) > 0)
    if not exact:
        return now
    try:
        return shelf.at_revision(asked)
    except Compacted:
        raise expired(TOO_OLD_LIST) from None


def _token_expired(token: ContinueToken) -> StatusError:
    """Error with a token that goes on without the revision, for clients that accept an inconsistent list."""
    refusal = expired(TOO_OLD_CONTINUE)
    refusal.metadata = {"continue": ContinueToken(-1, token.start).text()}
    return refusal


def _not_from_the_future(asked: int, store: Store) -> None:
    if asked > store.revision:
        raise revision_too_large(asked, store.revision)


def _check_list_options(call: ApiCall) -> None:
    revision, match = call.query.get("resourceVersion", ""), call.query.get("resourceVersionMatch", "")
    errors: list[FieldError] = []
    name = "resourceVersionMatch"
    if match and not revision:
        errors.append(forbidden_field(name, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
    if match and call.query.get("continue"):
        errors.append(forbidden_field(name, "resourceVersionMatch is forbidden when continue is provided"))
    if match not in ("", "Exact", "NotOlderThan"):
        errors.append(unsupported(name, match, ["Exact", "NotOlderThan", ""]))
    if match == "Exact" and revision == "0":
        errors.append(forbidden_field(name, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if call.query.get("sendInitialEvents"):
        errors.append(forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if errors:
        raise invalid(StatusSubject("ListOptions", "meta.k8s.io"), errors)
    if call.query.get("continue") and revision not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
