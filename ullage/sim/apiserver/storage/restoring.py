"""Objects as they were somewhere else: stored with their identity, their times and their status. Nothing is judged."""

from ullage.errors import UserError
from ullage.sim.apiserver.kinds.kind import ServedKind
from ullage.sim.apiserver.kinds.metadata import tidy
from ullage.sim.apiserver.kinds.registry import KindRegistry
from ullage.sim.apiserver.storage.context import ServerContext
from ullage.sim.apiserver.storage.json_bytes import JsonObject, decode, encode
from ullage.sim.apiserver.storage.views import inward

_FORGOTTEN = ("resourceVersion", "managedFields", "selfLink")


def restore_object(world: ServerContext, registry: KindRegistry, manifest: JsonObject) -> None:
    """Put it in its place; what is there by that name is replaced. Raises UserError for a kind that is not served."""
    kind = _kind(registry, manifest)
    obj: JsonObject = inward(kind, decode(encode(manifest)))
    metadata = obj["metadata"]
    for member in _FORGOTTEN:
        metadata.pop(member, None)
    kind.rules.default(obj)
    obj["metadata"] = tidy(metadata)
    world.store.put(kind.place, kind.key(metadata.get("namespace", ""), metadata["name"]), obj, "restored")


def _kind(registry: KindRegistry, manifest: JsonObject) -> ServedKind:
    said = (manifest.get("apiVersion"), manifest.get("kind"))
    for kind in registry.kinds():
        if (f"{kind.group}/{kind.version}" if kind.group else kind.version, kind.kind) == said:
            return kind
    raise UserError(f"{said[0]} {said[1]}: the simulated API server serves no such kind")
