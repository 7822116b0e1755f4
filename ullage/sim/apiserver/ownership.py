"""Who owns which fields, for server-side apply."""

from ullage.sim.apiserver.call import Call
from ullage.sim.apiserver.store import Stored
from ullage.sim.apiserver.wire import JsonObject


def same(obj: JsonObject, old: JsonObject) -> bool:
    return obj == old


def after_update(call: Call, old: Stored, obj: JsonObject, now: str) -> object:
    return old.owners
