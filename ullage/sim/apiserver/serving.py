"""Custom kinds come into service when their definition is written, and leave with it."""

from ullage.sim.apiserver.kinds import Kind
from ullage.sim.apiserver.registry import Registry
from ullage.sim.apiserver.store import Store
from ullage.sim.apiserver.watchers import Watcher


class CustomKinds:
    def __init__(self, registry: Registry, store: Store) -> None:
        self._registry = registry
        self._store = store

    def attach(self, kind: Kind, watcher: Watcher) -> None:
        """A watch of a kind ends with the kind."""
