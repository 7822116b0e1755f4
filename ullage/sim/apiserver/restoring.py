"""Objects as they were somewhere else: stored with their identity, their times and their status. Nothing is judged."""

from ullage.errors import UserError
from ullage.sim.apiserver.kinds import Kind
from ullage.sim.apiserver.metadata import tidy
from ullage.sim.apiserver.registry import Registry
from ullage.sim.apiserver.views import inward
from ullage.sim.apiserver.wire import JsonObject, decode, encode
from ullage.sim.apiserver.world import World

_FORGOTTEN = ("resourceVersion", "managedFields", "selfLink")


def restore_object(world: World, registry: Registry, manifest: JsonObject) -> None:
    """Put it in its place; what is there by that name is replaced. Raises UserError for a kind nobody serves."""
    kind = _kind(registry, manifest)
    obj: JsonObject = inward(kind, decode(encode(manifest)))
    metadata = obj["metadata"]
    for member in _FORGOTTEN:
        metadata.pop(member, None)
    kind.rules.default(obj)
    obj["metadata"] = tidy(metadata)
    world.store.put(kind.place, kind.key(metadata.get("namespace", ""), metadata["name"]), obj, "restored")


def _kind(registry: Registry, manifest: JsonObject) -> Kind:
    said = (manifest.get("apiVersion"), manifest.get("kind"))
    for kind in registry.kinds():
        if (f"{kind.group}/{kind.version}" if kind.group else kind.version, kind.kind) == said:
            return kind
    raise UserError(f"{said[0]} {said[1]}: the simulated API server serves no such kind")
