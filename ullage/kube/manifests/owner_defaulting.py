"""Uids for controllers and the references to them, where files were written without: by kind and name."""

from collections.abc import Iterable

from msgspec.structs import replace

from ullage.kube.objects.meta import ObjectMeta

_Named = tuple[str, str, str]
"""Kind, namespace and name."""


class Owners:
    """Uids of controllers by name, as the controllers themselves or the references to them say."""

    def __init__(self, objects: Iterable[tuple[str, ObjectMeta]]) -> None:
        """`objects` with their kinds: controllers and whatever refers to them."""
        self._uids: dict[_Named, str] = {}
        for kind, meta in objects:
            self._learn((kind, meta.namespace, meta.name), meta.uid)
            for one in meta.owner_references:
                self._learn((one.kind, meta.namespace, one.name), one.uid)

    def referring(self, meta: ObjectMeta) -> ObjectMeta:
        """Return the metadata with a uid in every owner reference."""
        if all(one.uid for one in meta.owner_references):
            return meta
        whole = (
            one if one.uid else replace(one, uid=self._uid(one.kind, meta.namespace, one.name))
            for one in meta.owner_references
        )
        return replace(meta, owner_references=tuple(whole))

    def owning(self, kind: str, meta: ObjectMeta) -> ObjectMeta:
        """Return the metadata of a controller with its uid."""
        return replace(meta, uid=self._uid(kind, meta.namespace, meta.name))

    def _learn(self, named: _Named, uid: str) -> None:
        if uid:
            self._uids.setdefault(named, uid)

    def _uid(self, kind: str, namespace: str, name: str) -> str:
        """Uid of a controller: known, else made up in a form that no API server uses."""
        return self._uids.get((kind, namespace, name)) or f"{kind}/{namespace}/{name}"
